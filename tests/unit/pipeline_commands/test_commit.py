"""`assay pipeline commit`: all or nothing, with a backup, and completed after an interruption."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assayd.errors import RequestError, StoreError
from assayd_pipeline_commands.commit import CommitResult, apply_result, preview_commit
from assayd_pipeline_commands.journal import (
    ReplacedObject,
    compute_content_digest,
    compute_digest,
    open_journal,
    read_journal,
)
from support.texts.commits import ID, Killed, everything, make, rows


def test_result_is_applied_and_what_it_replaces_is_kept(real: Path, result: CommitResult) -> None:
    before = everything(real)
    told = apply_result(result, real / "shop.db", real)

    assert rows(real / "shop.db") == [("new",), ("old",)]
    assert (real / "data/a.csv").read_bytes() == b"new\n"
    assert (real / "data/deep/b.csv").read_bytes() == b"made\n"
    assert (real / f"shop.db.{ID}.backup").read_bytes() == before["shop.db"]
    assert (real / f"data/a.csv.{ID}.backup").read_bytes() == b"old\n"
    assert len(everything(real)) == 6
    assert [line.partition(": ")[2].split(";")[0] for line in told] == ["replaced", "replaced", "created"]


def test_whoever_has_the_database_open_goes_on_with_the_new_content(real: Path, result: CommitResult) -> None:
    with closing(sqlite3.connect(real / "shop.db")) as other:
        assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)
        apply_result(result, real / "shop.db", real)
        assert other.execute("SELECT count(*) FROM t").fetchone() == (2,)
        other.execute("INSERT INTO t VALUES ('more')")
        other.commit()

    assert rows(real / "shop.db") == [("more",), ("new",), ("old",)]


def test_database_in_write_ahead_mode_stays_in_it(real: Path, result: CommitResult) -> None:
    base = make(real / "shop.db", "PRAGMA journal_mode = WAL")
    new = result.new_database or b""
    apply_result(
        replace(result, base_database=base, new_database=new[:18] + b"\x02\x02" + new[20:]),
        real / "shop.db",
        real,
    )

    with closing(sqlite3.connect(real / "shop.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert rows(real / "shop.db") == [("new",), ("old",)]


def test_committing_twice_changes_nothing_more(real: Path, result: CommitResult) -> None:
    apply_result(result, real / "shop.db", real)
    before = everything(real)

    assert apply_result(result, real / "shop.db", real) == []
    assert everything(real) == before


def make_folder_with_b(real: Path) -> None:
    (real / "data/deep").mkdir()
    (real / "data/deep/b.csv").write_bytes(b"somebody's\n")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda real: make(real / "shop.db", "INSERT INTO t VALUES ('other')"), "shop.db has changed since"),
        (lambda real: (real / "shop.db").unlink(), "shop.db doesn't exist"),
        (lambda real: (real / "shop.db").write_bytes(b"junk" * 1000), "can't be locked"),
        (lambda real: (real / "data/a.csv").write_bytes(b"other\n"), "a.csv has changed since"),
        (lambda real: (real / "data/a.csv").unlink(), "a.csv has been deleted since"),
        (make_folder_with_b, "b.csv exists, but didn't exist when the attempt began"),
        (lambda real: (real / "data/deep").symlink_to("/tmp"), "is outside"),
    ],
    ids=["database", "no database", "no such thing", "file", "no file", "file in the way", "link"],
)
def test_whatever_has_changed_since_refuses_all_of_it(
    real: Path, result: CommitResult, spoil, why: str
) -> None:
    spoil(real)
    before = everything(real)

    with pytest.raises(RequestError, match=why) as caught:
        apply_result(result, real / "shop.db", real)
    assert caught.value.code == "commit.refused"
    assert everything(real) == before


def test_database_that_somebody_writes_is_not_touched(
    real: Path, result: CommitResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assayd_pipeline_commands.journal.BUSY_S", 0.0)
    with closing(sqlite3.connect(real / "shop.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RequestError, match="locked"):
            apply_result(result, real / "shop.db", real)
    assert len(everything(real)) == 2


def test_changed_files_need_a_folder(real: Path, result: CommitResult) -> None:
    with pytest.raises(RequestError, match="pass the folder with --directory"):
        apply_result(result, real / "shop.db", None)
    assert len(everything(real)) == 2


def test_damaged_result_is_refused(real: Path, result: CommitResult) -> None:
    content = bytearray(result.new_database or b"")
    content[4096:4200] = b"\xff" * 104
    with pytest.raises((RequestError, StoreError)):
        apply_result(replace(result, new_database=bytes(content)), real / "shop.db", real)
    assert len(everything(real)) == 2
    assert rows(real / "shop.db") == [("old",)]


def test_database_that_was_made_is_created_and_never_overwrites(real: Path, result: CommitResult) -> None:
    made = replace(result, base_database=None, new_files={}, base_files={})
    assert apply_result(made, real / "fresh.db", None) == [f"{real / 'fresh.db'}: created"]
    assert rows(real / "fresh.db") == [("new",), ("old",)]

    with pytest.raises(RequestError, match=r"shop\.db exists"):
        apply_result(made, real / "shop.db", None)


def test_unchanged_database_must_still_be_what_was_read(real: Path, result: CommitResult) -> None:
    only_files = replace(result, new_database=None)
    make(real / "shop.db", "INSERT INTO t VALUES ('other')")
    with pytest.raises(RequestError, match="has changed since"):
        apply_result(only_files, real / "shop.db", real)


@pytest.mark.parametrize("step", ["staged", "begun", "backed_up", "database", "file"])
def test_commit_that_was_interrupted_is_completed_by_the_next(
    real: Path, result: CommitResult, step: str
) -> None:
    def checkpoint(reached: str) -> None:
        if reached == step:
            raise Killed

    with pytest.raises(Killed):
        apply_result(result, real / "shop.db", real, checkpoint)
    assert rows(real / "shop.db") in ([("old",)], [("new",), ("old",)])

    apply_result(result, real / "shop.db", real)

    assert rows(real / "shop.db") == [("new",), ("old",)]
    assert (real / "data/a.csv").read_bytes() == b"new\n"
    assert (real / "data/deep/b.csv").read_bytes() == b"made\n"
    assert [(r.action, r.state) for r in read_journal(real / "shop.db")][-1] == ("commit", "done")
    kept = {name for name in everything(real) if ID in name}
    assert kept == {f"shop.db.{ID}.backup", f"data/a.csv.{ID}.backup"}


def test_commit_is_recorded_with_who_when_digests_and_backups(real: Path, result: CommitResult) -> None:
    base = result.base_database or b""
    apply_result(result, real / "shop.db", real, name="nightly")

    lines = [json.loads(line) for line in (real / "shop.db.commits.jsonl").read_text().splitlines()]
    assert [line["state"] for line in lines] == ["begun", "done"]
    assert {line["uid"] for line in lines} == {os.getuid()}
    assert datetime.fromisoformat(lines[0]["at"]) <= datetime.now(UTC)
    (begun, done) = read_journal(real / "shop.db")
    assert (begun.attempt_id, begun.name, begun.files) == (ID, "nightly", done.files)
    after = compute_content_digest((real / "shop.db").read_bytes())
    kept = f"shop.db.{ID}.backup"
    assert begun.database == ReplacedObject(
        name="shop.db", before=compute_content_digest(base), after=after, backup=kept
    )
    assert begun.files == (
        ReplacedObject(
            name="data/a.csv",
            before=compute_digest(b"old\n"),
            after=compute_digest(b"new\n"),
            backup=f"a.csv.{ID}.backup",
        ),
        ReplacedObject(name="data/deep/b.csv", before=None, after=compute_digest(b"made\n"), backup=None),
    )


def test_dry_run_tells_everything_and_does_nothing(real: Path, result: CommitResult) -> None:
    hidden = replace(result, new_files={**result.new_files, ".profile": b"rm\n"})
    before = everything(real)
    told = preview_commit(hidden, real / "shop.db", real)

    assert everything(real) == before
    assert told == [
        f"{real}/shop.db: would be replaced; backup: shop.db.{ID}.backup",
        "  table t: 1 to 2 rows, 1 new or changed, 0 removed or changed",
        f"{real}/.profile: would be created (hidden)",
        f"{real}/data/a.csv: would be replaced",
        f"{real}/data/deep/b.csv: would be created",
    ]
    apply_result(hidden, real / "shop.db", real)
    assert preview_commit(hidden, real / "shop.db", real) == ["nothing to do"]


def test_dry_run_refuses_what_the_commit_would(real: Path, result: CommitResult) -> None:
    (real / "data/a.csv").write_bytes(b"other\n")
    with pytest.raises(RequestError, match=r"a\.csv has changed since"):
        preview_commit(result, real / "shop.db", real)


def test_two_commits_at_once_are_refused(real: Path, result: CommitResult) -> None:
    with open_journal(real / "shop.db"), pytest.raises(RequestError, match="is running"):
        apply_result(result, real / "shop.db", real)
    assert rows(real / "shop.db") == [("old",)]
