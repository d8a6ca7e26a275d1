from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from assayd.api import (
    ApiLimits,
    ApiServer,
    Caller,
    SocketAccess,
    bounded_http,
    build_server_config,
    create_app,
    peer,
)
from assayd.api.bounded_http import OPERATORS_SHARE, ConnectionSlots
from assayd.api.peer import PeerHttpTools, build_protocol_class, is_disconnected, read_caller
from assayd.model.submission import Peer
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

GOOD = {"kind": "extractor", "payload": {"code": "x = 1"}}


def caller(uid: int, *groups: int) -> Caller:
    return Caller(peer=Peer(uid=uid, gid=groups[0] if groups else uid, pid=1), groups=frozenset(groups))


@pytest.mark.parametrize(
    ("access", "who", "admitted"),
    [
        (SocketAccess(), caller(1000), True),
        (SocketAccess(uids=frozenset({1000})), caller(1000), True),
        (SocketAccess(uids=frozenset({1000})), caller(1001), False),
        (SocketAccess(uids=frozenset({1000})), caller(0), True),
        (SocketAccess(uids=frozenset({1000}), own_uid=33), caller(33), True),
        (SocketAccess(gids=frozenset({50})), caller(1000, 20, 50), True),
        (SocketAccess(gids=frozenset({50})), caller(1000, 20), False),
        (SocketAccess(gids=frozenset({50}), operators_gid=60), caller(1000, 60), True),
    ],
)
def test_who_is_admitted(access: SocketAccess, who: Caller, admitted: bool) -> None:
    assert access.admits(who) is admitted


def test_without_an_operators_group_only_root_is_an_operator() -> None:
    assert SocketAccess().is_operator(caller(0))
    assert not SocketAccess().is_operator(caller(1000, 1000))


def test_daemons_own_user_and_whoever_is_in_the_operators_group_are_operators() -> None:
    access = SocketAccess(operators_gid=60, own_uid=33)
    assert access.is_operator(caller(33))
    assert access.is_operator(caller(1000, 20, 60))
    assert not access.is_operator(caller(1000, 20))


@pytest.mark.parametrize(
    ("who", "may"),
    [
        (caller(990), True),
        (caller(33), True),
        (caller(0), True),
        (caller(1000), False),
        (Caller(peer=Peer(uid=990, gid=990, pid=0), groups=frozenset(), remote=True), False),
        (Caller(peer=Peer(uid=0, gid=0, pid=0), groups=frozenset(), remote=True, operator=True), False),
    ],
)
@pytest.mark.parametrize("query", ["", "?max_runs=1"])
async def test_only_a_nodes_worker_submits_for_a_gateway(who: Caller, may: bool, query: str) -> None:
    service = FakeService()
    app = create_app(service, None, access=SocketAccess(own_uid=33, worker_uid=990))

    async def known(scope, receive, send):
        await app({**scope, "state": {"caller": who}}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(known), base_url="http://assayd") as client:
        response = await client.put(f"/v1/attempts/01JTC8ZK5V7777777777777777{query}", json=GOOD)
    assert (response.status_code, service.from_gateway) == (202, may and bool(query))


def test_the_kernel_names_the_peer(tmp_path) -> None:
    with serving(FakeService(), tmp_path / "s") as path:
        transport = httpx.HTTPTransport(uds=str(path), verify=False)
        with httpx.Client(transport=transport, base_url="http://assayd") as client:
            seen = [client.post("/v1/attempts", json=GOOD).json()["peer"] for _ in range(2)]
    assert seen == [{"uid": os.geteuid(), "gid": os.getegid(), "pid": os.getpid()}] * 2


@pytest.mark.parametrize("path_asked", ["/healthz", "/v1/attempts", "/nowhere", "/openapi.json"])
async def test_a_peer_that_is_not_known_is_turned_away_everywhere(path_asked) -> None:
    app = create_app(FakeService(), None, access=SocketAccess())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://assayd") as client:
        response = await client.get(path_asked)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "peer.not_allowed")


