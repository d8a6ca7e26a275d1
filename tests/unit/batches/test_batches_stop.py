"""Batches from the first line to the last verdict: crashes, cancelling, sending again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from assayd.attempts.retention import RetentionLimits
from assayd.attempts.scheduler import QueueLimits
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.batch import BatchState
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from support.daemons.small_daemon import PEER, How, SmallDaemon, small_daemon

Sender = Any  # the fixture's class; test folders are not a package

OTHER = Peer(uid=2000, gid=2000, pid=2)
PASSED, FAILED, ERROR = Verdict.VALIDATED, Verdict.FAILED, Verdict.ERROR


async def waiting(daemon: SmallDaemon, count: int) -> None:
    """Wait until this number of attempts is at the closed gate, and check that no more arrive."""
    while len(daemon.checks.waiting) < count:
        await daemon.jobs.list_unfinished()  # lets the store's thread work


async def test_low_disk_stops_the_receiving(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path, How(min_free_bytes=2**60)) as daemon:
        with pytest.raises(RequestError) as caught:
            await sender.send(daemon, sender.lines("x"))
        assert (caught.value.code, caught.value.retryable) == ("not_ready", True)


async def test_batch_is_found_by_id_and_by_its_users_name(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch, _ = await sender.send(daemon, sender.lines("x"), name=None)
        assert batch.name == batch.id
        named = await sender.open(daemon, name="mine")
        assert await daemon.batches.find(named.id, uid=7) == named
        assert await daemon.batches.find("mine", uid=PEER.uid) == named
        assert await daemon.batches.find("mine", uid=7) is None


async def test_followers_are_sent_away_when_the_daemon_stops(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        batch, _ = await sender.send(daemon, sender.lines("x"))
        following = asyncio.ensure_future(sender.end(daemon, batch))
        await waiting(daemon, 1)
        daemon.batches.stop()
        assert not (await asyncio.wait_for(following, 10)).is_over


async def test_upload_that_nobody_goes_on_with_counts_as_sent_to_its_end(
    tmp_path: Path, sender: Sender
) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch = await sender.open(daemon)
        with pytest.raises(RequestError):
            await daemon.batches.receive(batch, broken_off(sender.lines("a")), sees=lambda _: True)
        await daemon.batches.expire_uploads()
        assert (await daemon.batches.progress(batch.id)).batch.state is BatchState.OPEN
        daemon.clock.days = 2
        await daemon.batches.expire_uploads()
        assert (await sender.end(daemon, batch)).batch.state is BatchState.FINISHED
        assert await sender.verdicts(daemon, batch) == [(1, Verdict.VALIDATED)]

        _, received = await sender.send(daemon, sender.lines("a", "b"))
        assert (received.known, received.added) == (1, 1)


async def test_upload_that_is_going_on_is_not_taken_as_ended_nor_removed(
    tmp_path: Path, sender: Sender
) -> None:
    """Regression: retention removed the lines during an upload, and later lines caused an internal error."""
    more, taken = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        first, second = sender.lines("a", "b")
        yield first + b"\n"
        taken.set()
        await more.wait()
        yield second

    how = How(keep=RetentionLimits(days=1, attempts=1, disk_bytes=1))
    async with small_daemon(tmp_path, how) as daemon:
        batch = await sender.open(daemon)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(daemon.batches.receive(batch, slow(), sees=lambda _: True))
            await taken.wait()
            async for progress in daemon.batches.follow(batch.id):
                if progress.tally.done:
                    break
            daemon.clock.days = 40
            await daemon.batches.expire_uploads()
            swept = await daemon.service.collect_garbage(dry_run=False)
            assert (await daemon.batches.progress(batch.id)).batch.state is BatchState.OPEN
            more.set()
        assert (swept.attempts, swept.bundles) == (0, 1)
        assert sending.result().added == 2
        assert (await sender.end(daemon, batch)).tally.validated == 2


async def broken_off(lines: list[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line + b"\n"
    raise RequestError("too_slow", "no body data arrived", retryable=True)


async def test_items_are_looked_up_only_if_their_attempts_exist(tmp_path: Path, sender: Sender) -> None:
    def looked_up(daemon: SmallDaemon) -> list[str]:
        found, get = list[str](), daemon.jobs.get

        async def noted(attempt_id: str) -> Attempt | None:
            found.append(attempt_id)
            return await get(attempt_id)

        daemon.jobs.get = noted  # type: ignore[method-assign]
        return found

    async with small_daemon(tmp_path, How(queue=QueueLimits(active=0))) as daemon:
        found = looked_up(daemon)
        await sender.send(daemon, sender.lines("a", "b"))
        while len(await daemon.jobs.list_unfinished()) < 2:
            pass
        assert found == []
    async with small_daemon(tmp_path) as daemon:
        found = looked_up(daemon)
        left = await daemon.admission.load_unfinished()
        ids = {attempt.id for attempt in left}
        daemon.checks.open.clear()  # else the attempts can end before their items are read
        await daemon.admission.recover(left)
        await daemon.batches.recover(left)
        async with asyncio.timeout(30):
            while not ids <= set(found):
                await daemon.jobs.list_unfinished()  # lets the store's thread work
        daemon.checks.open.set()
        batch = await daemon.batches.find("b", uid=PEER.uid)
        await sender.end(daemon, batch)
