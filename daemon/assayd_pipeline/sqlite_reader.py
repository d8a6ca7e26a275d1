"""Describes the tables of an untrusted SQLite file, and prepares statements against a step's tables.

The file is opened from memory, in a process with limits on memory and time, with SQLite's protections
against a hostile schema; its triggers and views are never run. Statements are prepared on a copy without
rows: only statements that create tables are run, with a step limit and an authorizer that denies all other
operations. Every other statement is only compiled, with `EXPLAIN`.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from assayd_pipeline.sql.preparer import TableSources
from assayd_pipeline.sql.read import InvalidSqlCharacter, split, tokenize

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


_STEPS = 200_000
"""Instructions of SQLite's virtual machine for all statements of one database."""
_MAKING = ("CREATE", "ALTER", "DROP")
_MOST_COLUMNS = 500
_MOST_NAMES = 2000
_NAMES = {
    "table": "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') "
    "UNION SELECT name FROM sqlite_temp_schema",
    "column": "SELECT DISTINCT c.name FROM (SELECT name FROM sqlite_schema UNION "
    "SELECT name FROM sqlite_temp_schema) AS t, pragma_table_info(t.name) AS c",
    "function": "SELECT DISTINCT name FROM pragma_function_list",
}
_PASSED = (
    "SELECT", "READ", "INSERT", "UPDATE", "DELETE", "RECURSIVE", "FUNCTION", "ALTER_TABLE", "CREATE_TABLE",
    "CREATE_TEMP_TABLE", "CREATE_INDEX", "CREATE_TEMP_INDEX", "CREATE_VIEW", "CREATE_TEMP_VIEW", "DROP_TABLE",
    "DROP_VIEW", "DROP_INDEX", "REINDEX", "TRANSACTION", "SAVEPOINT", "PRAGMA",
)  # fmt: skip
_ACTIONS = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _PASSED)
_PRAGMAS = frozenset({"table_info", "table_list", "table_xinfo", "function_list"})


class SqlitePreparer:
    """An implementation of `preparer.Prepared` that uses a database in memory."""

    def __init__(self, tables: TableSources) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _set_limits(self._connection)
        if tables.content:
            _try_to_create(lambda: self._connection.deserialize(tables.content))
        for statement in (*_split_statements(tables.schema), *tables.made):
            self.run(statement)
        for name, head in tables.heads.items():
            _try_to_create(partial(_create_csv_table, self._connection, name, head))

    def run(self, statement: str) -> None:
        """Run a statement that creates or changes tables, and ignore any other."""
        if statement.lstrip().upper().startswith(_MAKING):
            _try_to_create(partial(self._connection.execute, statement))

    def find_error(self, statement: str) -> str | None:
        """Return SQLite's error for a statement, which isn't run; None if SQLite accepts the statement."""
        try:
            self._connection.execute(f"EXPLAIN {statement}").fetchmany(1)
        except (sqlite3.Error, sqlite3.Warning) as problem:
            return str(problem)
        return None

    def names(self, what: str) -> list[str]:
        """Return the names of all columns, tables or functions."""
        table = what.removeprefix("column of ")
        query = _NAMES[what] if table == what else "SELECT name FROM pragma_table_info(?)"
        values = () if table == what else (table,)
        try:
            return [str(row[0]) for row in self._connection.execute(query, values).fetchmany(_MOST_NAMES)]
        except sqlite3.Error:
            return []  # The step limit is reached, so fewer names are suggested.


def _set_limits(connection: sqlite3.Connection) -> None:
    left = [_STEPS // 1000]

    def spent() -> int:
        left[0] -= 1
        return left[0] < 0

    for name, count in (("regexp", 2), ("readfile", 1)):  # The functions that are available in steps.
        connection.create_function(name, count, lambda *_: None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.set_progress_handler(spent, 1000)
    connection.set_authorizer(_authorize)


def _authorize(
    action: int, first: str | None, second: str | None, _schema: str | None, _by: str | None
) -> int:
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() not in _PRAGMAS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ACTIONS else sqlite3.SQLITE_DENY


def _split_statements(schema: str) -> list[str]:
    try:
        return [schema[one.tokens[0].start : one.tokens[-1].end] for one in split(tokenize(schema))]
    except InvalidSqlCharacter:
        return []  # The schema has its own finding.


def _create_csv_table(connection: sqlite3.Connection, name: str, head: str) -> None:
    delimiter = "\t" if name.lower().endswith(".tsv") else ","
    names = next(csv.reader([head.lstrip("\ufeff")], delimiter=delimiter), [])[:_MOST_COLUMNS]
    columns = ", ".join(_quote_identifier(one.strip() or f"column_{n}") for n, one in enumerate(names, 1))
    connection.execute(f"CREATE TEMP TABLE {_quote_identifier(name)} ({columns})")


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _try_to_create(make: Callable[[], object]) -> None:
    """Run an operation that creates tables; after a failure, fewer statements can be prepared."""
    try:
        make()
    except (sqlite3.Error, sqlite3.Warning, csv.Error):
        return
