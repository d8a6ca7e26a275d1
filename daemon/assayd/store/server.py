"""PostgreSQL: how its server is reached, what is tried again and for how long, and what it must be like.

A server restarts, and others write beside us. What was lost on the way is asked for again: every change finds
out what of it is on record already, so that a commit whose answer was lost is not made twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import (
    JSON,
    Connection,
    Engine,
    Executable,
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
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.sql.selectable import TableValuedAlias
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_chain, wait_fixed

from assayd.errors import StoreError
from assayd.store.tables import written

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import Buffer

T = TypeVar("T")

PATIENCE_S = 15.0
"""How long a server may be away, restarting, before what needs it fails."""
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Between tries to reach it; the last is repeated."""
CROSSED_TRIES = 4
"""How often a change is made that others' changes crossed."""

# Two changes crossed: the later sees what the earlier has done when it is made again.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CROSSED = {"40001", "40P01", "23503", "23505"}
_AWAY = ("08", "57P")
_LOCK = 0x617373617964
"""The key of the advisory lock under which tables are made and changed."""

# A server that hangs, or a link that was cut, is noticed; one that waits for us lets go of our locks.
_CONNECT = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_OPTIONS = "-c lock_timeout=10s -c statement_timeout=30s -c idle_in_transaction_session_timeout=30s"


def writing_engine(url: URL) -> Engine:
    """Return an engine of one connection that writes."""
    connect_args = {**_CONNECT, "options": _OPTIONS}
    return _exact(create_engine(url, pool_size=1, max_overflow=0, connect_args=connect_args))


def reading_engine(url: URL, connections: int) -> Engine:
    """Return an engine of a few connections that only read, each statement by itself."""
    options = f"{_OPTIONS} -c default_transaction_read_only=on"
    engine = create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        isolation_level="AUTOCOMMIT",
        connect_args={**_CONNECT, "options": options},
    )
    return _exact(engine)


def _exact(engine: Engine) -> Engine:
    """Have every text sent as `written`: whatever somebody asks for is looked for, and not an error."""
    from psycopg.types.string import StrDumperUnknown

    class WrittenDumper(StrDumperUnknown):
        def dump(self, obj: str) -> Buffer | None:
            return super().dump(written(obj))

    @event.listens_for(engine, "connect")
    def prepare(connection: psycopg.Connection, _entry: object) -> None:
        connection.adapters.register_dumper(str, WrittenDumper)

    return engine


class ServerPatience:
    """Tries again while the server is away. Threads share one: once it is away for long, nobody waits."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._away_since: float | None = None
        self._retrying = Retrying(
            retry=retry_if_exception(is_away),
            wait=wait_chain(*map(wait_fixed, PAUSES_S)),
            stop=self._stays_away,
            sleep=sleep,
            reraise=True,
        )

    def see_through(self, act: Callable[[], T]) -> T:
        """Return what an act comes to. Raises: what it raised last, when the server stays away."""
        result = self._retrying(act)
        self._away_since = None
        return result

    def _stays_away(self, _state: RetryCallState) -> bool:
        now = self._clock()
        self._away_since = since = self._away_since or now
        return now - since > PATIENCE_S


def is_away(problem: BaseException) -> bool:
    """Return whether a server was not reached, or was lost."""
    if not isinstance(problem, DBAPIError):
        return False
    state = getattr(problem.orig, "sqlstate", None)
    unconnected = state is None and problem.statement is None and isinstance(problem, OperationalError)
    return problem.connection_invalidated or unconnected or str(state).startswith(_AWAY)


def has_crossed(problem: BaseException) -> bool:
    """Return whether a change failed only because of another that was made at the same time."""
    return isinstance(problem, DBAPIError) and getattr(problem.orig, "sqlstate", None) in _CROSSED


def listed_rows(table: Table) -> TableValuedAlias:
    """Return the rows that the JSON text `listed` has, with the columns of a table."""
    listed = func.json_to_recordset(cast(bindparam("listed", type_=Text), JSON))
    named = listed.table_valued(*(column(each.name, each.type) for each in table.c), name="listed")
    return named.render_derived(with_types=True)


def insert_listed(table: Table) -> Executable:
    """Return the insert of the rows in the JSON text `listed`; those with a key on record are left out."""
    names = [each.name for each in table.c]
    return postgresql.insert(table).from_select(names, select(*listed_rows(table).c)).on_conflict_do_nothing()


def one_at_a_time(connection: Connection) -> None:
    """Make this transaction wait for all others that make tables."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


@contextmanager
def changing_tables(connection: Connection) -> Iterator[None]:
    """Keep others of this database from making or changing tables; for as long as that takes."""
    connection.exec_driver_sql("SET statement_timeout TO 0")
    connection.exec_driver_sql("SET lock_timeout TO 0")
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
    connection.commit()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
        connection.commit()
        connection.invalidate()  # the next one has its time limits again


def check_server(connection: Connection) -> None:
    """See that text is kept and sorted as it is written: lists and prefixes go by the order of its bytes.

    Raises: StoreError ``store.collation``.
    """
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    sorts = connection.exec_driver_sql("SELECT 'B' < 'a' AND 'a' < 'é'").scalar()
    if encoding != "UTF8" or not sorts:
        raise StoreError(
            "store.collation",
            f"the database has the encoding {encoding} and sorts {'by bytes' if sorts else 'by language'};"
            " create it with TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'",
        )
