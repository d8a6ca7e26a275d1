"""An in-memory connection of guest code, and a host on loopback, for tests of egress sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from assayd.aio import open_task_group
from assayd.clock import SystemClock
from assayd.egress import Relay
from assayd.egress.relay import RelaySession
from assayd.metrics import Metrics
from assayd.model.policy import HttpRule, NetworkMode, NetworkPolicy
from assayd.ports.egress import EgressLimits

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HOST = "api.example.com"


class MemoryStream:
    """Implements `ports.egress.GuestStream`, and the guest's side of the stream."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._changed = asyncio.Condition()
        self._hung_up = False
        self.heard = b""
        self.ended = False
        self.broken = False
        self.gone = False

    def say(self, data: bytes) -> None:
        """Send bytes like guest code."""
        self._said.put_nowait(data)

    def hang_up(self) -> None:
        """Close the guest's side."""
        self._said.put_nowait(b"")

    async def until(self, fits: Callable[[MemoryStream], bool]) -> None:
        """Wait until the received bytes, or the end of the stream, meet a condition."""
        async with self._changed:
            await self._changed.wait_for(lambda: fits(self))

    async def read(self) -> bytes:
        if self._hung_up:
            return b""
        data = await self._said.get()
        self._hung_up = not data
        return data

    async def write(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionResetError
        self.heard += data
        await self._tell()

    async def end(self) -> None:
        self.ended = True
        await self._tell()

    async def reset(self) -> None:
        self.broken = True
        self.hang_up()
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@asynccontextmanager
async def host(handle: Handle) -> AsyncIterator[int]:
    """Serve on loopback as the host that the policy lists; yield the port."""
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await handle(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await server.wait_closed()


def session(
    *ports: int,
    hosts: tuple[str, ...] = (HOST,),
    rule: HttpRule | None = None,
    look_up: Callable[[str, int], tuple[str, ...]] = lambda host, port: ("127.0.0.1",),
    public: Callable[[str], bool] = lambda address: True,
    connect_timeout_s: float = 5.0,
    **limits: float,
) -> RelaySession:
    """Return an attempt's egress session; every name resolves to loopback, which counts as public here."""
    relay = Relay(
        EgressLimits(**limits),  # type: ignore[arg-type]
        SystemClock(),
        Metrics(),
        look_up=look_up,
        public=public,
    )
    policy = NetworkPolicy(
        mode=NetworkMode.ALLOWLIST,
        hosts=frozenset(hosts),
        ports=frozenset(ports),
        http={HOST: rule} if rule is not None else {},
        connect_timeout_s=connect_timeout_s,
    )
    return relay.session(policy)


@asynccontextmanager
async def served(way: RelaySession, unit: int = 0) -> AsyncIterator[MemoryStream]:
    """Serve one connection while the body acts as the guest, which hangs up at the end."""
    stream = MemoryStream()
    async with open_task_group() as group:
        serving = group.create_task(way.serve(stream, unit))
        try:
            yield stream
            stream.hang_up()
            await asyncio.wait({serving})
        finally:
            serving.cancel()
