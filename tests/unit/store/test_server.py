"""Differences of a database server from a file: other writers, and lost connections."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from sqlalchemy import Column, Integer, MetaData, Table, bindparam, func, inspect, literal, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError

from assayd.clock import SystemClock
from assayd.errors import RequestError, StoreError
from assayd.model.batch import Batch, BatchLine
from assayd.model.records import AttemptQuery
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.access import HEAD, Writer, open_database
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore, open_job_store
from assayd.store.library import DatabaseLibrary
from assayd.store.migrations import configuration
from assayd.store.server import (
    PATIENCE_S,
    CompiledStatement,
    ServerRetry,
    SingleStatementChange,
    is_unreachable,
)
from assayd.store.tables import ExactText
from assayd_pipeline.stored import execution_logs
from support.stores.postgres import PostgresServer, needs_postgres

Make = Any  # the fixture's class; test folders are not a package
pytestmark = needs_postgres


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database() as url:
        yield url


@pytest.fixture
async def two(tmp_path: Path, url: str) -> AsyncIterator[tuple[DatabaseJobStore, DatabaseJobStore]]:
    """Return two stores on one database, like those of two processes."""
    async with AsyncExitStack() as held:
        first = await held.enter_async_context(open_job_store(tmp_path, url))
        yield first, await held.enter_async_context(open_job_store(tmp_path, url))


def batch(make: Make, number: int, name: str = "b") -> Batch:
    attempt = make.attempt(number)
    return Batch(
        id=attempt.id, name=name, peer=attempt.peer, created_at=attempt.created_at, concurrency=2, dedupe=True
    )


async def test_one_request_at_two_gateways_is_one_attempt(two: Any, make: Make) -> None:
    for number in range(20):
        asked = (
            store.accept(make.attempt(2 * number + n), b"{}", idempotency_key=f"k{number}")
            for n, store in enumerate(two)
        )
        first, second = await asyncio.gather(*asked)
        assert first.attempt.id == second.attempt.id
        assert [first.existing, second.existing].count(True) == 1
    assert len((await two[0].list(AttemptQuery())).attempts) == 20


async def test_same_id_at_two_gateways_is_one_users(two: Any, make: Make) -> None:
    other = make.attempt(peer=Peer(uid=2, gid=2, pid=2))
    answers = await asyncio.gather(
        two[0].accept(make.attempt(), b"{}"), two[1].accept(other, b"{}"), return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["AcceptedSubmission", "RequestError"]


async def test_one_verdict_counts_whoever_brings_it(two: Any, make: Make) -> None:
    for number in range(20):
        await two[0].accept(make.attempt(number), b"{}")
        ends = [make.finished(number), make.finished(number, verdict=Verdict.FAILED)]
        came = await asyncio.gather(*(store.finish(end) for store, end in zip(two, ends, strict=True)))
        assert came.count(True) == 1
        assert await two[0].get(make.attempt(number).id) == ends[came.index(True)]


async def test_lease_is_one_containers(two: Any, make: Make) -> None:
    await two[0].accept(make.attempt(), b"{}")
    other = replace(make.run(), container_ulid="0" * 26)
    answers = await asyncio.gather(two[0].lease(make.run()), two[1].lease(other), return_exceptions=True)
    assert [type(answer) for answer in answers if answer] == [StoreError]
    if answers[0] is None:
        await two[1].lease(make.run())  # the answer to it was lost, and it is asked for again


async def test_versions_of_a_name_are_counted_by_both(two: Any, make: Make) -> None:
    for number in range(6):
        await two[0].accept(make.attempt(number), b"{}")
        await two[0].finish(make.finished(number))

    async def room() -> int:
        return 10**12

    libraries = [DatabaseLibrary(store.access, SystemClock(), most_bytes=10**12, room=room) for store in two]
    entries = await asyncio.gather(
        *(libraries[n % 2].approve(make.finished(n), "name", 1000) for n in range(6))
    )
    assert sorted(entry.version for entry in entries) == [1, 2, 3, 4, 5, 6]


async def test_batch_never_ends_with_lines_that_wait(two: Any, make: Make) -> None:
    """Regression: a line that was added while the batch ended would have waited forever."""
    here, there = (DatabaseBatchStore(store.access) for store in two)
    for number in range(30):
        opened = await here.open(batch(make, number, f"b{number}"), max_unfinished=99)
        await here.complete(opened.id)
        line = BatchLine(number=1, input_digest="d" * 64, document=b"{}", attempt_id=make.attempt(1).id)
        await asyncio.gather(there.finish(opened.id, opened.created_at), here.add(opened.id, [line]))
        found = await here.get(opened.id)
        assert found is not None
        assert found.finished_at is None


async def test_same_name_at_two_gateways_is_one_batch(two: Any, make: Make) -> None:
    stores = [DatabaseBatchStore(store.access) for store in two]
    opened = await asyncio.gather(
        *(store.open(batch(make, n), max_unfinished=9) for n, store in enumerate(stores))
    )
    assert opened[0].id == opened[1].id


_WRITER = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from support.stores.stored_attempts import Make
from assayd.store.jobs import open_job_store

async def main():
    make, first = Make(), 0
    async with open_job_store(Path(sys.argv[2]), sys.argv[3]) as jobs:
        async def one(number):
            await jobs.accept(make.attempt(number), b"%d" % (number % 7))
            return await jobs.finish(make.finished(number))
        print(sum(await asyncio.gather(*(one(number) for number in range(150)))))

asyncio.run(main())
"""


