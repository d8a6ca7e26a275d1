"""Provides the stores with access to the database, through one writing thread and a few reading threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Executable, Table, inspect
from sqlalchemy.dialects import postgresql, sqlite

from assayd.documents import compact
from assayd.store.database import READERS, OpenDatabase, open_database
from assayd.store.faults import translate_errors
from assayd.store.rows import Values
from assayd.store.server import ServerRetry, insert_listed, one_at_a_time
from assayd.store.writer import Change, Writer

T = TypeVar("T")
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
