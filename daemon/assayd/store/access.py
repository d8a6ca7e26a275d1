"""Provides the stores with access to the database, through one writing thread and a few reading threads.

A commit takes one disk flush, regardless of its size, so writes that arrive during a commit share the next
commit. If one of the writes fails, the group is rolled back, and each write is repeated separately, so
that the others succeed.

When the database is opened, its integrity is checked and its schema is migrated. A database has two
engines: one with a single connection for writing, and one with a few connections for reading. In SQLite's
WAL mode, readers don't block the writer. A database that is damaged or newer than this program is rejected
and not modified.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Connection, Engine, Executable, Table, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from assayd.documents import serialize_compact
from assayd.errors import ConfigError, StoreError
from assayd.store import tables
from assayd.store.faults import build_unusable_database_error, to_store_error, translate_errors
from assayd.store.server import (
    MAX_CONFLICT_TRIES,
    ServerRetry,
    SingleStatementChange,
    build_insert_json_rows,
    check_server,
    create_reading_engine,
    create_writing_engine,
    enable_transactions,
    hold_table_lock,
    is_conflict,
    is_unreachable,
    lock_table_creation,
    run_in_one_transaction,
)
from assayd.store.tables import Values

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry


HEAD = "0015"
"""The newest revision in `migrations`; a test compares them."""

BACKENDS = ("sqlite", "postgresql")
READER_COUNT = 2
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
        raise build_unusable_database_error(path, "store.corrupt", f"the database is damaged ({answer})")


def _open_sqlite(path: Path) -> OpenDatabase:
    url = f"sqlite:///{path}"
    shared = {"check_same_thread": False}
    writing = create_engine(url, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args=shared)
    reading = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=READER_COUNT,
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
        self._is_durable: bool | None = None

    def run(self, apply: Callable[[Connection], T], *, durable: bool) -> T:
        """Run a change in a transaction and return its result.

        If `durable` is True, the commit includes a flush to the disk.

        On a database server, every commit is durable, because the recorded containers on other hosts keep
        running if the server fails. While the server is unreachable, this method waits. Then it repeats the
        change, even if only the response to the commit was lost.
        """

        def transact() -> T:
            with self._transaction(durable=durable) as connection:
                return apply(connection)

        return transact() if self._is_sqlite else self._patience.retry_while_unreachable(transact)

    def run_together(self, statements: Sequence[SingleStatementChange[Any]]) -> list[Any]:
        """Run several one-statement changes in one transaction on a server, with the retries of `run`.

        Return their results in order.
        """

        def transact() -> list[Any]:
            with self._hold_connection() as connection:
                return run_in_one_transaction(connection, statements)

        return self._patience.retry_while_unreachable(transact)

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
        """Set whether a commit in SQLite returns only after the data is flushed to the disk.

        Call this method only between transactions. A durable commit also flushes all earlier commits. On a
        server, do nothing.
        """
        raw = connection.connection.dbapi_connection
        if self._is_sqlite and raw is not None and self._is_durable is not durable:
            _execute(raw, (f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}",))
            self._is_durable = durable

    def close(self) -> None:
        """Return the connection to its pool. A second call has no effect."""
        if self._open is not None:
            self._open.close()
        self._open = self._is_durable = None


def _prepare_writer(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # keeps the driver from starting transactions by itself
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
    return OpenDatabase(writing=create_writing_engine(url), reading=create_reading_engine(url, READER_COUNT))


def _migrate_or_close(database: OpenDatabase, patience: ServerRetry | None = None) -> OpenDatabase:
    """Migrate the schema and return the database, which is closed if the migration fails."""
    try:
        with translate_errors("opening the database"):
            if database.writing.dialect.name == "sqlite":
                with database.writing.connect() as connection:
                    _migrate(connection)
            else:
                (patience or ServerRetry()).retry_while_unreachable(lambda: _migrate_server(database.writing))
    except BaseException:
        database.close()
        raise
    return database


def _migrate_server(engine: Engine) -> None:
    """Migrate the schema of a database server if necessary, excluding concurrent migrations."""
    with engine.connect() as connection:
        check_server(connection)
        connection.rollback()
        if _read_revision(connection) != (HEAD, False):
            with hold_table_lock(connection):
                _migrate(connection)


def _migrate(connection: Connection) -> None:
    revision, is_empty = _read_revision(connection)
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


def _read_revision(connection: Connection) -> tuple[str | None, bool]:
    """Return the revision of the schema (None if it has none), and whether the database is empty."""
    with connection.begin():
        there = inspect(connection).get_table_names()
        if "alembic_version" not in there:
            return None, not there
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar(), False


T = TypeVar("T")
Change = Callable[[Connection], T]

MAX_AT_ONCE = 256
"""Maximum writes per transaction; with more, the first would wait too long."""


@dataclass(slots=True, eq=False)
class _PendingWrite:
    """A pending change to the database.

    The change is applied again after a rollback, or after a commit whose response was lost. Therefore, each
    change first checks which of its rows exist.
    """

    apply: Change[object]
    durable: bool
    done: Future[object] = field(default_factory=Future)


class Writer:
    """The single writing thread of a database."""

    def __init__(self, engine: Engine, patience: ServerRetry | None = None) -> None:
        self._connection = WritingConnection(engine, patience)
        self._queue: SimpleQueue[_PendingWrite | None] = SimpleQueue()
        self._thread = Thread(target=self._write_pending, name="store-writer")
        self._closed = False

    def start(self) -> None:
        """Start the writing thread."""
        self._thread.start()

    async def write(self, apply: Change[T], *, durable: bool = True) -> T:
        """Run a change in a transaction, and return its result after the commit.

        A change with ``durable=False`` survives the end of this process. It survives a power failure only if
        a durable change was committed with it or after it.

        A cancelled caller doesn't learn whether the change was applied.

        Raises:
            StoreError: the change or its commit failed, and nothing was recorded.
            AssaydError: any error that `apply` raised.
        """
        if self._closed:
            raise StoreError("store.closed", "the database is closed")
        write = _PendingWrite(apply, durable)
        self._queue.put(write)
        return cast("T", await asyncio.wrap_future(write.done))

    async def close(self) -> None:
        """Finish pending writes, then end the thread. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _write_pending(self) -> None:
        while group := self._take_next_group():
            wanted = [write for write in group if write.done.set_running_or_notify_cancel()]
            if wanted:
                self._commit_group(wanted)
            # Release large values now, because the next write may come much later.
            del group, wanted
        self._connection.close()

    def _take_next_group(self) -> list[_PendingWrite]:
        """Wait for a write and return it with all pending writes, or return an empty group at shutdown."""
        group: list[_PendingWrite] = []
        write = self._queue.get()
        while write is not None and len(group) < MAX_AT_ONCE:
            group.append(write)
            try:
                write = self._queue.get_nowait()
            except Empty:
                return group
        if group:
            self._queue.put(write)
        return group

    def _commit_group(self, group: Sequence[_PendingWrite], tries: int = 1) -> None:
        try:
            results = self._execute_group(group)
        except Exception as problem:  # noqa: BLE001 - the caller gets it; the thread goes on
            self._retry_one_by_one(group, problem, tries)
        else:
            for write, result in zip(group, results, strict=True):
                write.done.set_result(result)

    def _execute_group(self, group: Sequence[_PendingWrite]) -> list[object]:
        statements = [write.apply for write in group if isinstance(write.apply, SingleStatementChange)]
        if len(statements) == len(group):
            return self._connection.run_together(statements)
        durable = any(write.durable for write in group)
        return self._connection.run(
            lambda connection: [write.apply(connection) for write in group], durable=durable
        )

    def _retry_one_by_one(self, group: Sequence[_PendingWrite], problem: Exception, tries: int) -> None:
        """Apply the changes of a failed group separately.

        Changes that failed because of a conflict are retried. If the server is unreachable, all changes
        fail.
        """
        if is_unreachable(problem) or (
            len(group) == 1 and not (is_conflict(problem) and tries < MAX_CONFLICT_TRIES)
        ):
            for write in group:
                write.done.set_exception(_translate_error(problem))
            return
        for write in group:
            self._commit_group([write], tries + (len(group) == 1))


