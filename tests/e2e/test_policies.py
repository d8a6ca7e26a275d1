"""A profile that only reports: what passes with warnings, and what stays refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd_client import ClientError, Document, PlainClient
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine

STEPS = 'mkdir -p data; echo 1 > data/x; eval "rm data/x"; chmod +x tmp 2>/dev/null; ls /usr/bin/rm'


def extractor(code: str, policy: str) -> Document:
    payload = {"code": code, "sample_paths": ["/data/2024/report.csv"]}
    return {"kind": "extractor", "policy": policy, "payload": payload}


def bash(content: str, policy: str) -> Document:
    step = {"name": "s", "type": "bash", "content": content}
    return {"kind": "pipeline", "policy": policy, "payload": {"steps": [step]}}


def test_code_that_enforcement_refuses_passes_with_warnings_under_contained(client: PlainClient) -> None:
    code = "import os\n\ndef extract(path):\n    return {'n': eval('1 + 1'), 'cwd': os.getcwd()}\n"
    enforced = client.submit(extractor(code, "extractor"), wait_s=60)
    reported = client.submit(extractor(code, "contained"), wait_s=60)

    assert (enforced["verdict"], enforced["enforcement"]) == ("failed", "enforce")
    assert (reported["verdict"], reported["enforcement"]) == ("validated", "report")
    assert reported["report"]["runtime_results"]["cases"][0]["result"] == {"n": 2, "cwd": "/sandbox"}
    found = reported["report"]["findings"]
    assert {f["rule"] for f in found if f["severity"] == "warning"} >= {"builtin.not_allowed"}
    assert all("Reported only" in f["message"] for f in found if f["profile_key"])


def test_syntax_error_fails_under_contained(client: PlainClient) -> None:
    assert client.submit(extractor("def extract(path:", "contained"), wait_s=60)["verdict"] == "failed"


def test_step_sees_the_programs_of_the_whole_image_under_contained(client: PlainClient) -> None:
    assert client.submit(bash(STEPS, "contained"), wait_s=60)["verdict"] == "validated"
    assert client.submit(bash(STEPS, "pipeline"), wait_s=60)["verdict"] == "failed"


@pytest.mark.parametrize(
    "code",
    [
        "import socket\n\ndef extract(path):\n    socket.create_connection((path, 80), 1)\n    return {}\n",
        "def extract(path):\n    open('/etc/assayd-probe', 'w')\n    return {}\n",
        "import os\n\ndef extract(path):\n    os.setuid(0)\n    return {}\n",
    ],
)
def test_container_refuses_network_root_files_and_users_in_each_mode(client: PlainClient, code: str) -> None:
    done = client.submit(extractor(code, "contained"), wait_s=60)
    assert (done["verdict"], done["cause"]) == ("failed", "exited_nonzero")


def test_result_under_contained_cannot_be_approved_and_list_says_report_only(
    daemon: DaemonProcess, client: PlainClient
) -> None:
    code = "def extract(path):\n    return {'name': path}\n"
    done = client.submit(extractor(code, "contained"), wait_s=60)
    with pytest.raises(ClientError) as refused:
        client.approve(done["id"], "names")
    assert refused.value.code == "library.report_only"
    [row] = [row for row in daemon.assay("list").stdout.splitlines() if row.startswith(done["id"])]
    assert row.endswith("\treport-only")
    assert client.submit(extractor(code, "extractor"), wait_s=60)["approvable"] is True


def test_commit_of_a_step_under_contained_is_refused(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path
) -> None:
    done = client.submit(bash("echo 1 > data/x", "contained"), wait_s=60)
    refused = daemon.assay("pipeline", "commit", done["id"], "--database", tmp_path / "x.db")
    assert "only reported" in refused.stderr, refused.stderr
