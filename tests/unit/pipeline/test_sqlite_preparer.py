"""Statements are prepared against a submission's tables, and never run."""

from __future__ import annotations

import time
from pathlib import Path

from assayd_pipeline.sql.preparer import TableSources
from assayd_pipeline.worker import SqlitePreparer


def test_tables_come_from_schema_statements_and_csv_heads() -> None:
    made = SqlitePreparer(
        TableSources(
            schema="CREATE TABLE a (x)",
            made=("CREATE TABLE b (y)", "DELETE FROM a"),
            heads={"data/c.csv": "z,w"},
        )
    )
    assert made.find_error('SELECT x, y, z FROM a, b, "data/c.csv"') is None
    assert made.find_error("SELECT q FROM a") == "no such column: q"


def test_broken_schema_leaves_fewer_tables() -> None:
    assert SqlitePreparer(TableSources(schema="CREATE TABLE a (")).names("table") == []


def test_damaged_database_has_no_tables() -> None:
    assert SqlitePreparer(TableSources(content=b"SQLite format 3\0" + b"\1" * 600)).find_error(
        "SELECT * FROM t"
    )


def test_file_is_not_attached(tmp_path: Path) -> None:
    target = tmp_path / "x.db"
    made = SqlitePreparer(TableSources(made=(f"CREATE TABLE a AS SELECT load_extension('{target}')",)))
    assert made.find_error(f"ATTACH '{target}' AS x") is not None
    assert not target.exists()


def test_endless_statement_is_ended() -> None:
    endless = (
        "CREATE TABLE a AS WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT v FROM n"
    )
    began = time.monotonic()
    SqlitePreparer(TableSources(made=(endless,)))
    assert time.monotonic() - began < 5
