"""Limits of one connection: pipelined, tiny and abandoned requests, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from assayd.api import bounded_http
from assayd.api.app import build_loopback_config
from assayd.api.bounded_http import ConnectionSlots, TurnQueue
from assayd.api.peer import build_protocol_class
from assayd.fair_queue import UserThrottle

ASK = b"GET / HTTP/1.1\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nConnection: close\r\n\r\n"


@dataclass
class App:
    """Answers each request with the length of its body once the gate is open, and records requests."""

    asked: list[str] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        self.begun.set()
        if scope["path"] == "/gate":
            await asyncio.to_thread(self.gate.wait, 10)
        length, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            length += len(message["body"])
            more = message["more_body"]
        if scope["path"] == "/waits":
            assert (await receive())["type"] == "http.disconnect"
            self.left.set()
            return
        body = str(length).encode()
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", b"%d" % len(body))],
            }
        )
        await send({"type": "http.response.body", "body": body})


@contextmanager
def served(config: uvicorn.Config, factory: Callable[[], asyncio.AbstractEventLoop] | None) -> Iterator[int]:
    """Serve on a loopback port in another thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(config)

        def run() -> None:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(server.serve(sockets=[listener]))

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


LOOPS = pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


@pytest.fixture(params=[None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def port(app: App, request: pytest.FixtureRequest) -> Iterator[int]:
    protocol = build_protocol_class(ConnectionSlots(64))
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="off", log_config=None)
    with served(config, request.param) as found:
        yield found


@pytest.fixture
def app() -> App:
    return App()


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.settimeout(10)
    return connection


def said(port: int, *sent: bytes) -> bytes:
    """Send data; return all answers until the connection is closed."""
    with connect(port) as connection:
        with suppress(ConnectionError):
            for each in sent:
                connection.sendall(each)
        answer = b""
        with suppress(ConnectionError):
            while piece := connection.recv(2**16):
                answer += piece
        return answer


def test_few_pipelined_requests_are_answered_in_turn(port: int, app: App) -> None:
    asks = b"".join(
        b"POST /%d HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (n, n, b"x" * n) for n in range(15)
    )
    answer = said(port, asks + LAST)
    assert app.asked == [*(f"/{n}" for n in range(15)), "/last"]
    assert [each.rsplit(b"\r\n", 1)[1] for each in answer.split(b"HTTP/1.1 200 OK")[1:]] == [
        *(str(n).encode() for n in range(15)),
        b"0",
    ]


def test_thousands_of_pipelined_requests_are_refused_before_one_is_begun(port: int, app: App) -> None:
    answer = said(port, ASK * 11_600)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"More than 16 requests are waiting" in answer
    assert app.asked == []


def test_what_follows_a_waiting_request_is_not_parsed_before_that_is_answered(port: int, app: App) -> None:
    padded = ASK[:-2] + b"X: " + b"x" * (bounded_http.PIECE_BYTES - len(ASK) - 5) + b"\r\n\r\n"
    assert len(padded) == bounded_http.PIECE_BYTES
    with connect(port) as connection:
        connection.sendall(b"GET /gate HTTP/1.1\r\n\r\n")
        assert app.begun.wait(10)
        connection.sendall(padded + b"this is no HTTP\r\n\r\n")
        app.gate.set()
        answer = b""
        while piece := connection.recv(2**16):
            answer += piece
    assert [each[:3] for each in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]


def test_client_that_has_gone_is_noticed_while_requests_of_it_wait(port: int, app: App) -> None:
    with connect(port) as connection:
        connection.sendall(b"GET /waits HTTP/1.1\r\n\r\n" + ASK * 3)
    assert app.left.wait(10)
    assert app.asked == ["/waits"]


def test_request_after_an_answer_comes_from_what_was_read_ahead(port: int, app: App) -> None:
    large = b"POST /large HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000
    answer = said(port, large + large + LAST)
    assert app.asked == ["/large", "/large", "/last"]
    assert answer.count(b"\r\n\r\n300000") == 2


def test_body_in_tiny_chunks_is_read_whole(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert said(port, head, b"1\r\nx\r\n" * 50_000, b"0\r\n\r\n").endswith(b"\r\n\r\n50000")


def test_hundreds_of_headers_are_refused(port: int, app: App) -> None:
    head = b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * (bounded_http.MAX_HEADERS + 1)
    assert b"more than 128 headers" in said(port, head + b"\r\n")
    assert app.asked == []


def test_upgrade_to_another_protocol_is_answered_as_a_request_and_ends_the_connection(
    port: int, app: App
) -> None:
    asked = b"GET /up HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    assert said(port, asked + ASK * 2).count(b"HTTP/1.1 200") == 1
    assert app.asked == ["/up"]


@LOOPS
def test_metrics_port_refuses_pipelined_requests(
    loop: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    rendered = []
    config = build_loopback_config(lambda: rendered.append("") or b"assayd_ready 1\n")
    with served(config, loop) as port:
        answer = said(port, b"GET /metrics HTTP/1.1\r\n\r\n" * 8_000)
    assert answer.startswith(b"HTTP/1.1 400")
    assert rendered == []


async def test_work_that_comes_alone_is_done_at_once() -> None:
    done: list[int] = []
    TurnQueue().take(1, "a", lambda: done.append(1))
    assert done == [1]


async def test_one_piece_is_done_in_each_turn_and_the_rest_wait() -> None:
    turns, done = TurnQueue(), list[int]()
    counts = []
    for number in range(3):
        turns.take(1, str(number), partial(done.append, number))
    for _ in range(4):
        counts.append(len(done))
        await asyncio.sleep(0)
    assert counts == [1, 2, 3, 3]


async def test_user_with_one_piece_is_served_next_however_many_another_has() -> None:
    turns, done = TurnQueue(), list[int]()
    for number in range(10):
        turns.take(1, str(number), partial(done.append, 1))
    turns.take(2, "other", partial(done.append, 2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 2 in done


async def test_work_that_was_forgotten_is_not_done() -> None:
    turns, done = TurnQueue(), list[int]()
    for number in range(2):
        turns.take(1, str(number), partial(done.append, number))
    turns.forget("1")
    await asyncio.sleep(0)
    assert done == [0]


async def test_key_that_waits_is_not_queued_twice() -> None:
    turns, done = TurnQueue(), list[int]()
    for number in range(2):
        turns.take(1, str(number), partial(done.append, number))
    turns.take(1, "1", partial(done.append, -1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert done == [0, 1]


async def test_user_who_rests_waits_while_another_is_served_at_once() -> None:
    now, done = 0.0, list[int]()
    pace = UserThrottle(clock=lambda: now)
    turns = TurnQueue(pace)
    turns.take(2, "a", partial(done.append, 2))
    await asyncio.sleep(0)
    pace.note(1)
    pace.record_use(1, 0.01)
    turns.take(1, "b", partial(done.append, 1))
    for _ in range(3):
        await asyncio.sleep(0)
    now = 0.01  # the other user has rested for its own piece, which took microseconds
    turns.take(2, "c", partial(done.append, 2))
    assert done == [2, 2]
    now = 0.1
    async with asyncio.timeout(10):
        while 1 not in done:
            await asyncio.sleep(0.001)


async def test_error_in_a_piece_does_not_keep_others_waiting() -> None:
    turns, done = TurnQueue(), list[int]()

    def fail() -> None:
        raise ValueError("a fault of this piece")

    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    turns.take(1, "first", partial(done.append, 0))
    turns.take(1, "fails", fail)
    turns.take(1, "last", partial(done.append, 1))
    for _ in range(4):
        await asyncio.sleep(0)
    assert done == [0, 1]
    assert [str(each) for each in failures] == ["a fault of this piece"]
