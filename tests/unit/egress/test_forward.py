"""Plain HTTP through a session: the host's request, the guest's answer, and the record."""

from __future__ import annotations

import asyncio

import pytest

from assayd.model.policy import HttpRule
from support.hosts.guest_stream import HOST, Handle, MemoryStream, host, served, session

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def get(port: int, path: str = "/", name: str = HOST, *headers: str) -> bytes:
    lines = (f"GET http://{name}:{port}{path} HTTP/1.1", f"Host: {name}:{port}", *headers, "", "")
    return "\r\n".join(lines).encode()


def answering(answer: bytes, heads: list[bytes]) -> Handle:
    """Return a host that records each header and always gives the same answer."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()

    return handle


def status(stream: MemoryStream) -> str:
    return stream.heard.partition(b"\r\n")[0].decode()


async def test_request_reaches_the_host_without_what_is_meant_for_the_proxy() -> None:
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port, served(session(port)) as stream:
        own = (
            "Proxy-Authorization: x",
            "Connection: keep-alive, X-Hop",
            "X-Hop: 1",
            "TE: trailers",
            "X-Kept: 1",
        )
        stream.say(get(port, "/a?b=c", HOST, *own))
        await stream.until(lambda s: s.heard.endswith(b"hi"))

    lines = heads[0].decode().lower().split("\r\n")
    assert lines[:2] == ["get /a?b=c http/1.1", f"host: {HOST}:{port}"]
    assert sorted(line for line in lines[2:] if line) == ["connection: close", "x-kept: 1"]
    assert status(stream) == "HTTP/1.1 200 OK"


async def test_every_request_of_a_kept_connection_is_judged() -> None:
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port:
        way = session(port)
        async with served(way) as stream:
            for count in (1, 2):
                stream.say(get(port, f"/{count}"))
                await stream.until(lambda s, n=count: s.heard.count(b"hi") == n)  # type: ignore[misc]
            stream.say(get(port, "/", "evil.test"))
            await stream.until(lambda s: s.ended)

    assert len(heads) == 2
    assert b"403 network.not_listed" in stream.heard
    assert [(event.host, event.allowed) for event in way.events(0)] == [
        (HOST, True),
        (HOST, True),
        ("evil.test", False),
    ]


async def test_requests_sent_in_one_go_are_answered_in_turn() -> None:
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port, served(session(port)) as stream:
        stream.say(get(port, "/1") + get(port, "/2") + get(port, "/3"))
        await stream.until(lambda s: s.heard.count(b"hi") == 3)

    assert [head.split()[1] for head in heads] == [b"/1", b"/2", b"/3"]


async def test_refusal_says_the_rule_in_its_reason_a_header_and_its_body() -> None:
    async with served(session(443)) as stream:
        stream.say(get(443, "/", "evil.test"))
        await stream.until(lambda s: s.ended)

    head, _, body = stream.heard.decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 403 network.not_listed\r\n")
    assert "X-Assayd-Rule: network.not_listed" in head
    assert body.startswith("network.not_listed: the host isn't on the allowlist\nRequest only hosts")


async def test_what_is_sent_to_a_refusal_is_taken_so_that_the_answer_is_read() -> None:
    async with served(session(443)) as stream:
        stream.say(get(443, "/", "evil.test", "Content-Length: 100000"))
        await stream.until(lambda s: s.ended)
        stream.say(b"x" * 100_000)

    assert not stream.broken


async def test_guest_that_does_not_hang_up_after_a_refusal_is_cut_off() -> None:
    async with served(session(443, head_s=0.02)) as stream:
        stream.say(get(443, "/", "evil.test"))
        await stream.until(lambda s: s.broken)

    assert b"403" in stream.heard


@pytest.mark.parametrize(
    ("request_text", "rule"),
    [
        (
            "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "framing_ambiguous",
        ),
        (
            "POST http://{host}/ HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "framing_ambiguous",
        ),
        (
            "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n"
            "Content-Length: 5\r\n\r\nabcd",
            "http_malformed",
        ),
        (
            "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\n"
            "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "http_malformed",
        ),
        (
            "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
            "http_malformed",
        ),
        ("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nHost: evil.test\r\n\r\n", "http_malformed"),
        ("GET http://{host}/ HTTP/1.1\r\n\r\n", "http_malformed"),
        ("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nX: " + 20_000 * "x" + "\r\n\r\n", "http_malformed"),
        ("\x16\x03\x01\x02\x00\x01\x00", "http_malformed"),
        ("GET http://{host}/\r\n\r\n", "http_malformed"),
        ("GET /path HTTP/1.1\r\nHost: {host}\r\n\r\n", "target_invalid"),
        ("GET http://{host}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "host_mismatch"),
        ("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\nhi", "http_malformed"),
        ("CONNECT http://{host} HTTP/1.1\r\nHost: {host}\r\n\r\n", "host_invalid"),
        ("connect {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", "target_invalid"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "target_invalid"),
        ("GET ws://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n", "target_invalid"),
        ("GET http://user:word@{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n", "user_in_url"),
        ("GET http://{host}/ HTTP/1.0\r\n\r\n", "host_mismatch"),
        ("GET http://{host}/ HTTP/1.1\r\nHost:\r\n\r\n", "host_mismatch"),
        ("GET http://{host}/ HTTP/1.1\r\nHost: {host}, evil.test\r\n\r\n", "host_mismatch"),
        ("GET http://{host}/ HTTP/1.1\r\nHost: user@{host}\r\n\r\n", "host_mismatch"),
        ("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nX: a\rHost: evil.test\r\n\r\n", "http_malformed"),
        ("GET http://{host}/\tx HTTP/1.1\r\nHost: {host}\r\n\r\n", "http_malformed"),
        (
            "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: +3\r\n\r\nabc",
            "http_malformed",
        ),
    ],
)
async def test_request_that_two_readers_could_read_in_two_ways_reaches_no_host(
    request_text: str, rule: str
) -> None:
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(request_text.replace("{host}", f"{HOST}:{port}").encode("latin-1"))
            await stream.until(lambda s: s.ended)

    assert (heads, f"network.{rule}" in status(stream)) == ([], True)
    assert [(event.rule, event.allowed) for event in way.events(0)] == [(f"network.{rule}", False)]


@pytest.mark.parametrize(
    ("odd", "sent"),
    [
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", ""),
        ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n", ""),
        ("Connection: host, content-length\r\nContent-Length: 0\r\n\r\n", "content-length: 0\r\n"),
        ("Content-Length: 0, 0\r\n\r\n", "content-length: 0\r\n"),
        ("Expect: something-else\r\n\r\n", ""),
        ("X: a\r\n Host: evil.test\r\n\r\n", "x: a Host: evil.test\r\n"),
    ],
)
async def test_odd_request_reaches_the_host_as_one_plain_request(odd: str, sent: str) -> None:
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port:
        way = session(port)
        async with served(way) as stream:
            head = f"GET http://{HOST}:{port}/ HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
            stream.say(f"{head}{odd}GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".encode())
            await stream.until(lambda s: s.ended)

    plain = f"GET / HTTP/1.1\r\nHost: {HOST}:{port}\r\n{sent}Connection: close\r\n\r\n"
    assert heads == [plain.encode()]
    assert [event.rule for event in way.events(0)] == ["network.listed", "network.not_listed"]


async def test_body_of_chunks_is_passed_on_and_trailers_stay() -> None:
    received: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(OK)

    async with host(handle) as port, served(session(port)) as stream:
        head = (
            get(port).replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        )
        stream.say(head + b"3;name=value\r\nabc\r\n")
        stream.say(b"0\r\nX-Trailer: 1\r\n\r\n")
        await stream.until(lambda s: s.heard.endswith(b"hi"))

    assert received[0].endswith(b"3\r\nabc\r\n0\r\n\r\n")


async def test_client_that_waits_before_it_sends_its_body_is_told_to_go_on() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(4)
        writer.write(OK if b"expect" not in head.lower() and body == b"body" else b"")

    async with host(handle) as port, served(session(port)) as stream:
        head = get(port, "/", HOST, "Expect: 100-continue", "Content-Length: 4").replace(b"GET", b"PUT")
        stream.say(head)
        await stream.until(lambda s: s.heard.startswith(b"HTTP/1.1 100"))
        stream.say(b"body")
        await stream.until(lambda s: s.heard.endswith(b"hi"))

    told, answered = stream.heard.split(b"\r\n\r\n", 1)
    assert (told.split(b" ")[1], answered.split(b" ")[1], answered[-2:]) == (b"100", b"200", b"hi")


async def test_answer_that_comes_before_the_body_was_sent_is_passed_on() -> None:
    refused = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with host(answering(refused, [])) as port, served(session(port)) as stream:
        stream.say(get(port, "/", HOST, "Content-Length: 1000000").replace(b"GET", b"POST"))
        await stream.until(lambda s: s.ended)

    assert (status(stream), stream.heard[-2:]) == ("HTTP/1.1 413 Too Large", b"no")


async def test_rule_header_of_a_host_is_not_taken_for_ours() -> None:
    lying = b"HTTP/1.1 200 OK\r\nX-Assayd-Rule: network.listed\r\nContent-Length: 0\r\n\r\n"
    async with host(answering(lying, [])) as port, served(session(port)) as stream:
        stream.say(get(port))
        await stream.until(lambda s: b"\r\n\r\n" in s.heard)

    assert b"assayd" not in stream.heard.lower()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", b"502 network.broken_off"),
        (b"SSH-2.0-x\r\n", b"502 network.broken_off"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", b"502 network.broken_off"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, b"502 network.broken_off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nX", None),
    ],
)
async def test_host_that_does_not_answer_properly_is_a_trouble_and_no_violation(
    answer: bytes, told: bytes | None
) -> None:
    async with host(answering(answer, [])) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.ended or s.broken)

    assert (told in stream.heard and stream.ended) if told else stream.broken
    assert [(e.allowed, e.trouble) for e in way.events(0)] == [(True, "network.broken_off")]


async def test_host_that_says_nothing_for_too_long_is_given_up() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with host(handle) as port:
        way = session(port, idle_s=0.05)
        async with served(way) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.ended)

    assert status(stream) == "HTTP/1.1 502 network.idle"
    assert way.events(0)[0].trouble == "network.idle"


async def test_method_and_path_are_held_to_the_hosts_rule() -> None:
    rule = HttpRule(methods=frozenset({"GET"}), paths=frozenset({"/v1/"}))
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port:
        way = session(port, rule=rule)
        for sent in (get(port, "/v1/x"), get(port, "/v1/../x"), get(port, "/v1/x").replace(b"GET", b"PUT")):
            async with served(way) as stream:
                stream.say(sent)
                await stream.until(lambda s: b"\r\n\r\n" in s.heard)

    assert [head.split()[1] for head in heads] == [b"/v1/x"]
    assert [event.rule.removeprefix("network.") for event in way.events(0)] == [
        "listed",
        "path_not_listed",
        "method_not_listed",
    ]


async def test_bytes_are_counted_in_both_directions() -> None:
    heads: list[bytes] = []
    async with host(answering(OK, heads)) as port:
        way = session(port)
        async with served(way) as stream:
            stream.say(get(port))
            await stream.until(lambda s: s.heard.endswith(b"hi"))

    (event,) = way.events(0)
    assert (event.bytes_up, event.bytes_down) == (len(heads[0]), len(OK))
    assert event.address == "127.0.0.1"