def test_two_processes_that_write_the_same_lose_and_double_nothing(tmp_path: Path, url: str) -> None:
    tests = Path(__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, tests, tmp_path, url], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    first = [int(writer.communicate(timeout=60)[0]) for writer in writers]
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM attempts), (SELECT count(*) FROM verdicts),"
            " (SELECT count(*) FROM submissions)"
        ).fetchone()
    assert (sum(first), counts) == (150, (150, 150, 7))


async def test_server_that_is_killed_and_restarted_loses_and_doubles_nothing(
    tmp_path: Path, url: str, make: Make, postgres: PostgresServer
) -> None:
    answered: set[int] = set()
    async with open_job_store(tmp_path, url) as jobs:

        async def keep_writing(begin: int) -> None:
            for number in range(begin, begin + 40):
                accepted = await jobs.accept(make.attempt(number), b"{}")
                assert not accepted.existing
                assert await jobs.get(make.attempt(number).id) is not None
                assert await jobs.finish(make.finished(number)) in {True, False}
                answered.add(number)

        async with asyncio.TaskGroup() as tasks:
            for begin in range(0, 400, 40):
                tasks.create_task(keep_writing(begin))
            while len(answered) < 50:
                await asyncio.sleep(0)
            await asyncio.to_thread(postgres.kill)
            await asyncio.to_thread(postgres.start)
        found = await jobs.access.read(
            lambda c: c.execute(text("SELECT attempt_id FROM verdicts")).scalars().all()
        )
    assert sorted(found) == sorted(make.attempt(number).id for number in range(400))


async def test_answer_to_a_commit_that_was_lost_is_found_out(tmp_path: Path, url: str, make: Make) -> None:
    async with open_job_store(tmp_path, url) as jobs:
        lose_next_answer(jobs)
        accepted = await jobs.accept(make.attempt(), b"{}", idempotency_key="k")
        assert not accepted.existing
        lose_next_answer(jobs)
        await jobs.lease(make.run())
        lose_next_answer(jobs)
        assert await jobs.finish(make.finished(), [make.event()])
        assert not await jobs.finish(make.finished(), [make.event()])
        assert await jobs.get(make.attempt().id) == make.finished()
        assert (await jobs.accept(make.attempt(2), b"{}", idempotency_key="k")).existing


def lose_next_answer(jobs: DatabaseJobStore) -> None:
    """Make the next commit happen, but lose its answer with the connection."""
    dialect = jobs.access._database.writing.dialect
    commit = dialect.do_commit

    def lost(connection: Any) -> None:
        commit(connection)
        dialect.do_commit = commit  # type: ignore[method-assign]
        connection.dbapi_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    dialect.do_commit = lost  # type: ignore[method-assign]


def away() -> OperationalError:
    return OperationalError(None, None, psycopg.OperationalError("connection refused"))  # type: ignore[arg-type]


