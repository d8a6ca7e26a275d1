"""A warm pool on the fake engine, and a well-behaved guest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from assayd.clock import SystemClock, UlidGenerator
from assayd.guest.frames import FrameDecoder, encode_frame
from assayd.ports.engine import ImageFacts
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.pool import ContainerPool
from assayd.sandbox.pool_decisions import PoolDemand, PoolKey, PoolLimits
from support.engines.pool_values import key
from support.fakes.engine import FakeEngine, Peer

IMAGE = ImageFacts(name="assayd/python", digest="sha256:1", size_bytes=1, labels={})
A = replace(key(), image="assayd/python")
B = replace(A, memory_bytes=A.memory_bytes * 2)
READY = encode_frame(
    {
        "type": "ready",
        "protocol": 1,
        "python": "3.11.2",
        "preloaded": 0,
        "preload_failed": [],
        "cgroup": 1,
        "memory_bytes": 1,
    }
)


async def polite_guest(peer: Peer) -> None:
    """Answer the greeting, then wait until the stream ends."""
    decoder = FrameDecoder()
    while data := await peer.read():
        for header, _ in decoder.feed(data):
            if header["type"] == "hello":
                await peer.write(READY)


@asynccontextmanager
async def running(
    engine: FakeEngine,
    *,
    base: int = 0,
    keep: Iterable[PoolKey] = (),
    clock: SystemClock | None = None,
    processors: int = 1,
) -> AsyncIterator[ContainerPool]:
    demand = PoolDemand(base=base, unused=base, most=base)
    demand.keep(frozenset(keep))
    pool = ContainerPool(
        engine=engine,
        origin=ContainerOrigin(daemon_id="d", generation="g"),
        clock=clock or SystemClock(),
        ids=UlidGenerator(),
        limits=PoolLimits(processors=processors),
        demand=demand,
    )
    async with pool.running():
        yield pool


async def until(condition) -> None:
    """Let the event loop run until a condition holds."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def owned(engine: FakeEngine) -> int:
    return len(await engine.list_owned("d"))
