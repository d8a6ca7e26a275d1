"""Reads a database's tables after a step (columns, types and rows), to compare a pipeline's next run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from ._sql_guard import SqlGuard


_MOST_TABLES, _MOST_COLUMNS, _MOST_NAME, _MOST_TYPE = 50, 2000, 100, 40
_TABLES = (
    "SELECT name FROM main.sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' "
    "AND sql NOT LIKE 'CREATE VIRTUAL%' AND length(name) <= ? ORDER BY name LIMIT ?"
)


def read_tables(connection: sqlite3.Connection, guard: SqlGuard | None = None) -> list[list[object]]:
    """Return ``[name, rows, [column, type, …]]`` for each table; empty if the database can't be read.

    Only the catalog is read without the guard, because the guard's profile may refuse access to column
    names.
    """
    import sqlite3

    found: list[list[object]] = []
    columns = 0
    catalog: list[tuple[str, list[str]]] = []
    connection.set_authorizer(None)
    try:
        for (table,) in connection.execute(_TABLES, (_MOST_NAME, _MOST_TABLES)).fetchall():
            described: list[str] = []
            for row in connection.execute("SELECT name, type FROM pragma_table_info(?, 'main')", (table,)):
                described += [str(row[0])[:_MOST_NAME], str(row[1])[:_MOST_TYPE]]
            columns += len(described) // 2
            if columns > _MOST_COLUMNS:
                break
            catalog.append((table, described))
        connection.set_authorizer(guard)
        for table, described in catalog:
            quoted = table.replace('"', '""')
            # The name is quoted, and comes from SQLite.
            (rows,) = connection.execute(f'SELECT count(*) FROM main."{quoted}"').fetchone()  # noqa: S608
            found.append([table, rows, described])
    except sqlite3.Error:
        return []
    return found