class HandTime:
    """A clock that advances by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def failing(times: int) -> Callable[[], int]:
    tried = count(1)

    def act() -> int:
        if (number := next(tried)) <= times:
            raise away()
        return number

    return act


def test_server_that_comes_back_in_time_is_waited_for() -> None:
    time = HandTime()
    patience = ServerRetry(clock=lambda: time.now, sleep=time.sleep)
    assert patience.retry_while_unreachable(failing(10)) == 11
    assert 5 < time.now - 100 < PATIENCE_S


def test_server_that_stays_away_is_waited_for_once_and_not_by_each() -> None:
    time = HandTime()
    patience = ServerRetry(clock=lambda: time.now, sleep=time.sleep)
    with pytest.raises(OperationalError):
        patience.retry_while_unreachable(failing(999))
    began = time.now
    with pytest.raises(OperationalError):
        patience.retry_while_unreachable(failing(999))
    assert time.now == began
    assert patience.retry_while_unreachable(failing(0)) == 1
    assert patience.retry_while_unreachable(failing(3)) == 4


async def test_server_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    address = f"postgresql+psycopg://nobody@/none?host={tmp_path}"
    with pytest.raises(StoreError, match="check that the database server runs") as caught:
        await asyncio.to_thread(
            open_database, tmp_path, address, ServerRetry(sleep=lambda _: None, clock=count(0, 9).__next__)
        )
    assert (caught.value.code, caught.value.retryable) == ("store.unreachable", True)


def test_account_without_rights_is_told_who_makes_tables(tmp_path: Path, postgres: PostgresServer) -> None:
    with pytest.raises(StoreError, match="only the account that owns the tables") as caught:
        open_database(tmp_path, postgres.url("assayd", "gateway"))
    assert caught.value.code == "store.unwritable"


def test_account_that_only_writes_rows_opens_what_the_owner_has_made(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    open_database(tmp_path, postgres.url("assayd")).close()
    database = open_database(tmp_path, postgres.url("assayd", "gateway"))
    with database.writing.begin() as connection:
        connection.execute(text("INSERT INTO submissions VALUES ('d', '')"))
        connection.execute(text("DELETE FROM submissions"))
    with database.reading.connect() as connection, pytest.raises(Exception, match="read-only"):
        connection.execute(text("DELETE FROM attempts"))
    database.close()


def test_database_that_sorts_by_a_language_is_refused(tmp_path: Path, postgres: PostgresServer) -> None:
    form = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
    with postgres.empty_database(form) as url, pytest.raises(StoreError, match="LC_COLLATE 'C'") as caught:
        open_database(tmp_path, url)
    assert caught.value.code == "store.collation"


async def test_tables_are_made_once_when_several_start_together(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with postgres.empty_database() as url:
        opened = await asyncio.gather(*(asyncio.to_thread(open_database, tmp_path, url) for _ in range(3)))
        with opened[0].reading.connect() as connection:
            assert inspect(connection).has_table("attempts")
        for database in opened:
            database.close()


@pytest.mark.parametrize("revision", [f"{number:04}" for number in range(1, int(HEAD))])
async def test_database_of_an_earlier_version_is_taken_along_with_all_that_is_in_it(
    tmp_path: Path, make: Make, postgres: PostgresServer, revision: str
) -> None:
    with postgres.empty_database() as url:
        async with open_job_store(tmp_path, url) as jobs:
            await jobs.accept(make.attempt(1), b"{}", idempotency_key="k")
            await jobs.accept(make.attempt(2), b"{}")
            await jobs.finish(make.finished(1), [make.event()])
        downgrade(tmp_path, url, revision)
        async with open_job_store(tmp_path, url) as jobs:
            assert await jobs.get(make.attempt(1).id) == make.finished(1)
            assert [attempt.id for attempt in await jobs.list_unfinished()] == [make.attempt(2).id]
            assert await jobs.events(make.attempt(1).id) == [make.event()]
            assert (await jobs.usage())[1000].disk_bytes == 4096
            await jobs.accept(make.attempt(3, labels={"note": "n" * 128}), b"{}")
            await jobs.finish(make.finished(3), [make.event(3, seq=2**40)])


def downgrade(folder: Path, url: str, revision: str) -> None:
    database = open_database(folder, url)
    with database.writing.begin() as connection:
        execution_logs.metadata.create_all(connection)
        config = configuration()
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
    database.close()


async def test_text_with_any_character_is_given_back_as_it_was(two: Any, make: Make) -> None:
    odd = "a\0b\x1ac\x1a0d\x1a1\0"
    await two[0].accept(make.attempt(intent=odd), b"\0")
    found = await two[1].get(make.attempt().id)
    assert found == make.attempt(intent=odd)
    assert await two[0].get_by_idempotency_key(1000, "\0") is None
    with pytest.raises(RequestError):
        await two[0].list(AttemptQuery(cursor="\0"))
    assert not (await two[0].list(AttemptQuery(kind="\0", labels=(("a\0", "b"),), cursor="1.\0"))).attempts


def test_what_a_statement_does_wrong_is_not_taken_for_a_server_that_is_away(url: str) -> None:
    problem = OperationalError("SELECT", None, psycopg.OperationalError("too many parameters"))  # type: ignore[arg-type]
    assert not is_unreachable(problem)
    assert is_unreachable(away())


_TABLE = Table("t", MetaData(), Column("n", Integer, primary_key=True), Column("words", ExactText))
_NEW = (
    insert(_TABLE)
    .values(n=bindparam("n"), words=bindparam("words"))
    .returning(_TABLE.c.n, _TABLE.c.words)
    .cte("new")
)
_PUT = CompiledStatement(
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


def put(number: int, words: str | None = None, **reading: Any) -> SingleStatementChange[Any]:
    read = reading.get("read", lambda row: row["xact"])
    return SingleStatementChange(_PUT, {"n": number, "words": words}, read)


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
