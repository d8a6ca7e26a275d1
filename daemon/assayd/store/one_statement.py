"""Sends changes of one PostgreSQL statement each in groups, so that a group takes one round trip.

For each statement, SQLAlchemy's overhead is several times the driver's, and BEGIN, the statement and COMMIT
take one round trip each. To avoid both costs, the SQL text is built only once and pending changes are
grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import Connection, SelectBase
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from assayd.store.tables import ExactText, was_written

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
Row = Mapping[str, Any]

_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]


class StatementText:
    """A statement in the driver's format, built once, whose value types the driver adapts directly."""

    def __init__(self, statement: SelectBase) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self.sql = str(compiled)
        # Only the literals of the statement; bound values differ at each execution.
        binds = {name: compiled.binds[name] for name in compiled.params}
        self._exact = [each.name for each in statement.selected_columns if isinstance(each.type, ExactText)]
        self._fixed = {name: bind.value for name, bind in binds.items() if not bind.required}

    def bound(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return all parameters for one execution of the statement."""
        return {**self._fixed, **values}

    def row(self, found: Row | None) -> Row | None:
        """Return a row after decoding the strings that `tables.written` encoded."""
        if found is None:
            return None
        texts = {name: found[name] for name in self._exact if found[name] is not None}
        return {**found, **{name: was_written(text) for name, text in texts.items()}} if texts else found


class OneStatement(Generic[T]):
    """A change that executes one statement and returns at most one row, which `read` converts.

    The method `read` must not raise an exception, because the same transaction commits the statements of
    other changes. `tried` counts the executions, because a change is executed again if the outcome of the
    first commit is unknown.
    """

    def __init__(
        self, text: StatementText, values: Mapping[str, object], read: Callable[[Row | None], T]
    ) -> None:
        self.sql = text.sql
        self.values = text.bound(values)
        self.tried = 0
        self._text = text
        self._read = read

    def __call__(self, connection: Connection) -> T:
        """Apply the change in a transaction that it shares with others."""
        self.tried += 1
        row = connection.exec_driver_sql(self.sql, self.values).one_or_none()
        return self.read(None if row is None else row._asdict())

    def read(self, row: Row | None) -> T:
        """Convert the row into the result of the change."""
        return self._read(self._text.row(row))


def run_together(connection: Connection, statements: Sequence[OneStatement[Any]]) -> list[Any]:
    """Run statements in one transaction and one round trip to the server; return the results in order.

    The connection must not be in a transaction. Raises: DBAPIError; the caller must then discard the
    connection.
    """
    import psycopg

    raw: Any = connection.connection.dbapi_connection
    try:
        found = _fetch_rows(raw, statements)
    except psycopg.Error as problem:
        if lost := raw.closed:
            connection.invalidate(problem)
        raise _to_sqlalchemy_error(problem, lost=lost) from problem
    return [statement.read(row) for statement, row in zip(statements, found, strict=True)]


def enable_transactions(connection: Connection) -> None:
    """Restore the driver's implicit start of transactions."""
    raw: Any = connection.connection.dbapi_connection
    if raw.autocommit:
        raw.autocommit = False


def _fetch_rows(raw: psycopg.Connection, statements: Sequence[OneStatement[Any]]) -> list[Row | None]:
    from psycopg.errors import InFailedSqlTransaction
    from psycopg.rows import dict_row

    if not raw.autocommit:
        raw.autocommit = True
    for statement in statements:
        statement.tried += 1
    if len(statements) == 1:  # A single statement is its own transaction.
        [alone] = statements
        return [raw.cursor(row_factory=dict_row).execute(alone.sql, alone.values).fetchone()]
    with raw.pipeline():
        raw.execute("BEGIN")
        cursors = [
            raw.cursor(row_factory=dict_row).execute(statement.sql, statement.values)
            for statement in statements
        ]
        commit = raw.execute("COMMIT")
    if commit.statusmessage != "COMMIT":  # The server's answer to COMMIT if it rolled back.
        raise InFailedSqlTransaction(f"COMMIT returned {commit.statusmessage}")
    return [cursor.fetchone() for cursor in cursors]


def _to_sqlalchemy_error(problem: psycopg.Error, *, lost: bool) -> DBAPIError:
    """Convert a driver error to SQLAlchemy's error type, without the parameter values."""
    import psycopg

    error = DBAPIError.instance(
        None, None, problem, psycopg.Error, connection_invalidated=lost, dialect=_DIALECT
    )
    assert isinstance(error, DBAPIError)  # noqa: S101 - what it returns for an error of the driver
    return error
