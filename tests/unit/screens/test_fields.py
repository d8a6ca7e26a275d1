from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_screens.asking import (
    MAX_PATHS,
    expand_patterns,
    find_field_of_error,
    list_databases,
    replace_names_by_titles,
)


def test_a_pattern_becomes_the_files_that_it_matches(tmp_path: Path) -> None:
    (tmp_path / "2024/Q1").mkdir(parents=True)
    (tmp_path / "2024/Q1/report.csv").touch()
    assert expand_patterns([f"{tmp_path}/**/*.csv", "/not/there.csv"]) == [
        str(tmp_path / "2024/Q1/report.csv"),
        "/not/there.csv",
    ]


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no file matches"):
        expand_patterns([f"{tmp_path}/*.csv"])


def test_not_more_paths_are_taken_than_are_of_use(tmp_path: Path) -> None:
    for number in range(MAX_PATHS + 1):
        (tmp_path / f"{number}.csv").touch()
    assert len(expand_patterns([f"{tmp_path}/*.csv"])) == MAX_PATHS


def test_databases_of_a_folder_are_listed_with_their_tables(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "sales.db")) as connection, connection:
        connection.execute("CREATE TABLE sales (region TEXT)")
    (tmp_path / "broken.sqlite").write_bytes(b"no database, but long enough to be read as one" * 9)
    (tmp_path / "schema.sql").touch()
    assert list_databases(tmp_path) == [
        ("broken.sqlite not readable as SQLite", str(tmp_path / "broken.sqlite")),
        ("sales.db sales", str(tmp_path / "sales.db")),
        ("schema.sql a schema", str(tmp_path / "schema.sql")),
    ]


@pytest.mark.parametrize(
    ("named", "field"),
    [
        ("context.sample_paths.0", "sample_path"),
        ("context.cases.1.expected", "example"),
        ("context.database", "database"),
        ("context.stdin", "option"),
        ("provider", "provider"),
        ("context", "context"),
        ("policy", None),
        (None, None),
    ],
)
def test_an_error_is_about_the_field_that_it_names(named: str | None, field: str | None) -> None:
    assert find_field_of_error(named) == field


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("context.cases.0.expected: Field required", "Examples, entry 1, expected: Field required"),
        ("context.sample_paths.1: too long", "Sample paths, entry 2: too long"),
        ("context: pass sample_paths or cases", "pass Sample paths or Examples"),
        ("--sample-path: no such file", "Sample paths: no such file"),
        ("in these files", "in these files"),
    ],
)
def test_error_names_fields_by_their_titles(message: str, named: str) -> None:
    assert replace_names_by_titles(message) == named
