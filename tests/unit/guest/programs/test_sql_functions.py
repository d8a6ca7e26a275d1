"""REGEXP, readfile() and generate_series() behave as in the sqlite3 shell."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assayd.guest.programs._sql_database import ShellFunctions, expand_series

Opened = tuple[sqlite3.Connection, ShellFunctions]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_bytes(b"abc")
    (tmp_path / "data/link").symlink_to("/etc/passwd")
    (tmp_path / "secret").write_bytes(b"no")
    functions = ShellFunctions()
    with closing(sqlite3.connect(":memory:")) as connection:
        functions.install(connection)
        yield connection, functions


def values(connection: sqlite3.Connection, statement: str) -> list[object]:
    return [row[0] for row in connection.execute(expand_series(statement))]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT value FROM generate_series(1, 5)", [1, 2, 3, 4, 5]),
        ("SELECT value FROM GENERATE_SERIES (1, 10, 4) WHERE value > 1", [5, 9]),
        ("SELECT value FROM generate_series(5, 1, -2)", [5, 3, 1]),
        ("SELECT value FROM generate_series(5, 1)", []),
        ("SELECT value FROM generate_series(2, 3, 0)", [2, 3]),
        ("SELECT value FROM generate_series(7) LIMIT 2", [7, 8]),
        ("SELECT generate_series.value FROM generate_series((1), (1 + 1) * 1)", [1, 2]),
        ("SELECT s.value FROM generate_series(1, 2) AS s ORDER BY 1 DESC", [2, 1]),
        ("SELECT a.value + b.value FROM generate_series(1, 1) a JOIN generate_series(2, 3) b", [3, 4]),
        ("SELECT 'generate_series(1, 2)' -- generate_series(1", ["generate_series(1, 2)"]),
        ("SELECT value FROM generate_series(1, (SELECT max(value) FROM generate_series(1, 2)))", [1, 2]),
    ],
)
def test_series_has_the_rows_of_the_shell(opened: Opened, statement: str, expected: list[object]) -> None:
    assert values(opened[0], statement) == expected


@pytest.mark.parametrize(
    "statement", ["SELECT 1 FROM generate_series(1, 2", "SELECT generate_series(1, 2, 3, 4)", "SELECT 1"]
)
def test_text_that_is_no_call_of_a_series_stays_as_it_is(statement: str) -> None:
    assert expand_series(statement) == statement


def test_long_statement_is_read_in_time_that_grows_with_its_length() -> None:
    assert expand_series("SELECT " + "('" * 50_000).startswith("SELECT")
    assert expand_series("generate_series(" * 20_000).startswith("generate_series")


def test_regexp_finds_a_pattern_and_knows_null(opened: Opened) -> None:
    assert values(opened[0], "SELECT 'abc' REGEXP '^a.c$'") == [1]
    assert values(opened[0], "SELECT 'abc' NOT REGEXP 'x'") == [1]
    assert values(opened[0], "SELECT NULL REGEXP 'x'") == [None]


def test_pattern_that_cannot_be_read_says_why(opened: Opened) -> None:
    with pytest.raises(sqlite3.OperationalError):
        values(opened[0], "SELECT 'a' REGEXP '('")
    assert "missing )" in opened[1].refused


def test_readfile_reads_below_data_and_is_null_for_a_missing_file(opened: Opened) -> None:
    assert values(opened[0], "SELECT readfile('data/x')") == [b"abc"]
    assert values(opened[0], "SELECT readfile('data/gone')") == [None]


@pytest.mark.parametrize("path", ["secret", "/etc/passwd", "data/../secret", "./data/x", ""])
def test_readfile_refuses_what_is_not_below_data(opened: Opened, path: str) -> None:
    with pytest.raises(sqlite3.OperationalError):
        values(opened[0], f"SELECT readfile('{path}')")
    assert "below data/" in opened[1].refused


def test_readfile_follows_no_link(opened: Opened) -> None:
    assert values(opened[0], "SELECT readfile('data/link')") == [None]
