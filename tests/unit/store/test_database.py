from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from assayd.errors import StoreError
from assayd.store.database import FILE, HEAD, open_database
from assayd.store.jobs import open_jobs
from assayd.store.migrations import configuration, upgrade
from assayd_pipeline.tables import metadata  # those of pipelines included

Make = Any  # the fixture's class; test folders are not a package


def refusal(folder: Path) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_database(folder)
    return caught.value


def test_head_is_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(configuration()).get_current_head() == HEAD


def test_migrations_come_to_the_tables_and_indexes_that_a_new_database_gets(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/migrated.db"
    engine = create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, None, HEAD)
    assert open_database(tmp_path, url).close() is None  # current: nothing is made anew
    new = open_database(tmp_path)
    found = []
    for database in (engine, new.writing):
        with database.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []
            found.append(forms(connection))
    assert found[0] == found[1]
    new.close()
    engine.dispose()


def forms(connection: Connection) -> dict[str, object]:
    """Return the definition of each table, independent of the order in which columns were created."""
    looked = inspect(connection)
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    tables = {
        name: (
            sorted(
                (c["name"], str(c["type"]), c["nullable"], c["default"]) for c in looked.get_columns(name)
            ),
            looked.get_pk_constraint(name)["constrained_columns"],
            sorted(map(str, looked.get_indexes(name))),
            sorted(map(str, looked.get_unique_constraints(name))),
            sorted(map(str, looked.get_foreign_keys(name))),
            sorted(map(str, looked.get_check_constraints(name))),
        )
        for name in looked.get_table_names()
        if name != "unsynced_bundles"
    }
    return {**tables, "": version}


async def test_database_of_the_first_version_is_taken_along_with_all_that_is_in_it(
    tmp_path: Path, make: Make
) -> None:
    async with open_jobs(tmp_path) as jobs:
        await jobs.accept(make.attempt(1), b"{}", idempotency_key="k")
        await jobs.accept(make.attempt(2), b"{}")
        await jobs.finish(make.finished(1), [make.event()])
    database = open_database(tmp_path)
    with database.writing.begin() as connection:
        config = configuration()
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")
        assert not inspect(connection).has_table("batches")
    database.close()

    async with open_jobs(tmp_path) as jobs:
        assert await jobs.get(make.attempt(1).id) == make.finished(1)
        assert [attempt.id for attempt in await jobs.unfinished()] == [make.attempt(2).id]
        assert await jobs.events(make.attempt(1).id) == [make.event()]
        usage = (await jobs.usage())[1000]
        assert (usage.attempts, usage.disk_bytes) == (1, 4096)


def test_tables_have_types_that_postgresql_has() -> None:
    statements = [str(CreateTable(t).compile(dialect=postgresql.dialect())) for t in metadata.sorted_tables]
    assert len(statements) == 21
    assert all("CREATE TABLE" in statement for statement in statements)


def test_commits_are_flushed_and_foreign_keys_hold(tmp_path: Path) -> None:
    database = open_database(tmp_path)
    with database.writing.connect() as connection:
        answers = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    database.close()
    assert answers == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_readers_cannot_write(tmp_path: Path) -> None:
    database = open_database(tmp_path)
    with database.reading.connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.execute(text("DELETE FROM attempts"))
    database.close()


def test_database_is_for_its_owner_only(tmp_path: Path) -> None:
    open_database(tmp_path / "state").close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_new", [True, False])
def test_database_that_needs_no_migration_opens_without_loading_alembic(tmp_path: Path, is_new: bool) -> None:
    if not is_new:
        open_database(tmp_path).close()
    program = (
        "import sys; from pathlib import Path; from assayd.store.database import open_database;"
        f"open_database(Path({str(tmp_path)!r})).close(); print('alembic' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_file_that_is_not_a_database_is_refused_and_left(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database at all" * 100)
    error = refusal(tmp_path)
    assert error.code == "store.corrupt"
    assert "restore it from a backup" in error.message
    assert (tmp_path / FILE).read_bytes() == b"not a database at all" * 100
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_damaged_page_is_found_before_anything_is_written(tmp_path: Path) -> None:
    open_database(tmp_path).close()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.executemany(
        "INSERT INTO submissions VALUES (?, ?)", [(f"{n:064}", b"x" * 500) for n in range(200)]
    )
    connection.commit()
    connection.close()
    content = bytearray((tmp_path / FILE).read_bytes())
    content[-4096 * 8 : -4096 * 4] = b"\xff" * 4096 * 4
    (tmp_path / FILE).write_bytes(content)
    assert refusal(tmp_path).code == "store.corrupt"
    assert (tmp_path / FILE).read_bytes() == content


def test_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    open_database(tmp_path).close()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    error = refusal(tmp_path)
    assert error.code == "store.newer"
    assert "install that version" in error.message


def test_state_directory_that_cannot_be_made_is_unwritable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = refusal(tmp_path / "file" / "state")
    assert error.code == "store.unwritable"
    assert "check owner, mode" in error.message


def test_database_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert refusal(tmp_path).code == "store.unwritable"


def test_database_on_a_read_only_file_system_is_unwritable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_named: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    assert refusal(tmp_path).code == "store.unwritable"


def test_url_of_an_sqlite_file_is_opened_as_the_default_one_is(tmp_path: Path) -> None:
    database = open_database(tmp_path, f"sqlite:///{tmp_path}/other/x.db")
    with database.writing.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    database.close()
    assert (tmp_path / "other" / "x.db").exists()
