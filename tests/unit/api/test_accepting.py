"""Which connections are served, refused or dropped, and when."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from assayd.api import ApiServer, SocketAccess, accepting, server_config
from assayd.api.accepting import has_left
from assayd.api.peer import PeerHttpTools

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
    server = ApiServer(server_config(app, SocketAccess(own_uid=1)))
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
    monkeypatch.setattr(accepting, "PAUSE_S", 0.0)
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
        assert has_left(here) is is_closed


def test_peer_that_has_only_ended_its_requests_has_not_left() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.shutdown(socket.SHUT_WR)
        assert not has_left(here)
