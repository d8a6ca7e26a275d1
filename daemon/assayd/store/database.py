"""Opens the database: sets the durability, checks the integrity, and migrates the schema.

A database has two engines: one with a single connection for writing, and one with a few connections for
reading. In SQLite's WAL mode, readers don't block the writer. A database that is damaged or newer than this
program is rejected and not modified.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from assayd.errors import ConfigError
from assayd.store import tables
from assayd.store.faults import translate_errors, unusable
from assayd.store.server import (
    OneStatement,
    ServerRetry,
    check_server,
    enable_transactions,
    reading_engine,
    run_together,
    table_lock,
    writing_engine,
)

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")

HEAD = "0015"
"""The newest revision in `migrations`; a test compares them."""

BACKENDS = ("sqlite", "postgresql")
READERS = 2
FILE = "assayd.db"

# FULL: every commit is on disk before its request is answered. In WAL mode, NORMAL would lose the last
# verdicts in a power failure, https://sqlite.org/pragma.html#pragma_synchronous
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=5000",
    "PRAGMA temp_store=MEMORY",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDatabase:
    """An open database, with separate engines for the writer and the readers."""

    writing: Engine
    reading: Engine

    def close(self) -> None:
        """Close all connections of both engines."""
        self.reading.dispose()
        self.writing.dispose()


def open_database(
    state_dir: Path, url: str | None = None, patience: ServerRetry | None = None
) -> OpenDatabase:
    """Open the database and migrate its schema. Blocks.

    Args:
        state_dir: the folder of the SQLite file, used if `url` is None.
        url: the SQLAlchemy URL of another database, or None.
        patience: the timeout for an unreachable database server.

    Raises:
        ConfigError: ``store.url``, for a malformed URL or a missing driver.
        StoreError: ``store.corrupt``, ``store.newer``, or a code for a failed read or write.
    """
    parsed = _parse_url(url) if url is not None else None
    if parsed is not None and parsed.get_backend_name() != "sqlite":
        return _migrate_or_close(_open_server(parsed), patience)
    path = Path(parsed.database) if parsed is not None and parsed.database else state_dir / FILE
    with translate_errors(f"opening {path}"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        _require_intact(path)
        return _migrate_or_close(_open_sqlite(path))


def _require_intact(path: Path) -> None:
    """Raise an error if the database file is damaged, before anything is written to the file."""
    connection = sqlite3.connect(path)
    try:
        answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as problem:
        if problem.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise
        answer = str(problem)
    finally:
        connection.close()
    if answer != "ok":
        raise unusable(path, "store.corrupt", f"the database is damaged ({answer})")


def _open_sqlite(path: Path) -> OpenDatabase:
    url = f"sqlite:///{path}"
    shared = {"check_same_thread": False}
    writing = create_engine(url, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args=shared)
    reading = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=READERS,
        max_overflow=0,
        connect_args=shared,
        isolation_level="AUTOCOMMIT",
    )
    event.listen(writing, "connect", _prepare_writer)
    # Take the write lock at once: SQLite can reject the first write of a transaction that began as a reader.
    event.listen(writing, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    event.listen(reading, "connect", _prepare_reader)
    return OpenDatabase(writing=writing, reading=reading)


class WritingConnection:
    """The writer's connection, which stays open between transactions.

    The connection is kept because checking out a connection from the pool takes as long as executing a
    statement. After a failure, the connection is closed and replaced.
    """

    def __init__(self, engine: Engine, patience: ServerRetry | None = None) -> None:
        self._engine = engine
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._patience = patience or ServerRetry()
        self._open: Connection | None = None
        self._waits: bool | None = None

    def run(self, apply: Callable[[Connection], T], *, durable: bool) -> T:
        """Run a change in a transaction. If `durable` is True, the commit includes a flush to the disk.

        On a database server, every commit is durable, because the recorded containers on other hosts keep
        running if the server fails. While the server is unreachable, this method waits. Then it repeats the
        change, even if only the response to the commit was lost.
        """

        def transact() -> T:
            with self._transaction(durable=durable) as connection:
                return apply(connection)

        return transact() if self._is_sqlite else self._patience.retry_while_away(transact)

    def run_together(self, statements: Sequence[OneStatement[Any]]) -> list[Any]:
        """Run several one-statement changes in one transaction on a server, with the retries of `run`."""

        def transact() -> list[Any]:
            with self._hold_connection() as connection:
                return run_together(connection, statements)

        return self._patience.retry_while_away(transact)

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[Connection]:
        with self._hold_connection() as connection:
            self._set_durability(connection, durable=durable)
            if not self._is_sqlite:
                enable_transactions(connection)
            with connection.begin():
                yield connection

    @contextmanager
    def _hold_connection(self) -> Iterator[Connection]:
        try:
            self._open = self._open or self._engine.connect()
            yield self._open
        except BaseException:
            self.close()
            raise

    def _set_durability(self, connection: Connection, *, durable: bool) -> None:
        """Set whether a commit returns only after the data is flushed to the disk.

        Call this method only between transactions. A durable commit also flushes all earlier commits.
        """
        raw = connection.connection.dbapi_connection
        if self._is_sqlite and raw is not None and self._waits is not durable:
            _execute(raw, (f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}",))
            self._waits = durable

    def close(self) -> None:
        """Return the connection to its pool. A second call has no effect."""
        if self._open is not None:
            self._open.close()
        self._open = self._waits = None


def _prepare_writer(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # keeps the driver from beginning transactions by itself
    _execute(connection, _PRAGMAS)


def _prepare_reader(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    _execute(connection, ("PRAGMA busy_timeout=5000", "PRAGMA query_only=ON"))


def _execute(connection: DBAPIConnection, statements: Sequence[str]) -> None:
    cursor = connection.cursor()
    for statement in statements:
        cursor.execute(statement)
    cursor.close()


def _parse_url(url: str) -> URL:
    """Parse a database URL and ensure that its driver is installed. Raises: ConfigError ``store.url``."""
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except (ArgumentError, ImportError) as problem:
        raise ConfigError(
            "store.url", f"database_url can't be used: {problem}", field="database_url"
        ) from None
    if parsed.get_backend_name() not in BACKENDS:
        message = f"database_url: {parsed.get_backend_name()} isn't one of {', '.join(BACKENDS)}"
        raise ConfigError("store.url", message, field="database_url")
    return parsed


def _open_server(url: URL) -> OpenDatabase:
    return OpenDatabase(writing=writing_engine(url), reading=reading_engine(url, READERS))


def _migrate_or_close(database: OpenDatabase, patience: ServerRetry | None = None) -> OpenDatabase:
    """Migrate the schema and return the database, which is closed if the migration fails."""
    try:
        with translate_errors("opening the database"):
            if database.writing.dialect.name == "sqlite":
                with database.writing.connect() as connection:
                    _migrate(connection)
            else:
                (patience or ServerRetry()).retry_while_away(lambda: _migrate_server(database.writing))
    except BaseException:
        database.close()
        raise
    return database


def _migrate_server(engine: Engine) -> None:
    """Migrate the schema of a database server if necessary, excluding concurrent migrations."""
    with engine.connect() as connection:
        check_server(connection)
        connection.rollback()
        if _revision(connection) != (HEAD, False):
            with table_lock(connection):
                _migrate(connection)


def _migrate(connection: Connection) -> None:
    revision, is_empty = _revision(connection)
    if is_empty:
        _create_tables(connection)
    elif revision != HEAD:
        # Imported only if needed: Alembic's import takes half a second.
        from assayd.store.migrations import upgrade

        upgrade(connection, revision, HEAD)


def _create_tables(connection: Connection) -> None:
    """Create the tables of the newest revision, except those that the recorders of kinds create."""
    with connection.begin():
        tables.metadata.create_all(connection, checkfirst=False)
        connection.exec_driver_sql(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
        )
        connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _revision(connection: Connection) -> tuple[str | None, bool]:
    """Return the revision of the schema (None if it has none), and whether the database is empty."""
    with connection.begin():
        there = inspect(connection).get_table_names()
        if "alembic_version" not in there:
            return None, not there
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar(), False
