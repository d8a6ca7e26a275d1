"""Changes of one statement each, which are sent to a server together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, bindparam, func, literal, select, text
from sqlalchemy.dialects.postgresql import insert

from assayd.errors import StoreError
from assayd.store.access import Writer
from assayd.store.database import open_database
from assayd.store.one_statement import OneStatement, StatementText
from assayd.store.tables import ExactText
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

_TABLE = Table("t", MetaData(), Column("n", Integer, primary_key=True), Column("words", ExactText))
_NEW = (
    insert(_TABLE)
    .values(n=bindparam("n"), words=bindparam("words"))
    .returning(_TABLE.c.n, _TABLE.c.words)
    .cte("new")
)
_PUT = StatementText(
    select(_NEW.c.n, _NEW.c.words, func.txid_current().label("xact"), literal(7).label("seven"))
)


class Server:
    """A writer on a server, and the statements that it has sent."""

    def __init__(self, database: Any) -> None:
        self.database = database
        self.writer = Writer(database.writing)

    def rows(self) -> list[int]:
        with self.database.reading.connect() as connection:
            return list(connection.execute(select(_TABLE.c.n).order_by(_TABLE.c.n)).scalars())

    async def together(self, *changes: Any) -> list[Any]:
        """Queue changes while the thread is busy, so that they are one group."""
        begun, let_go = threading.Event(), threading.Event()

        def hold(_connection: object) -> None:
            begun.set()
            let_go.wait(10)

        asked = [asyncio.create_task(self.writer.write(hold))]
        await asyncio.to_thread(begun.wait, 10)
        asked += [asyncio.create_task(self.writer.write(change)) for change in changes]
        await asyncio.sleep(0)
        let_go.set()
        return (await asyncio.gather(*asked, return_exceptions=True))[1:]


@pytest.fixture
async def server(postgres: PostgresServer, tmp_path: Any) -> AsyncIterator[Server]:
    with postgres.empty_database() as url:
        database = open_database(tmp_path, url)
        with database.writing.begin() as connection:
            _TABLE.create(connection)
        found = Server(database)
        found.writer.start()
        yield found
        await found.writer.close()
        database.close()


def put(number: int, words: str | None = None, **reading: Any) -> OneStatement[Any]:
    read = reading.get("read", lambda row: row["xact"])
    return OneStatement(_PUT, {"n": number, "words": words}, read)


async def test_those_that_wait_are_one_transaction(server: Server) -> None:
    assert len(set(await server.together(*map(put, range(5))))) == 1
    assert server.rows() == [0, 1, 2, 3, 4]


async def test_one_that_fails_fails_alone(server: Server) -> None:
    changes = [put(1), put(2), put(1), put(3)]
    done = await server.together(*changes)
    assert [isinstance(each, StoreError) for each in done] == [False, False, True, False]
    assert server.rows() == [1, 2, 3]


async def test_one_is_made_among_other_changes(server: Server) -> None:
    other = text("INSERT INTO t VALUES (9) RETURNING n")
    done = await server.together(put(1, read=dict), lambda connection: connection.execute(other).scalar())
    assert (done[0]["n"], done[0]["seven"], done[1]) == (1, 7, 9)
    assert server.rows() == [1, 9]
    assert await server.writer.write(put(2, read=lambda row: row["n"])) == 2


@pytest.mark.parametrize("count", [1, 3])
async def test_what_a_lost_server_took_is_made_again(server: Server, count: int) -> None:
    others = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    await server.writer.write(put(100))
    with server.database.reading.connect() as connection:
        connection.execute(others)
    changes = [put(number) for number in range(count)]
    await asyncio.gather(*map(server.writer.write, changes))
    assert changes[0].tried == 2
    assert server.rows() == [*range(count), 100]


@pytest.mark.parametrize("together", [True, False])
async def test_text_is_read_as_it_was_given(server: Server, together: bool) -> None:
    words, neighbour = "a\0b\x1ac", put(2) if together else lambda _: None
    done = await server.together(put(1, words, read=lambda row: row["words"]), neighbour)
    assert done[0] == words