def test_endless_headers_are_cut_off(tmp_path) -> None:
    with serving(FakeService(), tmp_path / "s") as path, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        try:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: ")
            for _ in range(64):
                client.sendall(b"x" * 2**14)
        except OSError:
            pass  # closed already
        assert client.recv(2**16).startswith(b"HTTP/1.1 400")


def test_a_large_body_after_small_headers_is_not_cut_off(tmp_path) -> None:
    body = {"kind": "extractor", "payload": {"code": "#" * 500_000}}
    with (
        serving(FakeService(), tmp_path / "s") as path,
        httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path), verify=False), base_url="http://assayd"
        ) as client,
    ):
        assert [client.post("/v1/attempts", json=body).status_code for _ in range(2)] == [202, 202]


def test_connection_that_is_not_a_unix_socket_has_no_caller() -> None:
    with socket.socket(socket.AF_INET) as connected:
        assert read_caller(connected) is None


def test_endless_trailers_are_cut_off(tmp_path) -> None:
    with serving(FakeService(), tmp_path / "s") as path, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        client.sendall(b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        sent = 0
        with suppress(OSError):
            while sent < 2**24:
                sent += client.send(b"x: y\r\n" * 1000)
    assert sent < 2**24


def test_headers_that_do_not_come_are_not_waited_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_S", 0.05)
    with serving(FakeService(), tmp_path / "s") as path:
        for begun in (b"", b"GET /healthz HTTP/1.1\r\nHost"):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(5)
                client.connect(str(path))
                client.sendall(begun)
                assert client.recv(1) == b""


def test_operator_connects_where_another_user_would_be_turned_away(tmp_path) -> None:
    access = SocketAccess(own_uid=os.geteuid())
    with (
        serving(
            FakeService(), tmp_path / "s", http=build_protocol_class(ConnectionSlots(256), access=access)
        ) as path,
        ExitStack() as held,
    ):
        for _ in range((256 - 256 // OPERATORS_SHARE) // 2 + 2):
            client = held.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(path))
        client.settimeout(10)
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_one_user_cannot_hold_all_connections(tmp_path) -> None:
    refused: list[bool] = []
    protocol = build_protocol_class(ConnectionSlots(256), refused=lambda: refused.append(True))
    with serving(FakeService(), tmp_path / "s", http=protocol) as path, ExitStack() as held:
        answers = []
        for _ in range((256 - 256 // OPERATORS_SHARE) // 2 + 2):
            client = held.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(path))
            client.settimeout(5)
            answers.append(client)
        answer = answers[-1].recv(200)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1\r\n" in answer
        assert len(refused) == 1
        answers[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answers[0].recv(100).startswith(b"HTTP/1.1 200")


def test_client_that_does_not_take_its_answer_is_cut_off(tmp_path) -> None:
    service = FakeService()
    service.files = {"large": bytes(2**24)}
    with serving(
        service, tmp_path / "s", http=build_protocol_class(ConnectionSlots(256), silence_s=0.05)
    ) as path:
        transport = httpx.HTTPTransport(uds=str(path), verify=False)
        with httpx.Client(transport=transport, base_url="http://assayd") as client:
            attempt = client.post("/v1/attempts?wait_s=5", json=GOOD).json()["id"]
        with socket.socket(socket.AF_UNIX) as slow:
            slow.settimeout(10)
            slow.connect(str(path))
            slow.sendall(f"GET /v1/attempts/{attempt}/artifacts/large HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            wait_until_cut_off(slow)
            taken = len(b"".join(iter(lambda: receive(slow), b"")))
    assert taken < 2**24


def wait_until_cut_off(connection: socket.socket) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    assert poll.poll(10_000)


def receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(2**20)
    except OSError:
        return b""


def test_body_that_stops_coming_is_answered_and_not_waited_for(tmp_path) -> None:
    limits = ApiLimits(silence_s=0.05)
    with (
        serving(FakeService(), tmp_path / "s", limits=limits) as path,
        socket.socket(socket.AF_UNIX) as client,
    ):
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        answer = HTTPResponse(client)
        answer.begin()
        assert answer.status == 408
        assert b"too_slow" in answer.read()


@pytest.mark.parametrize("ending", [b"", b"Connection: close\r\n"])
def test_answer_comes_with_its_head_at_once(tmp_path, ending) -> None:
    with serving(FakeService(), tmp_path / "s") as path, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        for _ in range(1 if ending else 3):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + ending + b"\r\n")
            answer = client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"\r\n\r\n" + b'{"status":"ok"}')
        if ending:
            assert client.recv(1) == b""


def test_head_of_a_stream_is_not_held_until_something_happens(tmp_path) -> None:
    limits = ApiLimits(heartbeat_s=60)
    with (
        serving(FakeService(), tmp_path / "s", limits=limits) as path,
        socket.socket(socket.AF_UNIX) as client,
    ):
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


ASK = b"GET /asked HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class App:
    """An application that answers every request with 204 and counts them."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Exhausted(socket.socket):
    """A listening socket whose process has no free descriptor at the first accept."""

    failed = False

    def accept(self) -> tuple[socket.socket, object]:
        if not self.failed:
            self.failed = True
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def listening(folder: Path, kind: type[socket.socket] = socket.socket) -> socket.socket:
    server = kind(socket.AF_UNIX)
    server.bind(str(folder / "s"))
    server.listen(64)
    return server


@asynccontextmanager
async def served(app: App, listener: socket.socket) -> AsyncIterator[ApiServer]:
    """Serve on a socket in this event loop."""
    server = ApiServer(build_server_config(app, SocketAccess(own_uid=1)))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield server
    finally:
        server.should_exit = True
        await serving


def connect(folder: Path, sent: bytes = b"") -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(folder / "s"))
    connection.sendall(sent)
    return connection


async def answer(connection: socket.socket) -> bytes:
    connection.setblocking(False)
    async with asyncio.timeout(10):
        return await asyncio.get_running_loop().sock_recv(connection, 2**16)


def places(server: ApiServer) -> int:
    protocol = server.config.http
    assert isinstance(protocol, type)
    assert issubclass(protocol, PeerHttpTools)
    assert protocol.places is not None
    return protocol.places.total


async def test_client_that_left_before_its_turn_is_not_served_and_holds_no_place(tmp_path) -> None:
    app, listener = App(), listening(tmp_path)
    for _ in range(20):
        connect(tmp_path, ASK).close()
    async with served(app, listener) as server:
        with closing(connect(tmp_path, ASK)) as patient:
            assert (await answer(patient)).startswith(b"HTTP/1.1 204")
        async with asyncio.timeout(10):
            while places(server):
                await asyncio.sleep(0)
        assert app.asked == 1


async def test_place_of_a_client_that_leaves_with_its_request_unanswered_is_free_again(tmp_path) -> None:
    app, listener = App(), listening(tmp_path)
    async with served(app, listener) as server:
        connection = connect(tmp_path)
        async with asyncio.timeout(10):
            while not places(server):
                await asyncio.sleep(0)
            connection.sendall(ASK)
            connection.close()
            while places(server):
                await asyncio.sleep(0)


async def test_accepting_goes_on_after_the_system_could_not(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(peer, "PAUSE_S", 0.0)
    app, listener = App(), listening(tmp_path, Exhausted)
    async with served(app, listener):
        with closing(connect(tmp_path, ASK)) as client:
            assert (await answer(client)).startswith(b"HTTP/1.1 204")


@pytest.mark.parametrize("is_closed", [False, True])
def test_peer_has_left_once_its_end_is_closed_whatever_it_sent_before(is_closed: bool) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(ASK)
        if is_closed:
            there.close()
        assert is_disconnected(here) is is_closed


def test_peer_that_has_only_ended_its_requests_has_not_left() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.shutdown(socket.SHUT_WR)
        assert not is_disconnected(here)