def _translate_error(problem: Exception) -> Exception:
    if isinstance(problem, SQLAlchemyError):
        error = to_store_error(problem, "writing the database")
        error.__cause__ = problem
        return error
    return problem


InsertList = Callable[[Connection, Sequence[Values]], None]
OnMessage = Callable[[Connection], object]


class DatabaseAccess:
    """A database that is accessed through separate threads. Concurrent changes share a transaction."""

    def __init__(self, database: OpenDatabase, on_message: OnMessage | None = None) -> None:
        self._database = database
        self._dialect = database.writing.dialect.name
        self._patience = ServerRetry()
        self._writer = Writer(database.writing, self._patience)
        self._writer.start()
        self._readers = ThreadPoolExecutor(READER_COUNT, thread_name_prefix="store-reader")
        self.messages_added = asyncio.Event()
        """Set when a webhook message was committed; the webhook sender clears it."""
        self.on_message = on_message or (lambda _: None)
        """Called in the transaction that writes a webhook message, because another process may send it."""

    async def write(self, apply: Change[T], *, durable: bool = True) -> T:
        """Run a change in a transaction. `Writer.write` documents the arguments, result and errors."""
        return await self._writer.write(apply, durable=durable)

    async def read(self, fetch: Callable[[Connection], T]) -> T:
        """Run a query in a reading thread, and return its result. Raises: StoreError, if the query fails."""

        def query() -> T:
            with self._database.reading.connect() as connection:
                return fetch(connection)

        def run() -> T:
            with translate_errors("reading the database"):
                return query() if not self.is_shared else self._patience.retry_while_unreachable(query)

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may also write to this database."""
        return self._dialect != "sqlite"

    async def create_tables(self, tables: Sequence[Table]) -> None:
        """Create the given tables that don't exist, with their indexes. Raises: StoreError, if this fails."""
        missing = await self.read(
            lambda connection: [each for each in tables if not inspect(connection).has_table(each.name)]
        )

        def create(connection: Connection) -> None:
            if self.is_shared:
                lock_table_creation(connection)
            for table in missing:
                table.create(connection, checkfirst=True)

        if missing:
            await self.write(create)

    def build_insert_or_ignore(self, table: Table) -> Executable:
        """Return the insert statement of this dialect that skips rows whose key already exists.

        The result's `rowcount` is 1 if the row is new, although some drivers return this value only on
        request.
        """
        if self._dialect == "postgresql":
            statement: Executable = postgresql.insert(table).on_conflict_do_nothing()
        else:
            statement = sqlite.insert(table).on_conflict_do_nothing()
        return statement.execution_options(preserve_rowcount=True)

    def build_list_inserter(self, table: Table) -> InsertList:
        """Return a function that inserts rows and skips existing keys, with one statement on a server."""
        if self._dialect != "postgresql":
            each = self.build_insert_or_ignore(table)
            return lambda connection, values: connection.execute(each, values).close()
        whole = build_insert_json_rows(table)
        return lambda connection, values: connection.execute(
            whole, {"listed": serialize_compact(values).decode()}
        ).close()

    async def close(self) -> None:
        """Finish pending writes and close the database. A second call has no effect."""
        await self._writer.close()
        self._readers.shutdown()
        self._database.close()


@asynccontextmanager
async def open_access(
    state_dir: Path, database_url: str | None = None, on_message: OnMessage | None = None
) -> AsyncIterator[DatabaseAccess]:
    """Open the database, migrate its schema, yield access to it, and close the database on exit.

    Raises:
        ConfigError: ``store.url``, for a malformed URL or a missing driver.
        StoreError: the database is damaged, newer than this program, or not writable.
    """
    access = DatabaseAccess(await asyncio.to_thread(open_database, state_dir, database_url), on_message)
    try:
        yield access
    finally:
        await access.close()
