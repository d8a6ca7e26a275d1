from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text

from assayd.errors import RequestError, StoreError
from assayd.store.access import MOST_AT_ONCE, Writer
from assayd.store.database import open_database
from support.stores.empty_database import lay_database


class Commits:
    """A writer on a new database that counts its commits."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        lay_database(folder)
        self.database = open_database(folder)
        with self.database.writing.begin() as connection:
            connection.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
        event.listen(self.database.writing, "commit", self._count)
        self.writer = Writer(self.database.writing)
        self.writer.start()

    def _count(self, _connection: Connection) -> None:
        self.count += 1

    def rows(self) -> list[int]:
        with self.database.reading.connect() as connection:
            return list(connection.execute(text("SELECT n FROM t ORDER BY n")).scalars())


@pytest.fixture
async def commits(tmp_path: Path) -> AsyncIterator[Commits]:
    commits = Commits(tmp_path)
    yield commits
    await commits.writer.close()
    commits.database.close()


def put(number: int) -> object:
    return lambda connection: connection.execute(text("INSERT INTO t VALUES (:n)"), {"n": number}).rowcount


class Busy:
    """A change that blocks the writer's thread until it is released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, _connection: Connection) -> None:
        self.begun.set()
        self.let_go.wait(10)


async def queued(commits: Commits, changes: list[object]) -> list[object]:
    """Queue changes while the writer is busy, so that they are one group; return their results."""
    busy = Busy()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(commits.writer.write(busy))
        await asyncio.to_thread(busy.begun.wait, 10)
        asked = asyncio.gather(*(commits.writer.write(c) for c in changes), return_exceptions=True)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        commits.count = 0
        busy.let_go.set()
    return await asked


async def test_changes_that_wait_together_share_one_commit(commits: Commits) -> None:
    results = await queued(commits, [put(n) for n in range(40)])
    assert results == [1] * 40
    assert commits.rows() == list(range(40))
    assert commits.count == 2  # the busy one's and theirs


async def test_failing_change_does_not_fail_its_neighbours(commits: Commits) -> None:
    results = await queued(commits, [put(1), put(1), put(2)])
    assert (results[0], results[2]) == (1, 1)
    assert isinstance(results[1], StoreError)
    assert results[1].code == "store.conflict"
    assert commits.rows() == [1, 2]


async def test_refusal_by_a_change_reaches_its_caller_alone(commits: Commits) -> None:
    def refuse(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t VALUES (7)"))
        raise RequestError("conflict", "no")

    results = await queued(commits, [put(1), refuse])
    assert isinstance(results[1], RequestError)
    assert commits.rows() == [1]


async def test_bug_in_a_change_reaches_its_caller_and_the_writer_goes_on(commits: Commits) -> None:
    def stumble(_connection: Connection) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await commits.writer.write(stumble)
    assert await commits.writer.write(put(1)) == 1  # type: ignore[arg-type]


async def test_more_than_fit_in_a_group_take_another_commit(commits: Commits) -> None:
    await queued(commits, [put(n) for n in range(MOST_AT_ONCE + 10)])
    assert commits.count == 3
    assert len(commits.rows()) == MOST_AT_ONCE + 10


async def test_full_disk_is_reported_as_such_and_passes(commits: Commits) -> None:
    def fill(connection: Connection) -> None:
        pages = connection.execute(text("PRAGMA page_count")).scalar()
        connection.execute(text(f"PRAGMA max_page_count={pages}"))
        for n in range(10_000):
            connection.execute(text("INSERT INTO t VALUES (:n)"), {"n": n})

    with pytest.raises(StoreError, match="free space") as caught:
        await commits.writer.write(fill)
    assert (caught.value.code, caught.value.retryable) == ("store.full", True)
    assert commits.rows() == []
    assert await commits.writer.write(put(1)) == 1  # type: ignore[arg-type]


class Large:
    """A value that a change holds."""


async def test_what_was_written_is_not_held_until_the_next_write(commits: Commits) -> None:
    """Regression: the values of a large result were held, and increased the daemon's memory by 100 MB."""
    gone = threading.Event()
    large = Large()
    weakref.finalize(large, gone.set)

    def change(_connection: Connection, held: Large = large) -> None:
        assert held is not None

    await commits.writer.write(change)
    del large, change
    assert await asyncio.to_thread(gone.wait, 10)
