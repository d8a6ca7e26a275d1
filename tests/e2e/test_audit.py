"""The audit log of a daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.daemons.ask import ask_as_nobody
from support.daemons.daemon_fixtures import needs_root, new_daemon
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, extractor

pytestmark = pytest.mark.engine


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    daemon = new_daemon("oci", settings={"POOL__DEFAULT_TARGET": "0"})
    daemon.settings["SOCKET_MODE"] = "0666"
    daemon.start()
    daemon.home.chmod(0o755)
    yield daemon
    daemon.dispose()


@needs_root
def test_changes_are_noted_with_their_user_and_a_changed_log_is_found(daemon: DaemonProcess) -> None:
    submitted = daemon.assay("audit", "--verify")
    assert submitted.returncode == 0, submitted.stderr
    with daemon.client() as client:
        attempt = client.submit(extractor(GOOD), wait_s=60, idempotency_key="once")
        client.submit(extractor(GOOD), wait_s=60, idempotency_key="once")
        client.approve(attempt["id"], "good")
        client.remove_from_library("good", 1)
    status, refused = ask_as_nobody(daemon, "GET", "/v1/audit")
    assert (status, refused["error"]["code"]) == (403, "peer.not_operator")

    entries = [json.loads(line) for line in daemon.assay("audit", "--json").stdout.splitlines()]

    assert [entry["action"] for entry in entries] == [
        "daemon.started",
        "POST /v1/attempts",
        "POST /v1/attempts/{id}/approve",
        "DELETE /v1/library/{name}/{version}",
    ]
    assert entries[1]["subject"] == f"/v1/attempts/{attempt['id']}"
    assert entries[1]["actor"]["uid"] == 0
    assert "def extract" not in json.dumps(entries)

    (file,) = (daemon.state / "audit").iterdir()
    file.write_bytes(file.read_bytes().replace(b"/approve", b"/cancel"))
    changed = daemon.assay("audit", "--verify")
    assert changed.returncode == 1
    assert "doesn't follow line 3" in changed.stdout
