"""A change that is one statement of PostgreSQL: those that wait are sent together, and answered together.

A statement by way of SQLAlchemy costs several times what the server's driver takes for it, and each BEGIN,
statement and COMMIT is a wait of its own. So the text is made once, and a group is one wait.
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
    """A statement as the driver takes it, made once; its values are those that the driver takes, too."""

    def __init__(self, statement: SelectBase) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self.sql = str(compiled)
        # Of literals in the statement; what is bound is given anew each time.
        binds = {name: compiled.binds[name] for name in compiled.params}
        self._exact = [each.name for each in statement.selected_columns if isinstance(each.type, ExactText)]
        self._fixed = {name: bind.value for name, bind in binds.items() if not bind.required}

    def bound(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return all values of one execution."""
        return {**self._fixed, **values}

    def row(self, found: Row | None) -> Row | None:
        """Return a row with its texts as they were before they were written."""
        if found is None:
            return None
        texts = {name: found[name] for name in self._exact if found[name] is not None}
        return {**found, **{name: was_written(text) for name, text in texts.items()}} if texts else found


class OneStatement(Generic[T]):
    """A change of one statement, which returns at most one row; `read` says what it came to.

    `read` is not to raise: its neighbours' statements are committed, too. `tried` is how often it was made: a
    second time when it is not known whether the first was committed.
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
        """Make the change in a transaction with others."""
        self.tried += 1
        row = connection.exec_driver_sql(self.sql, self.values).one_or_none()
        return self.read(None if row is None else row._asdict())

    def read(self, row: Row | None) -> T:
        """Return what it came to."""
        return self._read(self._text.row(row))


def run_together(connection: Connection, statements: Sequence[OneStatement[Any]]) -> list[Any]:
    """Run statements in one transaction, by one wait for the server; return what each came to.

    The connection is in no transaction. Raises: DBAPIError; the connection is then to be given back.
    """
    import psycopg

    raw: Any = connection.connection.dbapi_connection
    try:
        found = _fetched(raw, statements)
    except psycopg.Error as problem:
        if lost := raw.closed:
            connection.invalidate(problem)
        raise _as_sqlalchemy(problem, lost=lost) from problem
    return [statement.read(row) for statement, row in zip(statements, found, strict=True)]


def in_transactions(connection: Connection) -> None:
    """Have the driver begin transactions by itself again."""
    raw: Any = connection.connection.dbapi_connection
    if raw.autocommit:
        raw.autocommit = False


def _fetched(raw: psycopg.Connection, statements: Sequence[OneStatement[Any]]) -> list[Row | None]:
    from psycopg.errors import InFailedSqlTransaction
    from psycopg.rows import dict_row

    if not raw.autocommit:
        raw.autocommit = True
    for statement in statements:
        statement.tried += 1
    if len(statements) == 1:  # is a transaction by itself
        [alone] = statements
        return [raw.cursor(row_factory=dict_row).execute(alone.sql, alone.values).fetchone()]
    with raw.pipeline():
        raw.execute("BEGIN")
        cursors = [
            raw.cursor(row_factory=dict_row).execute(statement.sql, statement.values)
            for statement in statements
        ]
        commit = raw.execute("COMMIT")
    if commit.statusmessage != "COMMIT":  # what a server answers that has rolled back
        raise InFailedSqlTransaction(f"COMMIT returned {commit.statusmessage}")
    return [cursor.fetchone() for cursor in cursors]


def _as_sqlalchemy(problem: psycopg.Error, *, lost: bool) -> DBAPIError:
    """Return an error of the driver as SQLAlchemy tells it, without the values."""
    import psycopg

    error = DBAPIError.instance(
        None, None, problem, psycopg.Error, connection_invalidated=lost, dialect=_DIALECT
    )
    assert isinstance(error, DBAPIError)  # noqa: S101 - what it returns for an error of the driver
    return error
