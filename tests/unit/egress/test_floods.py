"""Hosts and guest code that cause much work with few bytes."""

from __future__ import annotations

import asyncio

import pytest

from assayd.egress.guest import MOST_EVENTS
from support.hosts.guest_stream import HOST, MemoryStream, host, served, session

from .test_forward import answering, get, status

CHUNK = b"1\r\nA\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
COUNT = 5000


class CountingStream(MemoryStream):
    """A connection of guest code that counts writes and rounds of the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    async def write(self, data: bytes) -> None:
        self.writes += 1
        await super().write(data)


async def rounds_until(stream: MemoryStream, end: bytes) -> int:
    """Return the number of event loop rounds until the guest has received an end."""
    rounds = 0
    while not (stream.heard.endswith(end) or stream.ended or stream.broken):
        await asyncio.sleep(0)
        rounds += 1
    return rounds


async def test_chunks_of_one_byte_are_joined_and_others_get_their_turn() -> None:
    flood = CHUNKED + CHUNK * COUNT + b"0\r\n\r\n"
    async with host(answering(flood, [])) as port:
        stream = CountingStream()
        serving = asyncio.ensure_future(session(port).serve(stream, 0))
        stream.say(get(port))
        rounds = await rounds_until(stream, b"0\r\n\r\n")
        stream.hang_up()
        await serving

    assert stream.heard.count(b"A") == COUNT
    assert stream.writes < COUNT / MOST_EVENTS * 2
    assert rounds > COUNT / MOST_EVENTS


async def test_informational_answers_are_read_a_few_at_a_time() -> None:
    flood = CONTINUE * COUNT + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    async with host(answering(flood, [])) as port:
        stream = CountingStream()
        serving = asyncio.ensure_future(session(port).serve(stream, 0))
        stream.say(get(port))
        rounds = await rounds_until(stream, b"hi")
        stream.hang_up()
        await serving

    assert rounds > COUNT / MOST_EVENTS
    assert stream.heard.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("flood", [CHUNKED + CHUNK * 1000, CONTINUE * 1000])
async def test_what_a_host_sends_is_charged_by_the_event(flood: bytes) -> None:
    async with host(answering(flood, [])) as port:
        way = session(port, bytes_down=500 * 1024)
        async with served(way) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.broken or s.ended)

    assert [event.rule for event in way.events(0)] == ["network.too_many_bytes"]


async def taking_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_what_guest_code_sends_is_charged_by_the_event() -> None:
    async with host(taking_all) as port:
        way = session(port, bytes_up=500 * 1024)
        async with served(way) as stream:
            stream.say(get(port, "/", HOST, "Transfer-Encoding: chunked") + CHUNK * 1000)
            await stream.until(lambda s: s.broken or s.ended)

    assert [event.rule for event in way.events(0)] == ["network.too_many_bytes"]


async def test_chunks_of_an_ordinary_size_cost_no_more_than_their_bytes() -> None:
    flood = CHUNKED + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 100 + b"0\r\n\r\n"
    async with host(answering(flood, [])) as port:
        way = session(port, bytes_down=len(flood) + 64 * 1024)
        async with served(way) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.heard.endswith(b"0\r\n\r\n"))

    assert [(event.allowed, event.trouble) for event in way.events(0)] == [(True, None)]


async def test_upload_in_chunks_of_one_byte_reaches_the_host_in_few_writes() -> None:
    reads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        while not b"".join(reads).endswith(b"0\r\n\r\n"):
            reads.append(await reader.read(65536))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()

    async with host(handle) as port, served(session(port)) as stream:
        body = CHUNK * COUNT + b"0\r\n\r\n"
        stream.say(get(port, "/", HOST, "Transfer-Encoding: chunked").replace(b"GET", b"POST") + body)
        await stream.until(lambda s: s.heard.endswith(b"hi"))

    sent = b"".join(reads)
    assert sent.count(b"A") == COUNT
    assert len(sent) < COUNT * 2


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early Hints\r\n"])
async def test_head_of_thousands_of_lines_is_no_answer(head: bytes) -> None:
    async with host(answering(head + b"a:\r\n" * 4000 + b"\r\n", [])) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 502 network.broken_off"


async def test_request_of_thousands_of_lines_is_refused() -> None:
    async with served(session(80)) as stream:
        stream.say(b"GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n" + b"a:\r\n" * 3000)
        await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 400 network.http_malformed"


async def test_client_that_hangs_up_in_mid_head_has_broken_no_rule() -> None:
    way = session(80)
    async with served(way) as stream:
        stream.say(b"GET http://api.example.com/ HTTP/1.1\r\nHost: api")
        stream.hang_up()
        await stream.until(lambda s: s.ended)

    assert [(event.allowed, event.trouble) for event in way.events(0)] == [(True, "network.broken_off")]


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_client_that_hangs_up_in_mid_body_has_broken_no_rule(framing: str) -> None:
    async with host(taking_all) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(get(port, "/", HOST, framing).replace(b"GET", b"POST") + b"3\r\nabc\r\n")
            stream.hang_up()
            await stream.until(lambda s: s.ended)

    assert [(event.allowed, event.trouble) for event in way.events(0)] == [(True, "network.broken_off")]


SECRET = "hunter2"


@pytest.mark.parametrize(
    "request_text",
    [
        f"GET http://user:{SECRET}@api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        f"CONNECT user:{SECRET}@api.example.com:80 HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        f"CONNECT user:{SECRET}:80 HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        f"GET http://user:{SECRET}%40api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        f"GET http://api.example.com/ HTTP/1.1\r\nAuthorization\x01: {SECRET}\r\n\r\n",
        f"GET http://api.example.com/ HTTP/1.1\r\nContent-Length: {SECRET}\r\nHost: a\r\n\r\n",
        f"GET http://user:{SECRET}@api.example.com/ HTTP/9\r\n\r\n",
    ],
)
async def test_no_password_or_header_is_put_on_record(request_text: str) -> None:
    way = session(80)
    async with served(way) as stream:
        stream.say(request_text.encode("latin-1"))
        await stream.until(lambda s: s.ended)

    (event,) = way.events(0)
    assert not event.allowed
    assert SECRET not in repr(event)
    assert SECRET.encode() not in stream.heard
