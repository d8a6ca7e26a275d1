"""Hostile clients and programs against `assay compat`: clear answers, no leftovers, bounded memory."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from assayd_client import Document
from support.daemons.compat_program import compat_program, memory_mb
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service.

    Attributes:
        asked: a client of it.
        url: its address.
        pid: its process.
        daemon: the daemon behind it.
    """

    asked: httpx.Client
    url: str
    pid: int
    daemon: DaemonProcess

    def connect(self) -> socket.socket:
        place = urlsplit(self.url)
        return socket.create_connection((place.hostname, place.port), timeout=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """How one interface runs Python code.

    Attributes:
        label: the label `client` of its attempts.
        path: where its requests go.
        body: the request for some code with a limit of so many seconds.
        end: what an answer says of how the program ended.
    """

    label: str
    path: str
    body: Callable[[str, float], dict[str, Any]]
    end: Callable[[dict[str, Any]], object]


FUSION = Interface(
    label="sandbox-fusion",
    path="/run_code",
    body=lambda code, limit_s: {"language": "python", "code": code, "run_timeout": limit_s},
    end=lambda answer: (
        answer["status"],
        answer["run_result"]["status"],
        answer["run_result"]["return_code"],
    ),
)
PISTON = Interface(
    label="piston",
    path="/api/v2/execute",
    body=lambda code, limit_s: {
        "language": "python",
        "version": "*",
        "files": [{"content": code}],
        "run_timeout": limit_s * 1000,
    },
    end=lambda answer: (answer["run"]["status"], answer["run"]["signal"]),
)
JUDGE0 = Interface(
    label="judge0",
    path="/submissions?wait=true",
    body=lambda code, limit_s: {"language_id": 71, "source_code": code, "wall_time_limit": limit_s},
    end=lambda answer: answer["status"]["description"],
)
INTERFACES = (FUSION, PISTON, JUDGE0)
MANY = 1000
MEMORY_MB = 600


@pytest.fixture(scope="module")
def service(daemon: DaemonProcess) -> Iterator[Service]:
    """Return a service; afterwards, its attempts have ended and its memory was bounded."""
    with (
        compat_program(["--socket", str(daemon.socket)]) as (url, pid),
        httpx.Client(base_url=url, timeout=60) as asked,
    ):
        yield Service(asked=asked, url=url, pid=pid, daemon=daemon)
        with daemon.client() as client:
            for state in ("queued", "running"):
                assert client.attempts(state=state)["attempts"] == []
        assert memory_mb(pid) < MEMORY_MB


def ids(interface: Interface) -> str:
    return interface.label


@pytest.mark.parametrize(
    ("interface", "end"),
    [
        (FUSION, ("Failed", "TimeLimitExceeded", None)),
        (PISTON, ("TO", "SIGKILL")),
        (JUDGE0, "Time Limit Exceeded"),
    ],
    ids=["sandbox-fusion", "piston", "judge0"],
)
def test_program_that_never_ends_is_stopped(service: Service, interface: Interface, end: object) -> None:
    answer = service.asked.post(interface.path, json=interface.body("while True: pass", 0.5))
    assert interface.end(answer.json()) == end


@pytest.mark.parametrize(
    ("interface", "end"),
    [(FUSION, ("Failed", "Finished", -9)), (PISTON, ("OL", "SIGKILL")), (JUDGE0, "Runtime Error (Other)")],
    ids=["sandbox-fusion", "piston", "judge0"],
)
def test_64_mb_of_output_are_too_much(service: Service, interface: Interface, end: object) -> None:
    answer = service.asked.post(interface.path, json=interface.body("print('x' * 2**20 * 64)", 20))
    assert interface.end(answer.json()) == end
    assert len(answer.content) < 600_000


@pytest.mark.parametrize("interface", INTERFACES, ids=ids)
def test_attempt_of_a_client_that_hangs_up_is_cancelled(service: Service, interface: Interface) -> None:
    content = json.dumps(interface.body("import time; time.sleep(50)", 50)).encode()
    headers = f"Host: judge\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    with service.daemon.client() as client:
        with service.connect() as connection:
            connection.sendall(f"POST {interface.path} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + content)
            running: list[Document] = []
            while not running:
                running = client.attempts(label=[f"client={interface.label}"], state="running")["attempts"]
        assert client.attempt(running[0]["id"], wait_s=30)["verdict"] == "cancelled"


@pytest.mark.parametrize("interface", INTERFACES, ids=ids)
def test_program_that_kills_what_it_can_ends_itself_alone(service: Service, interface: Interface) -> None:
    killing = "import os, signal; os.kill(-1, signal.SIGKILL)"
    service.asked.post(interface.path, json=interface.body(killing, 5))
    answer = service.asked.post(interface.path, json=interface.body("print(42)", 5))
    assert "42" in answer.text


def test_a_thousand_connections_leave_room_for_a_request(service: Service) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * MANY)), hard))
    with ExitStack() as stack:
        connections = [stack.enter_context(service.connect()) for _ in range(MANY)]
        for connection in connections[::2]:  # half of a request each; the others send nothing
            connection.sendall(b"POST /run_code HTTP/1.1\r\nContent-Type: application/json\r\n")
        answer = service.asked.post("/run_code", json=FUSION.body("print(42)", 5))
        assert answer.json()["run_result"]["stdout"] == "42\n"


def test_pipelined_requests_are_answered_in_order(service: Service) -> None:
    with service.connect() as connection:
        for path in ("/healthz", "/api/v2/runtimes", "/nothing"):
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: judge\r\n\r\n".encode())
        received = b""
        while received.count(b"HTTP/1.1 ") < 3:
            received += connection.recv(65536)
    statuses = [part.split(b" ")[0] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"200", b"404"]


def test_what_is_no_http_is_refused(service: Service) -> None:
    with service.connect() as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01" + b"\x00" * 500 + b"\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_large_bodies_at_once_are_refused_or_run(service: Service) -> None:
    body = httpx.Request("POST", service.url, json=FUSION.body("#" * 15 * 2**20, 5)).content
    headers = f"Host: judge\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    head = f"POST /run_code HTTP/1.1\r\n{headers}\r\n\r\n"
    with ExitStack() as stack:
        connections = [stack.enter_context(service.connect()) for _ in range(12)]
        for connection in connections:  # all but the last byte: all of them are held
            connection.sendall(head.encode() + body[:-1])
        for connection in connections:
            connection.sendall(body[-1:])
        found = [connection.recv(1000).split(b" ")[1] for connection in connections]
    assert set(found) == {b"200", b"503"}
    answer = service.asked.post("/run_code", json=FUSION.body("print(42)", 5))
    assert answer.json()["run_result"]["stdout"] == "42\n"
