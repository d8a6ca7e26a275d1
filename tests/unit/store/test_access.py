from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from assayd.errors import RequestError, StoreError
from assayd.store.access import FILE, HEAD, MAX_AT_ONCE, Writer, open_database
from assayd.store.jobs import open_job_store
from assayd.store.migrations import configuration, upgrade
from assayd_pipeline.stored import metadata  # those of pipelines included
from support.stores.empty_database import lay_database


class Commits:
    """A writer on a new database that counts its commits."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        lay_database(folder)
        self.database = open_database(folder)
        with self.database.writing.begin() as connection:
            connection.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
        event.listen(self.database.writing, "commit", self._count)
        self.writer = Writer(self.database.writing)
        self.writer.start()

    def _count(self, _connection: Connection) -> None:
        self.count += 1

    def rows(self) -> list[int]:
        with self.database.reading.connect() as connection:
            return list(connection.execute(text("SELECT n FROM t ORDER BY n")).scalars())


@pytest.fixture
async def commits(tmp_path: Path) -> AsyncIterator[Commits]:
    commits = Commits(tmp_path)
    yield commits
    await commits.writer.close()
    commits.database.close()


def put(number: int) -> object:
    return lambda connection: connection.execute(text("INSERT INTO t VALUES (:n)"), {"n": number}).rowcount


class Busy:
    """A change that blocks the writer's thread until it is released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, _connection: Connection) -> None:
        self.begun.set()
        self.let_go.wait(10)


async def queued(commits: Commits, changes: list[object]) -> list[object]:
    """Queue changes while the writer is busy, so that they are one group; return their results."""
    busy = Busy()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(commits.writer.write(busy))
        await asyncio.to_thread(busy.begun.wait, 10)
        asked = asyncio.gather(*(commits.writer.write(c) for c in changes), return_exceptions=True)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        commits.count = 0
        busy.let_go.set()
    return await asked


async def test_changes_that_wait_together_share_one_commit(commits: Commits) -> None:
    results = await queued(commits, [put(n) for n in range(40)])
    assert results == [1] * 40
    assert commits.rows() == list(range(40))
    assert commits.count == 2  # the busy one's and theirs


async def test_failing_change_does_not_fail_its_neighbours(commits: Commits) -> None:
    results = await queued(commits, [put(1), put(1), put(2)])
    assert (results[0], results[2]) == (1, 1)
    assert isinstance(results[1], StoreError)
    assert results[1].code == "store.conflict"
    assert commits.rows() == [1, 2]


async def test_refusal_by_a_change_reaches_its_caller_alone(commits: Commits) -> None:
    def refuse(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t VALUES (7)"))
        raise RequestError("conflict", "no")

    results = await queued(commits, [put(1), refuse])
    assert isinstance(results[1], RequestError)
    assert commits.rows() == [1]


async def test_bug_in_a_change_reaches_its_caller_and_the_writer_goes_on(commits: Commits) -> None:
    def stumble(_connection: Connection) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await commits.writer.write(stumble)
    assert await commits.writer.write(put(1)) == 1  # type: ignore[arg-type]


async def test_more_than_fit_in_a_group_take_another_commit(commits: Commits) -> None:
    await queued(commits, [put(n) for n in range(MAX_AT_ONCE + 10)])
    assert commits.count == 3
    assert len(commits.rows()) == MAX_AT_ONCE + 10


async def test_full_disk_is_reported_as_such_and_passes(commits: Commits) -> None:
    def fill(connection: Connection) -> None:
        pages = connection.execute(text("PRAGMA page_count")).scalar()
        connection.execute(text(f"PRAGMA max_page_count={pages}"))
        for n in range(10_000):
            connection.execute(text("INSERT INTO t VALUES (:n)"), {"n": n})

    with pytest.raises(StoreError, match="free space") as caught:
        await commits.writer.write(fill)
    assert (caught.value.code, caught.value.retryable) == ("store.full", True)
    assert commits.rows() == []
    assert await commits.writer.write(put(1)) == 1  # type: ignore[arg-type]


class Large:
    """A value that a change holds."""


async def test_what_was_written_is_not_held_until_the_next_write(commits: Commits) -> None:
    """Regression: the values of a large result were held, and increased the daemon's memory by 100 MB."""
    gone = threading.Event()
    large = Large()
    weakref.finalize(large, gone.set)

    def change(_connection: Connection, held: Large = large) -> None:
        assert held is not None

    await commits.writer.write(change)
    del large, change
    assert await asyncio.to_thread(gone.wait, 10)


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
    async with open_job_store(tmp_path) as jobs:
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

    async with open_job_store(tmp_path) as jobs:
        assert await jobs.get(make.attempt(1).id) == make.finished(1)
        assert [attempt.id for attempt in await jobs.list_unfinished()] == [make.attempt(2).id]
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
        "import sys; from pathlib import Path; from assayd.store.access import open_database;"
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
