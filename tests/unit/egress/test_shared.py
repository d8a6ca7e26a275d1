"""One user's use of the relay, and its effect on another user."""

from __future__ import annotations

import asyncio
import threading

from assayd.clock import SystemClock
from assayd.egress import Relay
from assayd.egress.relay import RelaySession
from assayd.metrics import Metrics
from assayd.model.policy import NetworkMode, NetworkPolicy
from assayd.ports.egress import EgressLimits
from support.hosts.guest_stream import HOST, MemoryStream, host, served

from .test_forward import OK, get, status

GREEDY, STRANGER = 1, 2


def ways(port: int, look_up=lambda host, port: ("127.0.0.1",), **limits: float) -> tuple[RelaySession, ...]:
    """Return the sessions of each user's attempt, through one relay."""
    relay = Relay(
        EgressLimits(**limits),  # type: ignore[arg-type]
        SystemClock(),
        Metrics(),
        look_up=look_up,
        public=lambda address: True,
    )
    policy = NetworkPolicy(mode=NetworkMode.ALLOWLIST, hosts=frozenset({HOST}), ports=frozenset({port}))
    return tuple(relay.session(policy, owner) for owner in (GREEDY, GREEDY, STRANGER))


async def stalling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests for /fast only."""
    if b" /fast " in await reader.readuntil(b"\r\n\r\n"):
        writer.write(OK)
        await writer.drain()
    else:
        await reader.read()


async def test_stranger_is_served_while_one_user_stalls_all_that_it_may_have() -> None:
    async with host(stalling) as port:
        greedy, again, stranger = ways(port, open_at_once=8, place_s=0.05)
        streams = [MemoryStream() for _ in range(12)]
        held = [asyncio.ensure_future(greedy.serve(stream, 0)) for stream in streams]
        for stream in streams:
            stream.say(get(port, "/slow"))
        await asyncio.gather(*(stream.until(lambda s: s.ended) for stream in streams[4:]))
        async with served(again) as own:
            own.say(get(port, "/fast"))
            await own.until(lambda s: s.ended)
        async with served(stranger) as other:
            other.say(get(port, "/fast"))
            await other.until(lambda s: s.heard.endswith(b"hi"))
        for task in held:
            task.cancel()

    assert status(own) == "HTTP/1.1 503 network.relay_full"
    assert again.events(0)[0].trouble == "network.relay_full"
    assert again.events(0)[0].allowed
    assert status(other) == "HTTP/1.1 200 OK"


async def test_stranger_looks_names_up_behind_one_users_slow_ones() -> None:
    let_go = threading.Event()
    names = iter(["slow"] * 2)

    def look_up(host: str, port: int) -> tuple[str, ...]:
        if next(names, "") == "slow":
            let_go.wait()
        return ("127.0.0.1",)

    try:
        async with host(stalling) as port:
            greedy, _, stranger = ways(port, look_up)
            streams = [MemoryStream() for _ in range(6)]
            held = [asyncio.ensure_future(greedy.serve(stream, 0)) for stream in streams]
            for stream in streams:
                stream.say(get(port, "/slow"))
            await asyncio.sleep(0)
            async with served(stranger) as other:
                other.say(get(port, "/fast"))
                await other.until(lambda s: s.heard.endswith(b"hi"))
            for task in held:
                task.cancel()
    finally:
        let_go.set()

    assert status(other) == "HTTP/1.1 200 OK"
