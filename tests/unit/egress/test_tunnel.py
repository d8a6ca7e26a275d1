"""CONNECT through a session: the name that TLS gives decides whether the host sees a byte of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from support.hosts.client_hello import ENCRYPTED_HELLO, hello, message_of, records, with_extensions
from support.hosts.guest_stream import HOST, Handle, MemoryStream, host, served, session

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ALERT = bytes.fromhex("15030300020231")


def connect(port: int, name: str = HOST) -> bytes:
    return f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode()


def echoing(seen: list[bytes]) -> Handle:
    """Return a host that sends back what it gets, and notes it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            seen.append(data)
            writer.write(data)
            await writer.drain()

    return handle


def heard(stream: MemoryStream) -> bytes:
    return stream.heard.removeprefix(ESTABLISHED)


async def test_tls_to_the_host_that_it_names_is_passed_in_both_directions() -> None:
    seen: list[bytes] = []
    greeting = hello()
    async with host(echoing(seen)) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(connect(port))
            await stream.until(lambda s: s.heard == ESTABLISHED)
            stream.say(greeting)
            await stream.until(lambda s: heard(s) == greeting)
            stream.say(b"more")
            await stream.until(lambda s: heard(s) == greeting + b"more")

    (event,) = way.events(0)
    assert b"".join(seen) == greeting + b"more"
    assert (event.allowed, event.bytes_up, event.bytes_down) == (True, len(greeting) + 4, len(greeting) + 4)


@pytest.mark.parametrize("piece", [1, 100])
async def test_hello_may_come_in_pieces_and_right_behind_the_request(piece: int) -> None:
    seen: list[bytes] = []
    greeting = hello()
    async with host(echoing(seen)) as port, served(session(port)) as stream:
        stream.say(connect(port) + greeting[:10])
        for start in range(10, len(greeting), piece):
            stream.say(greeting[start : start + piece])
        await stream.until(lambda s: len(heard(s)) >= len(greeting))

    assert (b"".join(seen), heard(stream)) == (greeting, greeting)


async def test_end_of_one_side_is_passed_on_and_the_other_goes_on() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(b"all read")
        await writer.drain()

    async with host(handle) as port, served(session(port)) as stream:
        stream.say(connect(port) + hello())
        stream.hang_up()
        await stream.until(lambda s: s.ended)

    assert heard(stream) == b"all read"


@pytest.mark.parametrize(
    ("greeting", "rule"),
    [
        (hello("evil.test"), "sni_mismatch"),
        (hello(None), "sni_missing"),
        (with_extensions(lambda e: [*e, (ENCRYPTED_HELLO, b"x")]), "sni_encrypted"),
        (records(message_of(hello()), 8), "hello_fragmented"),
        (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "not_tls"),
        (b"\x16\x03\x01\xff\xff", "hello_malformed"),
    ],
)
async def test_other_greetings_get_an_alert_and_reach_no_host(greeting: bytes, rule: str) -> None:
    seen: list[bytes] = []
    async with host(echoing(seen)) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(connect(port) + greeting)
            await stream.until(lambda s: s.ended)

    (event,) = way.events(0)
    assert (seen, heard(stream)) == ([], ALERT)
    assert (event.allowed, event.rule, event.bytes_up) == (False, f"network.{rule}", 0)


async def test_hello_that_is_begun_and_not_ended_is_refused_in_time() -> None:
    async with host(echoing([])) as port:
        way = session(port, head_s=0.05)
        async with served(way) as stream:
            stream.say(connect(port) + hello()[:20])
            await stream.until(lambda s: s.ended)

    assert (heard(stream), way.events(0)[0].rule) == (ALERT, "network.too_slow")


async def test_guest_that_goes_away_before_its_hello_is_no_violation() -> None:
    async with host(echoing([])) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(connect(port))
            await stream.until(lambda s: s.heard == ESTABLISHED)

    assert [(event.allowed, event.trouble) for event in way.events(0)] == [(True, None)]


async def test_host_that_breaks_off_breaks_the_guests_connection_off() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.transport.abort()

    async with host(handle) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(connect(port) + hello())
            await stream.until(lambda s: s.broken or s.ended)

    # An abort may be seen as an end where nothing was left unread.
    assert way.events(0)[0].trouble in {"network.broken_off", None}


async def test_connection_without_a_byte_is_given_up() -> None:
    async with host(echoing([])) as port:
        way = session(port, idle_s=0.05)
        async with served(way) as stream:
            stream.say(connect(port) + hello())
            await stream.until(lambda s: s.broken)

    assert way.events(0)[0].trouble == "network.idle"


async def test_guest_that_is_gone_ends_the_connection_to_the_host() -> None:
    left = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            left.set()

    async with host(handle) as port, served(session(port)) as stream:
        stream.say(connect(port) + hello())
        await stream.until(lambda s: b"x" in s.heard)
        stream.gone = True
        with suppress(TimeoutError):
            await asyncio.wait_for(left.wait(), 30)

    assert left.is_set()
