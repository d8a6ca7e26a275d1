"""Facts about tables: ordinary ones only, within limits, with any name."""

from __future__ import annotations

import sqlite3

from assayd.guest.programs._sql_database import SqlGuard
from assayd.guest.programs.sql import read_tables


def database(*statements: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    return connection


def test_tables_have_rows_columns_and_types() -> None:
    found = read_tables(
        database(
            "CREATE TABLE sales (id INTEGER PRIMARY KEY, amount REAL)",
            "INSERT INTO sales VALUES (1, 2), (2, 3)",
            'CREATE TABLE "odd ""name" (a)',
            "CREATE VIEW v AS SELECT * FROM nowhere",
        )
    )
    assert found == [['odd "name', 0, ["a", ""]], ["sales", 2, ["id", "INTEGER", "amount", "REAL"]]]


def test_many_tables_and_columns_are_cut() -> None:
    wide = ", ".join(f"c{n}" for n in range(900))
    assert len(read_tables(database(*(f"CREATE TABLE t{n} (a)" for n in range(60))))) == 50
    assert len(read_tables(database(*(f"CREATE TABLE t{n} ({wide})" for n in range(4))))) == 2


def test_virtual_table_is_not_read() -> None:
    assert "f" not in [name for name, *_ in read_tables(database("CREATE VIRTUAL TABLE f USING fts5(a)"))]


def test_temporary_view_does_not_stand_in_for_a_table() -> None:
    shadowed = database(
        "CREATE TABLE sales (a)",
        "INSERT INTO sales VALUES (1)",
        "CREATE TEMP VIEW sales AS SELECT value AS b FROM json_each('[1, 2, 3]')",
    )
    assert read_tables(shadowed) == [["sales", 1, ["a", ""]]]


def test_rows_are_counted_under_the_guard() -> None:
    guard = SqlGuard(schema=False, pragmas=frozenset())
    assert read_tables(database("CREATE TABLE sales (a)"), guard) == [["sales", 0, ["a", ""]]]
    assert ("READ", "sales") in guard.acts
