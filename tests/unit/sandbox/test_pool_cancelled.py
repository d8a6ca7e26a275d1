"""The warm pool when a waiter is cancelled at the moment its container becomes ready."""

from __future__ import annotations

import asyncio

import pytest

from support.engines.warm_pool import IMAGE, READY, A, owned, running, until
from support.fakes.engine import FakeEngine, Peer


async def test_container_that_is_ready_as_its_waiter_is_cancelled_goes_away_unused() -> None:
    async def guest(peer: Peer) -> None:
        await peer.read()
        await peer.write(READY)
        waiter.cancel()
        while await peer.read():
            pass

    engine = FakeEngine(guest, images=[IMAGE])
    async with running(engine) as pool:
        waiter = asyncio.ensure_future(pool.acquire(A))

        with pytest.raises(asyncio.CancelledError):
            await waiter

        await until(lambda: not pool.state().containers)
        assert await owned(engine) == 0
