"""The daemon's shutdown, which leaves nothing behind."""

import json
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from assayd_client import Document, PlainClient
from support.daemons.daemon_fixtures import MakeDaemon
from support.daemons.daemon_process import BIN, DaemonProcess
from support.texts.extractors import GOOD, LOOP, PROCESSES, endless, extractor

pytestmark = pytest.mark.engine

RUNS_WITHIN_S = 60.0
SLEEPS = {"kind": "script", "payload": {"code": "import time\ntime.sleep(4)\n"}}


def run_until(client: PlainClient, submission: Document, state: str = "running") -> Document:
    """Submit, and wait until the attempt reaches a state."""
    attempt = client.submit(submission)
    for event in client.events(attempt["id"]):
        if event.kind == "state" and event.body["state"] == state:
            return attempt
    raise AssertionError(f"the attempt was never {state}")


def verdicts(daemon: DaemonProcess) -> dict[str, str]:
    return {row["attempt_id"]: row["verdict"] for row in daemon.rows("SELECT * FROM verdicts")}


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_nothing_is_left_of_a_daemon_that_was_stopped(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"POOL__DEFAULT_TARGET": "1"})
    daemon.start()
    with daemon.client() as client:
        for code in (GOOD, PROCESSES):
            client.submit(extractor(code), wait_s=60)
    assert daemon.containers() != []
    workers = daemon.workers()

    code = daemon.stop()

    assert code == 0
    assert daemon.containers() == []
    assert workers
    assert all(map(gone, workers))
    assert not daemon.socket.exists()
    assert list(daemon.state.rglob(".tmp-*")) == []
    assert {path.name for path in daemon.state.iterdir()} == {
        "lock",
        "daemon-id",
        "assayd.db",
        "artifacts",
        "audit",
    }


