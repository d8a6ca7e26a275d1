"""Manages PostgreSQL connections: timeouts, retries, and the required server settings.

A server can restart, and other processes write to the same database. Therefore, a change is repeated if it
may have been lost. Every change first checks which of its rows exist, so that a commit whose response was
lost isn't applied twice.

`run_in_one_transaction` sends changes of one statement each in groups, so that a group takes one round trip.
For each statement, SQLAlchemy's overhead is several times the driver's, and BEGIN, the statement and COMMIT
take one round trip each. To avoid both costs, the SQL text is built only once and pending changes are
grouped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import (
    JSON,
    Connection,
    Engine,
    Executable,
    SelectBase,
    Table,
    Text,
    bindparam,
    cast,
    column,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.sql.selectable import TableValuedAlias
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_chain, wait_fixed

from assayd.errors import StoreError
from assayd.store.tables import ExactText, decode_text, encode_text

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import Buffer


T = TypeVar("T")

PATIENCE_S = 15.0
"""Seconds for which a restarting server may be unreachable before operations fail."""
CONNECT_RETRY_DELAYS_S = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between connection attempts; the last value repeats."""
MAX_CONFLICT_TRIES = 4
"""Maximum tries of a change that conflicts with concurrent changes."""

# Serialization failures: when repeated, the later change sees the effects of the earlier one.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CONFLICT_SQLSTATES = {"40001", "40P01", "23503", "23505"}
_UNREACHABLE_SQLSTATES = ("08", "57P")
_TABLE_LOCK_KEY = 0x617373617964
"""The advisory lock that protects the creation and alteration of tables."""

# Detect a hung server or a broken link, and let the server release our locks if it loses this client.
_CONNECT_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_SESSION_OPTIONS = "-c lock_timeout=10s -c statement_timeout=30s -c idle_in_transaction_session_timeout=30s"


def create_writing_engine(url: URL) -> Engine:
    """Return an engine with a single connection for writing."""
    connect_args = {**_CONNECT_OPTIONS, "options": _SESSION_OPTIONS}
    return _encode_parameters(create_engine(url, pool_size=1, max_overflow=0, connect_args=connect_args))


def create_reading_engine(url: URL, connections: int) -> Engine:
    """Return an engine with a few read-only connections in autocommit mode."""
    options = f"{_SESSION_OPTIONS} -c default_transaction_read_only=on"
    engine = create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        isolation_level="AUTOCOMMIT",
        connect_args={**_CONNECT_OPTIONS, "options": options},
    )
    return _encode_parameters(engine)


def _encode_parameters(engine: Engine) -> Engine:
    """Encode every string parameter with `encode_text`, so that a query can contain any string."""
    from psycopg.types.string import StrDumperUnknown

    class WrittenDumper(StrDumperUnknown):
        def dump(self, obj: str) -> Buffer | None:
            return super().dump(encode_text(obj))

    @event.listens_for(engine, "connect")
    def prepare(connection: psycopg.Connection, _entry: object) -> None:
        connection.adapters.register_dumper(str, WrittenDumper)

    return engine


class ServerRetry:
    """A retry policy for an unreachable server.

    All threads share one instance. After the server has been unreachable for the maximum time, no thread
    waits any longer.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._away_since: float | None = None
        self._retrying = Retrying(
            retry=retry_if_exception(is_unreachable),
            wait=wait_chain(*map(wait_fixed, CONNECT_RETRY_DELAYS_S)),
            stop=self._has_retry_time_expired,
            sleep=sleep,
            reraise=True,
        )

    def retry_while_unreachable(self, act: Callable[[], T]) -> T:
        """Call `act`, repeatedly while the server is unreachable, and return its result.

        Raises: the last error of `act`.
        """
        result = self._retrying(act)
        self._away_since = None
        return result

    def _has_retry_time_expired(self, _state: RetryCallState) -> bool:
        now = self._clock()
        self._away_since = since = self._away_since or now
        return now - since > PATIENCE_S


def is_unreachable(problem: BaseException) -> bool:
    """Return whether an error means that the server is unreachable or that the connection was lost."""
    if not isinstance(problem, DBAPIError):
        return False
    state = getattr(problem.orig, "sqlstate", None)
    unconnected = state is None and problem.statement is None and isinstance(problem, OperationalError)
    return problem.connection_invalidated or unconnected or str(state).startswith(_UNREACHABLE_SQLSTATES)


def is_conflict(problem: BaseException) -> bool:
    """Return whether a change failed only because of a concurrent change."""
    return isinstance(problem, DBAPIError) and getattr(problem.orig, "sqlstate", None) in _CONFLICT_SQLSTATES


def select_json_rows(table: Table) -> TableValuedAlias:
    """Return the rows of the JSON parameter `listed`, with a table's columns."""
    listed = func.json_to_recordset(cast(bindparam("listed", type_=Text), JSON))
    named = listed.table_valued(*(column(each.name, each.type) for each in table.c), name="listed")
    return named.render_derived(with_types=True)


