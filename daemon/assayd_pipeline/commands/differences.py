"""Compares two states of a database, and counts the rows of each table that exist in only one of them.

Both states can be untrusted, so only ordinary tables are read, and a time limit applies.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from assayd_client.cli.terminal import plain
from assayd_pipeline.commands.replacing import open_in_memory, to_rollback_mode

COMPARED_S = 5.0
_STEPS = 10_000
_TABLES = (
    "SELECT name FROM {0}.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "AND sql NOT LIKE 'CREATE VIRTUAL%'"
)


def describe_differences(old: bytes, new: bytes) -> list[str]:
    """Return a line for each table in which two states of a database differ."""
    try:
        with _open_both(old, new) as connection:
            return _list_differences(connection)
    except sqlite3.Error as problem:
        return [f"the tables can't be compared: {plain(str(problem))}"]


def _list_differences(connection: sqlite3.Connection) -> list[str]:
    before, after = (
        {name for (name,) in connection.execute(_TABLES.format(schema))} for schema in ("old", "main")
    )
    lines = []
    for table in sorted(before | after):
        if table not in after:
            lines.append(f"table {plain(table)}: removed, with {_count_rows(connection, 'old', table)} rows")
        elif table not in before:
            lines.append(f"table {plain(table)}: new, with {_count_rows(connection, 'main', table)} rows")
        else:
            lines.extend(_compare_rows(connection, table))
    return lines


def _compare_rows(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    name = _quote_identifier(table)
    if _read_column_names(connection, "old", table) != _read_column_names(connection, "main", table):
        yield f"table {plain(table)}: different columns"
        return
    counts = []
    for one, other in (("main", "old"), ("old", "main")):
        beyond = f"SELECT * FROM {one}.{name} EXCEPT SELECT * FROM {other}.{name}"  # noqa: S608 - quoted
        beyond = f"SELECT count(*) FROM ({beyond})"  # noqa: S608 - quoted
        counts.append(connection.execute(beyond).fetchone()[0])
    lengths = [_count_rows(connection, schema, table) for schema in ("old", "main")]
    if any(counts) or lengths[0] != lengths[1]:
        rows = f"{lengths[0]} to {lengths[1]} rows"
        yield f"table {plain(table)}: {rows}, {counts[0]} new or changed, {counts[1]} removed or changed"


def _read_column_names(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    found = connection.execute("SELECT name FROM pragma_table_xinfo(?, ?)", (table, schema))
    return [name for (name,) in found]


def _count_rows(connection: sqlite3.Connection, schema: str, table: str) -> int:
    counting = f"SELECT count(*) FROM {schema}.{_quote_identifier(table)}"  # noqa: S608 - quoted
    return int(connection.execute(counting).fetchone()[0])


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _open_both(old: bytes, new: bytes) -> Iterator[sqlite3.Connection]:
    """Open two databases in memory, with the older one attached as schema ``old``."""
    with open_in_memory(new) as connection:
        connection.execute("ATTACH ':memory:' AS old")
        connection.deserialize(to_rollback_mode(old), name="old")
        due = time.monotonic() + COMPARED_S
        connection.set_progress_handler(lambda: int(time.monotonic() >= due), _STEPS)
        yield connection