def test_stop_signal_lets_attempts_end_and_refuses_new_ones(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    with daemon.client() as client, daemon.http() as http:
        attempt = run_until(client, SLEEPS)

        daemon.send(signal.SIGTERM)
        daemon.log.wait_for("daemon.stopping")
        response = http.post("/v1/attempts", json=extractor(GOOD))
        finished = client.attempt(attempt["id"], wait_s=60)

    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
    assert (finished["verdict"], finished["cause"]) == ("validated", "completed")
    assert daemon.wait() == 0
    assert verdicts(daemon) == {attempt["id"]: "validated"}
    assert daemon.containers() == []


def test_second_stop_signal_breaks_off_what_runs_and_leaves_it_to_the_next_run(
    make_daemon: MakeDaemon,
) -> None:
    daemon = make_daemon(settings={"CONCURRENCY": "1"})
    daemon.start()
    with daemon.client() as client:
        attempt = run_until(client, endless())
        daemon.send(signal.SIGTERM)
        daemon.log.wait_for("daemon.stopping")

        daemon.send(signal.SIGTERM)

        assert daemon.wait() == 0
    assert verdicts(daemon) == {}
    assert daemon.containers() == []

    daemon.start()
    with daemon.client() as client:
        client.cancel(attempt["id"])
        assert client.attempt(attempt["id"], wait_s=60)["verdict"] == "cancelled"


def test_client_that_waits_for_a_daemon_that_dies_names_the_attempt_that_runs_again(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon()
    daemon.start()
    (tmp_path / "loop.py").write_text(LOOP)
    words = ["validate", "extractor", tmp_path / "loop.py", "--sample-path", "/a"]
    command = [BIN / "assay", "--socket", daemon.socket, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        daemon.log.wait_for("request.answered", method="POST")
        with daemon.client() as client:
            attempt = client.attempts()["attempts"][0]["id"]
            next(each for each in client.events(attempt) if each.body.get("state") == "running")
        daemon.kill()
        out, err = waiting.communicate()

    assert (waiting.returncode, out) == (4, "")
    assert err == (
        f"assay: the daemon stopped responding; attempt {attempt} was accepted, and runs again "
        f"once the daemon is back: assay show {attempt}\n"
    )
    daemon.start()
    until = time.monotonic() + RUNS_WITHIN_S
    with daemon.client() as client:
        while client.attempt(attempt)["run_number"] != 2:
            assert time.monotonic() < until


def test_waiting_client_and_follower_do_not_hold_up_the_stop(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    with daemon.client() as client, daemon.http() as http:
        crowd = [client.submit(endless()) for _ in range(64)]
        last = client.submit(extractor(GOOD))
        assert client.attempt(last["id"])["state"] == "queued"
        with http.stream("GET", f"/v1/attempts/{last['id']}/events") as events:
            assert events.status_code == 200
            daemon.send(signal.SIGTERM)
            daemon.log.wait_for("daemon.stopping")

            daemon.send(signal.SIGTERM)

            assert daemon.wait() == 0
    assert verdicts(daemon) == {}

    daemon.start()
    with daemon.client() as client:
        for attempt in crowd:
            client.cancel(attempt["id"])
        assert client.attempt(last["id"], wait_s=60)["verdict"] == "validated"


def test_socket_of_another_daemon_is_left_alone(make_daemon: MakeDaemon) -> None:
    first, second = make_daemon(), make_daemon()
    first.start()
    second.settings["SOCKET"] = str(first.socket)

    second.spawn()

    assert second.wait() == 3  # the service manager tries again: the other one may just be stopping
    assert "another daemon answers" in second.log.tail()
    with first.client() as client:
        assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"


def test_state_directory_of_another_daemon_is_left_alone(make_daemon: MakeDaemon) -> None:
    first = make_daemon()
    first.start()
    second = make_daemon(state=first.state)

    second.spawn()

    assert second.wait() == 3  # the service manager tries again: the other one may just be stopping
    assert "another daemon uses" in second.log.tail()
    assert not second.socket.exists()


def test_hang_up_signal_reloads_all_policies_or_none(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    mine.write_text(profile("mine", timeout_s=20))
    daemon = make_daemon(settings={"POLICY_FOLDERS": json.dumps([str(tmp_path)])})
    daemon.start()
    with daemon.http() as http:
        assert timeout_of(http, "mine") == 20

        mine.write_text(profile("mine", timeout_s=10))
        daemon.send(signal.SIGHUP)
        daemon.log.wait_for("policies.reloaded")
        kept = retry_if_result(
            lambda timeout: timeout != 10
        )  # an answer is kept ten times as long as it took
        Retrying(retry=kept, stop=stop_after_delay(30), wait=wait_fixed(0.05))(timeout_of, http, "mine")

        mine.write_text(profile("mine", timeout_s=5))
        other.write_text(profile("other", timeout_s="soon"))
        daemon.send(signal.SIGHUP)
        assert "other.toml" in daemon.log.wait_for("policies.reload_failed")["problem"]
        assert timeout_of(http, "mine") == 10
        assert http.get("/v1/policies/other").status_code == 404

        submission = {**extractor(GOOD), "policy": "mine"}
        assert http.post("/v1/attempts?wait_s=60", json=submission).json()["verdict"] == "validated"


def profile(name: str, *, timeout_s: float | str) -> str:
    value = timeout_s if isinstance(timeout_s, int) else f'"{timeout_s}"'
    return f'description = "{name}"\nextends = "extractor"\n[resources]\ntimeout_s = {value}\n'


def timeout_of(http: httpx.Client, name: str) -> float:
    return http.get(f"/v1/policies/{name}").json()["resources"]["timeout_s"]


def test_socket_handed_over_by_the_service_manager_is_served_and_kept(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(daemon.socket))
        passed.listen()
        daemon.program = [
            "bash",
            "-c",
            f"LISTEN_PID=$$ LISTEN_FDS=1 exec {shlex.join(map(str, daemon.program))} 3<&{passed.fileno()}",
        ]
        daemon.pass_fds = (passed.fileno(),)
        daemon.start()
        with daemon.client() as client:
            assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"

        assert daemon.stop() == 0

        assert daemon.socket.is_socket()
