"""Provides the stores with access to the database, through one writing thread and a few reading threads.

A commit takes one disk flush, regardless of its size, so writes that arrive during a commit share the next
commit. If one of the writes fails, the group is rolled back, and each write is repeated separately, so
that the others succeed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar, cast

from sqlalchemy import Connection, Engine, Executable, Table, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from assayd.documents import compact
from assayd.errors import StoreError
from assayd.store.database import READERS, OpenDatabase, WritingConnection, open_database
from assayd.store.faults import database_error, translate_errors
from assayd.store.rows import Values
from assayd.store.server import (
    CROSSED_TRIES,
    OneStatement,
    ServerRetry,
    insert_listed,
    is_conflict,
    is_unreachable,
    one_at_a_time,
)

T = TypeVar("T")
Change = Callable[[Connection], T]

MOST_AT_ONCE = 256
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
        while group := self._next_group():
            wanted = [write for write in group if write.done.set_running_or_notify_cancel()]
            if wanted:
                self._commit_group(wanted)
            # Release large values now, because the next write may come much later.
            del group, wanted
        self._connection.close()

    def _next_group(self) -> list[_PendingWrite]:
        """Wait for a write and return it with all pending writes, or return an empty group at shutdown."""
        group: list[_PendingWrite] = []
        write = self._queue.get()
        while write is not None and len(group) < MOST_AT_ONCE:
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
        statements = [write.apply for write in group if isinstance(write.apply, OneStatement)]
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
            len(group) == 1 and not (is_conflict(problem) and tries < CROSSED_TRIES)
        ):
            for write in group:
                write.done.set_exception(_translate_error(problem))
            return
        for write in group:
            self._commit_group([write], tries + (len(group) == 1))


def _translate_error(problem: Exception) -> Exception:
    if isinstance(problem, SQLAlchemyError):
        error = database_error(problem, "writing the database")
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
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self.messages_added = asyncio.Event()
        """Set when a webhook message was committed; the webhook sender clears it."""
        self.on_message = on_message or (lambda _: None)
        """Called in the transaction that writes a webhook message, because another process may send it."""

    async def write(self, apply: Change[T], *, durable: bool = True) -> T:
        """Run a change in a transaction. `Writer.write` documents the arguments, result and errors."""
        return await self._writer.write(apply, durable=durable)

    async def read(self, fetch: Callable[[Connection], T]) -> T:
        """Run a query in a reading thread. Raises: StoreError."""

        def query() -> T:
            with self._database.reading.connect() as connection:
                return fetch(connection)

        def run() -> T:
            with translate_errors("reading the database"):
                return query() if not self.is_shared else self._patience.retry_while_away(query)

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may also write to this database."""
        return self._dialect != "sqlite"

    async def make(self, tables: Sequence[Table]) -> None:
        """Create the missing ones of the given tables, with their indexes. Raises: StoreError."""
        missing = await self.read(
            lambda connection: [each for each in tables if not inspect(connection).has_table(each.name)]
        )

        def create(connection: Connection) -> None:
            if self.is_shared:
                one_at_a_time(connection)
            for table in missing:
                table.create(connection, checkfirst=True)

        if missing:
            await self.write(create)

    def insert_or_nothing(self, table: Table) -> Executable:
        """Return the insert statement of this dialect that skips rows whose key already exists.

        The result's `rowcount` is 1 if the row is new, although some drivers return this value only on
        request.
        """
        if self._dialect == "postgresql":
            statement: Executable = postgresql.insert(table).on_conflict_do_nothing()
        else:
            statement = sqlite.insert(table).on_conflict_do_nothing()
        return statement.execution_options(preserve_rowcount=True)

    def insert_list_if_absent(self, table: Table) -> InsertList:
        """Return a function that inserts rows and skips existing keys, with one statement on a server."""
        if self._dialect != "postgresql":
            each = self.insert_or_nothing(table)
            return lambda connection, values: connection.execute(each, values).close()
        whole = insert_listed(table)
        return lambda connection, values: connection.execute(
            whole, {"listed": compact(values).decode()}
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
    """Open the database, migrate its schema, and close the database on exit.

    Raises:
        ConfigError: ``store.url``.
        StoreError: the database is damaged, newer than this program, or not writable.
    """
    access = DatabaseAccess(await asyncio.to_thread(open_database, state_dir, database_url), on_message)
    try:
        yield access
    finally:
        await access.close()
