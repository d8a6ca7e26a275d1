"""CONNECT through a session: the name that TLS gives decides whether the host sees a byte of it.

Whom a ClientHello names: real ones by the ssl module, whole, cut and altered.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.egress.relay import MAX_HELLO_RECORDS, ClientHelloError, ClientHelloReader
from assayd.findings.network_rules import NetworkRule
from support.hosts.client_hello import (
    ENCRYPTED_HELLO,
    SERVER_NAME,
    Extensions,
    hello,
    message_of,
    records,
    server_name,
    with_extensions,
)
from support.hosts.guest_stream import HOST, Handle, MemoryStream, host, served, session


def read(content: bytes, *, piece: int = 1 << 20) -> str | None:
    reader, name = ClientHelloReader(), None
    for start in range(0, len(content), piece):
        if (name := reader.feed(content[start : start + piece])) is not None:
            return name
    return name


def rule_of(content: bytes, *, piece: int = 1 << 20) -> NetworkRule:
    with pytest.raises(ClientHelloError) as caught:
        read(content, piece=piece)
    return caught.value.rule


def renamed(content: bytes) -> bytes:
    def change(extensions: Extensions) -> Extensions:
        return [(kind, content if kind == SERVER_NAME else inner) for kind, inner in extensions]

    return with_extensions(change)


def test_name_of_a_real_hello_is_read_however_its_bytes_are_cut() -> None:
    whole = hello("api.example.com")

    assert [read(whole), read(whole, piece=1), read(whole, piece=7)] == ["api.example.com"] * 3


def test_what_comes_after_the_hello_is_not_looked_at() -> None:
    reader = ClientHelloReader()

    assert reader.feed(hello() + b"\x17\x03\x03\x00\x01x") == "api.example.com"
    assert reader.taken.endswith(b"\x17\x03\x03\x00\x01x")


def test_hello_in_a_few_records_is_put_together() -> None:
    message = message_of(hello())

    assert read(records(message, len(message) // MAX_HELLO_RECORDS + 1)) == "api.example.com"


@pytest.mark.parametrize("size", [1, 16])
def test_hello_in_many_records_is_refused(size: int) -> None:
    assert rule_of(records(message_of(hello()), size)) is NetworkRule.HELLO_FRAGMENTED
    assert rule_of(records(message_of(hello()), size), piece=3) is NetworkRule.HELLO_FRAGMENTED


def test_hello_that_is_not_complete_says_nothing_yet() -> None:
    assert read(hello()[:-1]) is None


def test_hello_without_a_name_is_refused() -> None:
    assert rule_of(hello(None)) is NetworkRule.SNI_MISSING


def test_hello_that_may_hide_a_name_is_refused_whatever_it_shows() -> None:
    assert rule_of(with_extensions(lambda e: [*e, (ENCRYPTED_HELLO, bytes(8))])) is NetworkRule.SNI_ENCRYPTED


def test_other_extension_is_no_harm() -> None:
    assert read(with_extensions(lambda e: [*e, (0xFAFA, bytes(8))])) == "api.example.com"


@pytest.mark.parametrize(
    "content",
    [
        server_name(b"api.example.com", b"evil.test"),
        server_name(b""),
        server_name(b"api.example.com", kind=1),
        server_name("bücher.example".encode()),
        server_name(b"api.example.com") + b"\0",
        server_name(b"api.example.com")[:-1],
        b"",
    ],
)
def test_name_that_readers_could_take_for_two_is_refused(content: bytes) -> None:
    assert rule_of(renamed(content)) is NetworkRule.HELLO_MALFORMED


def test_extension_that_is_there_twice_is_refused() -> None:
    twice = with_extensions(lambda e: [*e, (SERVER_NAME, server_name(b"evil.test"))])

    assert rule_of(twice) is NetworkRule.HELLO_MALFORMED


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x80\x2e\x01\x00\x02",  # the hello of SSL 2
        b"\x17\x03\x03\x00\x05hello",
        b"\x16\x02\x00\x00\x05hello",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",  # a ServerHello
        b"S",
    ],
)
def test_bytes_that_begin_no_hello_are_refused_at_once(content: bytes) -> None:
    assert rule_of(content, piece=1) is NetworkRule.NOT_TLS


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x00\x00" * 2,
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        hello()[:5] + b"\x01\x00\x00\x01" + hello()[9:],
        records(b"\x01\x00\x00\x01\x03", 5),
    ],
)
def test_hello_of_impossible_lengths_is_refused(content: bytes) -> None:
    assert rule_of(content) is NetworkRule.HELLO_MALFORMED


WHOLE = hello()


@given(st.binary(max_size=200), st.integers(0, 150), st.integers(1, 50))
def test_altered_hello_is_read_or_refused_and_nothing_else(noise: bytes, at: int, piece: int) -> None:
    name = None
    with suppress(ClientHelloError):
        name = read(WHOLE[:at] + noise + WHOLE[at + len(noise) :], piece=piece)

    assert name is None or name.isascii()


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ALERT = bytes.fromhex("15030300020231")


def connect(port: int, name: str = HOST) -> bytes:
    return f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode()


def echoing(seen: list[bytes]) -> Handle:
    """Return a host that sends back and records what it receives."""

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
