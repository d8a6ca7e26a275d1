"""Batches from their first line to their last verdict, over crashes, cancelling and sending again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assayd.errors import RequestError
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from support.daemons.small_daemon import PEER, How, SmallDaemon, small_daemon

Sender = Any  # the fixture's class; test folders are not a package

OTHER = Peer(uid=2000, gid=2000, pid=2)
PASSED, FAILED, ERROR = Verdict.VALIDATED, Verdict.FAILED, Verdict.ERROR


async def waiting(daemon: SmallDaemon, count: int) -> None:
    """Wait until so many attempts are at the shut gate, and see that no more come."""
    while len(daemon.checks.waiting) < count:
        await daemon.shared.jobs.unfinished()  # lets the store's thread work


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
