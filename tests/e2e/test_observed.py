"""The daemon seen from outside: its log, its metrics port, its messages to the service manager."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from assayd_client import PlainClient
from support.daemons.daemon_fixtures import MakeDaemon
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, endless, extractor

pytestmark = pytest.mark.engine


class Manager:
    """The service manager's socket, which records all messages."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._told: list[str] = []
        self._more = threading.Condition()
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    def _listen(self) -> None:
        while told := self._line.recv(4096):
            with self._more:
                self._told.append(told.decode())
                self._more.notify_all()

    def hear(self, wanted: str) -> str:
        """Wait for a message with this beginning; return the first one."""
        with self._more:
            self._more.wait_for(lambda: any(told.startswith(wanted) for told in self._told), 90)
            return next(told for told in self._told if told.startswith(wanted))

    def end(self) -> None:
        self._line.shutdown(socket.SHUT_RD)
        self._ear.join()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(tmp_path / "n"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        manager = Manager(line)
        yield manager
        manager.end()


def test_attempt_is_seen_in_log_events_and_metrics_under_its_request(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"METRICS__LISTEN": "127.0.0.1:0"})
    daemon.start()
    address = daemon.log.wait_for("metrics.listening")["address"]
    with daemon.client() as client, daemon.http() as http:
        headers = {"X-Request-Id": "ci-7"}
        answer = http.post("/v1/attempts?wait_s=60", json=extractor(GOOD), headers=headers)
        attempt = answer.json()
        first = next(client.events(attempt["id"]))
    scraped = httpx.get(f"http://{address}/metrics").text

    assert answer.headers["X-Request-Id"] == "ci-7"
    assert first.body == {"state": "queued", "request_id": "ci-7"}
    line = daemon.log.wait_for("attempt.finished", attempt_id=attempt["id"])
    assert (line["request_id"], line["verdict"], line["policy"]) == ("ci-7", "validated", "extractor")
    assert line["container"] == attempt["execution"]["container"]["id"]
    assert 'assayd_attempts_total{cause="completed",kind="extractor",verdict="validated"} 1.0' in scraped
    assert 'assayd_attempts_under_way{state="running"} 0.0' in scraped
    assert 'assayd_engine_call_duration_seconds_count{call="create"}' in scraped
    assert 'assayd_requests_total{method="POST",route="/v1/attempts",status="200"} 1.0' in scraped
    assert httpx.get(f"http://{address}/v1/attempts").status_code == 404


def test_attempt_that_runs_is_listed_as_running_and_seen_in_the_live_view(
    daemon: DaemonProcess, client: PlainClient
) -> None:
    attempt = client.submit(endless())
    for event in client.events(attempt["id"]):
        if event.body.get("state") == "running":
            break

    running = [row["id"] for row in client.attempts(state="running")["attempts"]]
    leasing = [row["id"] for row in client.attempts(state="leasing")["attempts"]]
    seen = daemon.assay("top", "--once").stdout

    client.cancel(attempt["id"])
    assert attempt["id"] in running
    assert attempt["id"] not in leasing
    assert f"{attempt['id']}  extractor  running" in seen


def test_service_manager_hears_of_readiness_life_and_end(make_daemon: MakeDaemon, manager: Manager) -> None:
    daemon = make_daemon()
    daemon.start()

    assert manager.hear("READY=1\nSTATUS=")
    assert manager.hear("WATCHDOG=1\nSTATUS=serving")
    assert daemon.stop() == 0
    assert manager.hear("STOPPING=1") == "STOPPING=1\nSTATUS=stopping; 0 attempts running"


def test_daemon_without_an_engine_is_up_and_says_what_it_lacks(
    make_daemon: MakeDaemon, manager: Manager
) -> None:
    daemon = make_daemon("unix:///nowhere/engine.sock")
    daemon.spawn()

    assert "not serving: can't reach the container engine" in manager.hear("READY=1")
    assert daemon.stop() == 0
