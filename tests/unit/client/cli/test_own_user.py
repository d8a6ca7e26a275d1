"""The user at the other end of a loopback connection, and that nobody else is served."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvicorn

from assayd_client.cli.own_user import (
    SameUserHttpProtocol,
    find_uid_in_tables,
    parse_connection_uid,
    query_kernel_uid,
)
from support.daemons.daemon_fixtures import needs_root

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REST = "00000000:00000000 00:00000000 00000000"
HERE, THERE = ("127.0.0.1", 40000), ("127.0.0.1", 8737)
HERE6, THERE6 = ("::1", 40000), ("::1", 8737)
LITTLE, BIG = ("0100007F", "01000000"), ("7F000001", "00000001")
WORD, LAST = LITTLE if sys.byteorder == "little" else BIG
IPV4 = f"{WORD}:9C40 {WORD}:2221"
IPV6 = f"{'0' * 24}{LAST}:9C40 {'0' * 24}{LAST}:2221"
MAPPED = f"{'0' * 16}{'FFFF0000' if sys.byteorder == 'little' else '0000FFFF'}{WORD}"
ASK = r'exec 3<>/dev/tcp/127.0.0.1/$0; printf "GET / HTTP/1.0\r\n\r\n" >&3; cat <&3'

ASKED = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


class Hasty(SameUserHttpProtocol):
    """Waits only briefly for headers."""

    headers_s = 0.2


def line(ends: str, state: str = "01", uid: int = 1000) -> str:
    return f"   7: {ends} {state} {REST} {uid:5}        0 123456 1 0000000000000000 20 4 30 10 -1\n"


@pytest.mark.parametrize(
    ("ends", "local", "remote"),
    [
        (IPV4, HERE, THERE),
        (IPV6, HERE6, THERE6),
        (f"{MAPPED}:9C40 {MAPPED}:2221", HERE, THERE),  # a socket of IPv6 that connected to 127.0.0.1
    ],
)
def test_user_is_read_at_the_line_of_the_peers_end(ends, local, remote) -> None:
    ours = " ".join(reversed(ends.split()))
    table = HEAD + line(ours, uid=1) + line(ends, uid=1000) + line(f"{WORD}:9C41 {WORD}:2221", uid=2)

    assert parse_connection_uid(table, local, remote) == 1000


@pytest.mark.parametrize(
    "table",
    [
        "",
        HEAD,
        HEAD + line(IPV4, state="06", uid=0),  # TIME_WAIT
        HEAD + line(IPV4, state="04", uid=0),  # FIN_WAIT1 of a socket that was closed
        HEAD + line(" ".join(reversed(IPV4.split()))),
        HEAD + line(f"{WORD}:9C40 {WORD}:2222"),
    ],
)
def test_connection_that_is_not_established_or_not_listed_is_nobodys(table) -> None:
    assert parse_connection_uid(table, HERE, THERE) is None


@pytest.mark.parametrize(
    ("family", "listening", "connecting"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "127.0.0.1", "::ffff:127.0.0.1"),
    ],
    ids=["ipv4", "ipv6", "ipv4-by-ipv6"],
)
def test_kernel_says_the_user_of_one_connection(family: int, listening: str, connecting: str) -> None:
    of_listener = socket.AF_INET6 if ":" in listening else socket.AF_INET
    with (
        socket.create_server((listening, 0), family=of_listener) as server,
        socket.socket(family) as connection,
    ):
        connection.connect((connecting, server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            local, remote = accepted.getpeername()[:2], accepted.getsockname()[:2]
            assert query_kernel_uid(local, remote) == find_uid_in_tables(local, remote) == os.geteuid()
            assert query_kernel_uid(local, (remote[0], 1)) is None
            connection.close()
            assert query_kernel_uid(local, remote) is None


@pytest.fixture(params=["asyncio", "uvloop"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    async def hello(_, __, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"served"})

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        config = uvicorn.Config(
            hello, http=Hasty, loop=request.param, lifespan="off", log_config=None, ws="none"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


def ask(port: int, user: int | None = None) -> bytes:
    """Return a process's answer from a port."""
    command = ["bash", "-c", ASK, str(port)]
    return subprocess.run(command, check=False, cwd="/", user=user, capture_output=True, timeout=60).stdout


def test_own_user_is_served(port) -> None:
    assert ask(port).endswith(b"served")


def test_user_who_is_not_the_servers_gets_nothing(port, monkeypatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: own + 1)

    assert ask(port) == b""


NO_PROTOCOL = 31
"""A number that no kernel has a protocol for."""


def test_tables_are_read_if_the_kernel_can_not_be_asked(port, monkeypatch) -> None:
    monkeypatch.setattr("assayd_client.cli.own_user.NETLINK_SOCK_DIAG", NO_PROTOCOL)

    assert b"served" in ask(port)


def test_nobody_is_served_where_the_kernel_names_nobody(port, monkeypatch) -> None:
    monkeypatch.setattr("assayd_client.cli.own_user.NETLINK_SOCK_DIAG", NO_PROTOCOL)
    monkeypatch.setattr("assayd_client.cli.own_user.TABLES", ())

    assert ask(port) == b""


@pytest.mark.parametrize("sent", [b"", ASKED[:-2], ASKED[:-2] + b"X-Slow: "])
def test_connection_whose_headers_do_not_come_in_time_is_cut(port, sent: bytes) -> None:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
        connection.sendall(sent)
        assert received_of(connection) == b""


def test_further_request_of_a_connection_has_its_time_too(port) -> None:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
        connection.sendall(ASKED)
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += connection.recv(4096)
        connection.sendall(ASKED[:-2])
        assert (b"served" in received, received_of(connection)) == (True, b"")


def received_of(connection: socket.socket) -> bytes:
    """Return the received data, or nothing if the connection was closed or reset."""
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


@needs_root
def test_process_of_another_user_gets_nothing(port) -> None:
    assert (ask(port, user=65534), ask(port)[-6:]) == (b"", b"served")
