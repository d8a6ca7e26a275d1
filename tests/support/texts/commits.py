"""A real database with a data file, and the result of an attempt on a copy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from assayd_pipeline_commands.commit import CommitResult

ID = "01JTC8ZK5V0000000000000000"


class Killed(BaseException):
    """Simulates a power cut."""


def make(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path.read_bytes()


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name FROM t ORDER BY name").fetchall()


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """Return a folder with a database and a data file in use."""
    folder = tmp_path / "real"
    (folder / "data").mkdir(parents=True)
    make(folder / "shop.db", "CREATE TABLE t (name TEXT)", "INSERT INTO t VALUES ('old')")
    (folder / "data/a.csv").write_bytes(b"old\n")
    return folder


@pytest.fixture
def result(tmp_path: Path, real: Path) -> CommitResult:
    """Return the result of an attempt on a copy: a new row, a changed file, a new file."""
    copy = tmp_path / "copy.db"
    base = (real / "shop.db").read_bytes()
    copy.write_bytes(base)
    return CommitResult(
        attempt_id=ID,
        base_files={"data/a.csv": b"old\n"},
        new_files={"data/a.csv": b"new\n", "data/deep/b.csv": b"made\n"},
        base_database=base,
        new_database=make(copy, "INSERT INTO t VALUES ('new')"),
    )


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
