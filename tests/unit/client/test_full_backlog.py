"""Connecting to a socket whose backlog is full."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from assayd_client import AsyncClient, Client
from assayd_client.exchange import connect_unix

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\n{"kinds": []}\r\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "full.sock"


@pytest.fixture
def listener(path: Path) -> Iterator[socket.socket]:
    """Return a listening socket with a backlog of one, which is full."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        listening.bind(str(path))
        listening.listen(0)
        first.connect(str(path))
        yield listening


def serve_once(listener: socket.socket) -> None:
    """Close the waiting connection, and answer the next one."""
    listener.accept()[0].close()
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(ANSWER)


def blocked_threads() -> int:
    """Return the number of threads of this process that are blocked in `connect`."""
    calls = Path("/proc/self/task").glob("*/syscall")
    return sum(call.read_text().startswith(f"{CONNECT} ") for call in calls)


CONNECT = 42
"""The number of the call on x86-64."""


def test_connection_waits_for_a_place(listener: socket.socket, path: Path) -> None:
    def make_room() -> None:
        while not blocked_threads():
            pass
        serve_once(listener)

    thread = threading.Thread(target=make_room)
    thread.start()
    with Client(path) as client:
        assert client.kinds().kinds == []
    thread.join()


async def test_connection_of_a_loop_waits_for_a_place(listener: socket.socket, path: Path) -> None:
    async def ask() -> None:
        async with AsyncClient(path) as client:
            assert (await client.kinds()).kinds == []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not blocked_threads():
            await anyio.sleep(0)
        await anyio.to_thread.run_sync(serve_once, listener)


@pytest.mark.usefixtures("listener")
def test_connection_that_gets_no_place_fails(path: Path) -> None:
    with pytest.raises(BlockingIOError) as caught:
        connect_unix(path, 0.01)
    assert caught.value.errno == errno.EAGAIN
