"""A whole session: addresses, budgets, units, and the leftovers of a cancelled session."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from support.hosts.guest_stream import HOST, MemoryStream, host, served, session

from .test_forward import OK, answering, get, status


async def test_address_is_judged_and_connected_to_at_each_connection_anew() -> None:
    answers = [("93.184.215.14", "127.0.0.1"), ("10.0.0.1",)]
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port:
        # The first look-up leads to a host that counts as public here, the second does not.
        way = session(port, look_up=lambda host, port: answers.pop(0), public=lambda a: a == "127.0.0.1")
        for _ in range(2):
            async with served(way) as stream:
                stream.say(get(port))
                await stream.until(lambda s: b"\r\n\r\n" in s.heard)

    assert [(event.rule, event.address) for event in way.events(0)] == [
        ("network.listed", "127.0.0.1"),
        ("network.address_not_public", None),
    ]
    assert len(heads) == 1


async def test_next_address_is_tried_when_one_does_not_answer() -> None:
    async with host(answering(OK, [])) as port:
        way = session(port, look_up=lambda host, port: ("127.0.0.9", "127.0.0.1"))
        async with served(way) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.heard.endswith(b"hi"))

    assert way.events(0)[0].address == "127.0.0.1"


async def test_name_without_an_address_is_a_trouble() -> None:
    way = session(80, look_up=lambda host, port: ())
    async with served(way) as stream:
        stream.say(get(80))
        await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 502 network.not_resolved"
    assert [(e.allowed, e.trouble) for e in way.events(0)] == [(True, "network.not_resolved")]


async def test_host_where_nobody_listens_is_a_trouble() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with served(session(port)) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 502 network.unreachable"


async def test_look_up_that_does_not_end_costs_its_time_and_no_more() -> None:
    let_go = threading.Event()

    def stuck(host: str, port: int) -> tuple[str, ...]:
        let_go.wait()
        return ()

    try:
        way = session(80, look_up=stuck, connect_timeout_s=0.05)
        for _ in range(3):  # one more than may be looked up at once
            async with served(way) as stream:
                stream.say(get(80))
                await stream.until(lambda s: s.ended)
            assert status(stream) == "HTTP/1.1 504 network.timed_out"
    finally:
        let_go.set()


async def test_connections_and_requests_are_counted_together_and_used_up() -> None:
    async with host(answering(OK, heads := [])) as port:
        way = session(port, connections=2)
        async with served(way) as stream:
            for count in (1, 2):
                stream.say(get(port))
                await stream.until(lambda s, n=count: s.heard.count(b"hi") == n)  # type: ignore[misc]
            stream.say(get(port))
            await stream.until(lambda s: s.ended)
        async with served(way, unit=1) as second:
            second.say(get(port))
            await second.until(lambda s: s.ended)

    assert len(heads) == 2
    assert b"429 network.too_many_connections" in stream.heard
    assert [event.rule for event in way.events(0)] == [
        "network.listed",
        "network.listed",
        "network.too_many_connections",
    ]
    assert [event.rule for event in way.events(1)] == ["network.too_many_connections"]


@pytest.mark.parametrize("budget", [{"bytes_up": 20_000}, {"bytes_down": 20_000}])
async def test_transfer_over_the_budget_is_broken_off(budget: dict[str, float]) -> None:
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(get(port)) + (60_000 if "bytes_up" in budget else 0))
        writer.write(large)
        await writer.drain()
        await reader.read()

    async with host(handle) as port:
        way = session(port, **budget)
        async with served(way) as stream:
            stream.say(get(port, "/", HOST, "Content-Length: 100000").replace(b"GET", b"POST"))
            for _ in range(100):
                stream.say(b"y" * 1000)
            await stream.until(lambda s: s.broken or s.ended)

    assert b"xxx" not in stream.heard
    assert [(event.allowed, event.rule) for event in way.events(0)] == [(False, "network.too_many_bytes")]


async def test_small_pieces_count_for_more_than_they_are() -> None:
    way = session(443, bytes_up=10 * 1024)
    async with served(way) as stream:
        for _ in range(11):
            stream.say(b"G")
        await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 403 network.too_many_bytes"


async def test_request_that_is_begun_and_not_ended_is_refused_in_time() -> None:
    way = session(443, head_s=0.05)
    async with served(way) as stream:
        stream.say(b"GET http://")
        await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 408 network.too_slow"
    assert [event.rule for event in way.events(0)] == ["network.too_slow"]


async def test_connection_on_which_nothing_is_asked_leaves_no_trace() -> None:
    way = session(443)
    async with served(way):
        pass

    assert way.events(0) == ()


async def test_cancelling_drops_the_connection_and_keeps_the_record() -> None:
    left = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart")
        await writer.drain()
        try:
            await reader.read()
        finally:
            left.set()

    async with host(handle) as port:
        way = session(port)
        stream = MemoryStream()
        serving = asyncio.ensure_future(way.serve(stream, 0))
        stream.say(get(port))
        await stream.until(lambda s: s.heard.endswith(b"part"))
        serving.cancel()
        await left.wait()

    (event,) = way.events(0)
    assert (event.allowed, event.trouble, event.bytes_down > 4) == (True, None, True)


async def test_two_sessions_have_lists_of_their_own() -> None:
    async with host(answering(OK, [])) as port:
        ways = {name: session(port, hosts=(name,)) for name in ("a.test", "b.test")}
        for own, way in ways.items():
            for name in ways:
                async with served(way) as stream:
                    stream.say(get(port, "/", name))
                    await stream.until(lambda s: b"\r\n\r\n" in s.heard)
                assert (b"200 OK" in stream.heard) is (name == own)


async def test_method_that_is_long_is_malformed_and_not_on_record() -> None:
    way = session(443)
    async with served(way) as stream:
        stream.say(get(443).replace(b"GET", b"M" * 15_000))
        await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 400 network.http_malformed"
    assert [(event.rule, event.method) for event in way.events(0)] == [("network.http_malformed", "")]
