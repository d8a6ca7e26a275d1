"""Reads the tables, columns and keys of a submitted SQLite file in an analysis worker's memory.

The file is untrusted: it is opened read-only from memory, in a process with limits on memory and time, with
SQLite's protections against a hostile schema. The file's triggers and views are never run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

MOST_TABLES = 100
MOST_COLUMNS = 200
MOST_VALUE_CHARS = 80
_CHARS = 32 * 2**10


def describe_sqlite(content: bytes, rows: int = 0) -> str:
    """Return a line for each table with its columns, types, keys and references, then its first rows."""
    if not content:  # An empty file is an empty database, which can't be opened from memory.
        return "no tables"
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(content)
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            return "\n".join(_describe_tables(connection, rows))[:_CHARS] or "no tables"
    except sqlite3.Error as problem:
        return f"(the database can't be read: {problem})"


def _describe_tables(connection: sqlite3.Connection, rows: int) -> Iterator[str]:
    found = connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
    ).fetchmany(MOST_TABLES)
    for name, kind in found:
        columns = ", ".join(_describe_columns(connection, str(name))) if kind == "table" else "a view"
        yield f"{name} ({columns})"
        if rows and kind == "table":
            yield from _describe_rows(connection, str(name), rows)


def _describe_rows(connection: sqlite3.Connection, table: str, most: int) -> Iterator[str]:
    """Yield a table's first rows as truncated, JSON-like values; reading generated columns can fail."""
    quoted = table.replace('"', '""')
    try:
        found = connection.execute(f'SELECT * FROM "{quoted}" LIMIT ?', (most,)).fetchall()  # noqa: S608 - quoted
    except sqlite3.Error as problem:
        yield f"  (its rows can't be read: {problem})"
        return
    for row in found:
        yield "  row: " + ", ".join(repr(value)[:MOST_VALUE_CHARS] for value in row[:MOST_COLUMNS])


def _describe_columns(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    referred = {
        str(row[3]): f" -> {row[2]}.{row[4] or 'its key'}"
        for row in connection.execute("SELECT * FROM pragma_foreign_key_list(?)", (table,)).fetchmany(
            MOST_COLUMNS
        )
    }
    for row in connection.execute("SELECT * FROM pragma_table_info(?)", (table,)).fetchmany(MOST_COLUMNS):
        name, kind, required, key = str(row[1]), str(row[2]), bool(row[3]), bool(row[5])
        yield f"{name} {kind}{' PRIMARY KEY' * key}{' NOT NULL' * required}{referred.get(name, '')}".strip()
