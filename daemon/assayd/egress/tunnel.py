"""CONNECT: TLS to a listed host, let through once the client has named that host, and not looked into."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from assayd.aio import together
from assayd.egress.access import Access
from assayd.egress.guest import Guest
from assayd.egress.hello import HelloError, HelloReader
from assayd.egress.idle import idle_after
from assayd.egress.refusal import refused_by
from assayd.egress.upstream import Upstream
from assayd.findings.network_rules import NetworkRule


async def serve_tunnel(guest: Guest, access: Access) -> None:
    """Serve a CONNECT to its end. Raises: NotServed."""
    access.learn()
    early = await guest.early()
    async with access.connected() as upstream:
        await guest.establish()
        hello = await _greeting(guest, access, early)
        if hello:
            guest.greeted()
            await upstream.send(hello)
            await _join(guest, upstream)


async def _greeting(guest: Guest, access: Access, early: bytes) -> bytes:
    """Read the ClientHello and judge whom it names; return its bytes, none when the guest has none."""
    reader, data = HelloReader(), early
    try:
        async with asyncio.timeout(guest.limits.head_s):
            while (name := reader.feed(data)) is None:
                if not (data := await guest.read()):
                    return b""
    except HelloError as problem:
        access.learn(server_name=problem.rule)
    except TimeoutError:
        raise refused_by(NetworkRule.TOO_SLOW) from None
    else:
        access.learn(server_name=name)
    return reader.taken


async def _join(guest: Guest, upstream: Upstream) -> None:
    """Pass bytes in both directions until both have ended."""
    async with idle_after(guest.limits.idle_s) as moved:

        async def up() -> None:
            await _pump(guest.read, upstream.send, moved)
            upstream.end()

        async def down() -> None:
            await _pump(upstream.read, guest.stream.write, moved)
            await guest.stream.end()

        await together(up(), down())


async def _pump(
    read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]], moved: Callable[[], None]
) -> None:
    while data := await read():
        moved()
        await write(data)
        moved()
