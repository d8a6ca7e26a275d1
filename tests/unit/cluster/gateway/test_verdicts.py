"""A gateway's reading of the report from a node."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from assayd.errors import RequestError
from assayd.model.attempt import ATTESTATION, Attempt, State, format_timestamp
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_cluster.documents import (
    MAX_ERROR_CHARS,
    MAX_PIECE_CHARS,
    MAX_RAW_ERROR_CHARS,
    BundleFile,
    JudgedAttempt,
    RunFailure,
    RunVerdict,
)
from assayd_cluster.gateway.runs import HeldRun
from assayd_cluster.gateway.verdicts import (
    MAX_STORED_REFUSALS,
    _build_bundle,
    _check_verdict,
    _read_cases,
    _read_refusals,
)

ATTEMPT = Attempt(
    id="a",
    kind="code",
    policy="default",
    input_digest="d",
    created_at=datetime(2026, 3, 1, tzinfo=UTC),
    peer=Peer(uid=1, gid=1, pid=1),
    state=State.RUNNING,
)
HELD = HeldRun(number=1, node="n", leased_at=0, attempt=ATTEMPT, document=b"{}")
CASE = {
    "name": "/data/a.csv",
    "status": "passed",
    "cause": "completed",
    "result": {"year": 2024},
    "error_type": None,
    "message": None,
    "traceback": None,
    "file": None,
    "line": None,
    "stdout": "",
    "stderr": "",
    "duration_ms": 1500.0,
    "exit_code": 0,
}


def test_case_of_a_newer_node_is_read_without_what_is_not_known_here() -> None:
    [case] = _read_cases({"runtime_results": {"cases": [{**CASE, "mood": "new"}]}})
    assert (case.name, case.duration_s) == ("/data/a.csv", 1.5)


@pytest.mark.parametrize("lacking", ["name", "status", "duration_ms"])
def test_case_that_lacks_what_every_case_has_is_refused(lacking: str) -> None:
    case = {name: value for name, value in CASE.items() if name != lacking}
    with pytest.raises(RequestError, match="invalid case"):
        _read_cases({"runtime_results": {"cases": [case]}})


def test_texts_of_a_report_are_cut_before_they_are_recorded() -> None:
    long = "x" * (MAX_PIECE_CHARS + 1)
    [case] = _read_cases({"runtime_results": {"cases": [{**CASE, "stderr": long, "message": "short\0"}]}})
    assert (len(case.stderr), case.message) == (MAX_PIECE_CHARS, "short\ufffd")
    errors = [{"severity": "error", "message": long}] * (MAX_STORED_REFUSALS + 1)
    assert [len(message) for message in _read_refusals({"findings": errors})] == [
        MAX_ERROR_CHARS
    ] * MAX_STORED_REFUSALS


def test_internal_error_with_a_message_that_no_daemon_writes_is_refused() -> None:
    assert RunFailure(code="x", message="m" * MAX_RAW_ERROR_CHARS)
    with pytest.raises(ValidationError):
        RunFailure(code="x", message="m" * (MAX_RAW_ERROR_CHARS + 1))


def test_signature_of_a_node_is_not_kept_as_it_is_of_other_files() -> None:
    created_at, moment = ATTEMPT.created_at, format_timestamp(ATTEMPT.created_at)
    report = {"attempt_id": "a", "kind": "code", "input_digest": "d", "status": "VALIDATED"}
    contents = {
        f"validation_{moment}.json": json.dumps(report).encode(),
        f"execution_{moment}.json": b"null",
        ATTESTATION: b"{}",
    }
    files = [
        BundleFile(
            name=name,
            media_type="application/json",
            sha256=hashlib.sha256(content).hexdigest(),
            bytes=len(content),
            base64=base64.b64encode(content).decode(),
        )
        for name, content in contents.items()
    ]
    said = JudgedAttempt.model_construct(created_at=created_at, verdict=Verdict.VALIDATED)
    checked = _check_verdict(ATTEMPT, RunVerdict.model_construct(attempt=said, files=files), {})
    assert checked.files.keys() == contents.keys() - {ATTESTATION}


def test_cut_files_cost_as_much_as_there_are() -> None:
    """A node may claim for each of many files that it was truncated."""
    assert min(cut_files_cpu_s(400) for _ in range(9)) < 9 * min(cut_files_cpu_s(100) for _ in range(9))


def cut_files_cpu_s(count: int) -> float:
    names = [f"files/{number}" for number in range(count)]
    files = [
        BundleFile(name=name, media_type="x", sha256="0" * 64, bytes=0, truncated=True) for name in names
    ]
    brought = RunVerdict.model_construct(files=files)
    before = time.thread_time()
    bundle = _build_bundle(ATTEMPT, HELD, brought, dict.fromkeys(names, b""))
    took = time.thread_time() - before
    assert bundle.truncated == set(names)
    return took