def build_insert_json_rows(table: Table) -> Executable:
    """Return the statement that inserts the rows of the JSON parameter `listed`, except existing keys."""
    names = [each.name for each in table.c]
    return (
        postgresql.insert(table)
        .from_select(names, select(*select_json_rows(table).c))
        .on_conflict_do_nothing()
    )


def lock_table_creation(connection: Connection) -> None:
    """Block this transaction until no other transaction is creating tables."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _TABLE_LOCK_KEY})


@contextmanager
def hold_table_lock(connection: Connection) -> Iterator[None]:
    """Hold the lock that excludes other processes from creating or altering tables in this database."""
    connection.exec_driver_sql("SET statement_timeout TO 0")
    connection.exec_driver_sql("SET lock_timeout TO 0")
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _TABLE_LOCK_KEY})
    connection.commit()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _TABLE_LOCK_KEY})
        connection.commit()
        connection.invalidate()  # The next connection has the usual timeouts again.


def check_server(connection: Connection) -> None:
    """Ensure that the server stores and compares strings as bytes.

    Listings and prefix searches depend on this order.

    Raises: StoreError ``store.collation``, if it doesn't.
    """
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    sorts = connection.exec_driver_sql("SELECT 'B' < 'a' AND 'a' < 'é'").scalar()
    if encoding != "UTF8" or not sorts:
        raise StoreError(
            "store.collation",
            f"the database has the encoding {encoding} and sorts {'by bytes' if sorts else 'by language'};"
            " create it with TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'",
        )


Row = Mapping[str, Any]

_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]


class CompiledStatement:
    """A statement in the driver's format, built once, whose value types the driver adapts directly."""

    def __init__(self, statement: SelectBase) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self.sql = str(compiled)
        # Only the literals of the statement; bound values differ at each execution.
        binds = {name: compiled.binds[name] for name in compiled.params}
        self._exact = [each.name for each in statement.selected_columns if isinstance(each.type, ExactText)]
        self._fixed = {name: bind.value for name, bind in binds.items() if not bind.required}

    def bind_values(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return all parameters for one execution of the statement."""
        return {**self._fixed, **values}

    def decode_row(self, found: Row | None) -> Row | None:
        """Return a row with decoded strings (see `tables.encode_text`), or None if no row was found."""
        if found is None:
            return None
        texts = {name: found[name] for name in self._exact if found[name] is not None}
        return {**found, **{name: decode_text(text) for name, text in texts.items()}} if texts else found


class SingleStatementChange(Generic[T]):
    """A change that executes one statement and returns at most one row, which `read` converts.

    The method `read` must not raise an exception, because the same transaction commits the statements of
    other changes. `tried` counts the executions, because a change is executed again if the outcome of the
    first commit is unknown.
    """

    def __init__(
        self, text: CompiledStatement, values: Mapping[str, object], read: Callable[[Row | None], T]
    ) -> None:
        self.sql = text.sql
        self.values = text.bind_values(values)
        self.tried = 0
        self._text = text
        self._read = read

    def __call__(self, connection: Connection) -> T:
        """Apply the change in a transaction that it shares with others."""
        self.tried += 1
        row = connection.exec_driver_sql(self.sql, self.values).one_or_none()
        return self.read(None if row is None else row._asdict())

    def read(self, row: Row | None) -> T:
        """Convert the row (None if the statement returned no row) into the result of the change."""
        return self._read(self._text.decode_row(row))


def run_in_one_transaction(
    connection: Connection, statements: Sequence[SingleStatementChange[Any]]
) -> list[Any]:
    """Run statements in one transaction and one round trip to the server, and return the results in order.

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


def _fetch_rows(
    raw: psycopg.Connection, statements: Sequence[SingleStatementChange[Any]]
) -> list[Row | None]:
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
