"""Reads the names of tables and columns of a database, for errors about unknown names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


_TABLES, _COLUMNS, _CHARS = 20, 20, 100
_QUERY = (
    "SELECT m.name, c.name FROM (SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
    "UNION ALL SELECT name FROM sqlite_temp_master WHERE type IN ('table', 'view')) AS m, "
    "pragma_table_info(m.name) AS c"
)


def read_names(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the first tables, each with its first columns; empty if the database can't be read."""
    import sqlite3

    found: dict[str, list[str]] = {}
    connection.set_authorizer(None)
    try:
        for table, column in connection.execute(_QUERY):
            if table in found or len(found) < _TABLES:
                columns = found.setdefault(table[:_CHARS], [])
                if len(columns) < _COLUMNS:
                    columns.append(column[:_CHARS])
    except sqlite3.Error:
        return {}
    return found
