"""The open database as the stores use it: one thread that writes, and a few that read."""

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
from assayd.store.faults import translated
from assayd.store.rows import Values
from assayd.store.server import ServerPatience, insert_listed, one_at_a_time
from assayd.store.writer import Change, Writer

T = TypeVar("T")
InsertList = Callable[[Connection, Sequence[Values]], None]


class DatabaseAccess:
    """Threads on a database. What is asked for together is written together."""

    def __init__(self, database: OpenDatabase) -> None:
        self._database = database
        self._dialect = database.writing.dialect.name
        self._patience = ServerPatience()
        self._writer = Writer(database.writing, self._patience)
        self._writer.start()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self.messages_added = asyncio.Event()
        """Set when a message to a webhook was committed; the sender clears it."""
        self.on_message: Callable[[Connection], object] = lambda _: None
        """Called in the transaction that writes a message to a webhook: another process may send it."""

    async def write(self, apply: Change[T], *, durable: bool = True) -> T:
        """Run a change in a transaction, as `Writer.write` does."""
        return await self._writer.write(apply, durable=durable)

    async def read(self, fetch: Callable[[Connection], T]) -> T:
        """Run a query in a thread that reads. Raises: StoreError."""

        def query() -> T:
            with self._database.reading.connect() as connection:
                return fetch(connection)

        def run() -> T:
            with translated("reading the database"):
                return query() if not self.is_shared else self._patience.see_through(query)

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may write to this database, too."""
        return self._dialect != "sqlite"

    async def make(self, tables: Sequence[Table]) -> None:
        """Make those of these tables that are missing, with their indexes. Raises: StoreError."""
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
        """Return the insert that leaves a row with the same key as it is; each dialect has its own.

        Its result's `rowcount` says whether the row is new; not every driver keeps that unasked.
        """
        if self._dialect == "postgresql":
            statement: Executable = postgresql.insert(table).on_conflict_do_nothing()
        else:
            statement = sqlite.insert(table).on_conflict_do_nothing()
        return statement.execution_options(preserve_rowcount=True)

    def insert_list_or_nothing(self, table: Table) -> InsertList:
        """Return what inserts rows as `insert_or_nothing` does; on a server by one statement for all."""
        if self._dialect != "postgresql":
            each = self.insert_or_nothing(table)
            return lambda connection, values: connection.execute(each, values).close()
        whole = insert_listed(table)
        return lambda connection, values: connection.execute(
            whole, {"listed": compact(values).decode()}
        ).close()

    async def close(self) -> None:
        """Finish what is being written and close. Safe to call twice."""
        await self._writer.close()
        self._readers.shutdown()
        self._database.close()


@asynccontextmanager
async def open_access(state_dir: Path, database_url: str | None = None) -> AsyncIterator[DatabaseAccess]:
    """Open the database, bring it up to date, and close it at the end.

    Raises:
        ConfigError: ``store.url``.
        StoreError: the database is damaged, newer than this program, or cannot be written.
    """
    access = DatabaseAccess(await asyncio.to_thread(open_database, state_dir, database_url))
    try:
        yield access
    finally:
        await access.close()
