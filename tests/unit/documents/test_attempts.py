"""Golden documents: what they hold is the contract, so a difference is a decision and not an accident.

`ASSAY_GOLDEN=write` writes them anew; the client's tests render the same files.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from assayd.documents import (
    build_attempt_document,
    build_error_document,
    build_event_document,
    build_execution_document,
    build_limits_document,
    build_report_document,
    canonical,
    format_event_id,
    format_optional_time,
    parse_event_id,
    parse_json,
    to_plain,
)
from assayd.documents.attempts import AttemptDocument
from assayd.errors import RequestError
from assayd.model.attempt import Artifact, Attempt, Failure, State
from assayd.model.finding import Edit, Finding, Layer, Severity
from assayd.model.policy import ClampedValue, NetworkPolicy
from assayd.model.records import AttemptEvent
from assayd.model.report import Case, CaseStatus, Report, StageReport, StageStatus, StaticResult, Verdict
from assayd.model.run import (
    CapturedOutput,
    Cause,
    ContainerFacts,
    Limits,
    PolicyEvent,
    ResourceUsage,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
)
from assayd.model.submission import Peer

GOLDEN = Path(__file__).parents[2] / "golden"
CREATED = datetime(2026, 5, 4, 10, 20, 30, 123456, tzinfo=UTC)
ID = "01JTC8ZK5V0000000000000001"
LIMITS = Limits(timeout_s=60, unit_timeout_s=5, memory_bytes=100 * 2**20, max_processes=1)
COMPLETED = RunOutcome(cause=Cause.COMPLETED)

REFUSED_IMPORT = Finding(
    rule="import.not_allowed",
    category="import",
    message="the module 'os' is not allowed",
    line=2,
    column=1,
    end_line=2,
    snippet="import os",
    suggestion="remove the import; pathlib.PurePath takes paths apart",
    edit=Edit(start_line=2, end_line=2, replacement="from pathlib import PurePath\n"),
)
RAISED = Finding(
    rule="runtime.exception",
    category="runtime",
    message="ValueError: invalid literal for int() with base 10: 'Q1'",
    layer=Layer.RUNTIME,
    line=12,
    snippet="    quarter = int(part)",
    suggestion="take the letter off before int(): 'Q1' is not a number",
    context="path /data/CLIENT-ABC/2024/Q1/report.csv",
)
EMPTY = Finding(
    rule="quality.some_empty",
    category="quality",
    message="1 path gave an empty dict",
    severity=Severity.WARNING,
    layer=Layer.RUNTIME,
)
PASSED_STATIC = tuple(
    StageReport(name=name, status=StageStatus.PASSED, duration_s=0.0004)
    for name in ("syntax", "security", "signature")
)
PASSED_CASES = (
    Case(
        name="/data/CLIENT-ABC/2024/Q1/report.csv",
        status=CaseStatus.PASSED,
        cause=Cause.COMPLETED,
        result={"client_id": "ABC", "year": 2024, "quarter": 1},
        duration_s=0.0021,
        exit_code=0,
    ),
    Case(
        name="/data/other/data.csv",
        status=CaseStatus.PASSED,
        cause=Cause.COMPLETED,
        result={},
        stdout="no client\n",
        duration_s=0.0025,
        exit_code=0,
    ),
)


def report(verdict: Verdict, reached: str, *stages: StageReport, cases: tuple[Case, ...] | None) -> Report:
    ran = [stage for stage in PASSED_STATIC if all(stage.name != other.name for other in stages)]
    return Report(
        attempt_id=ID,
        kind="extractor",
        verdict=verdict,
        stage_reached=reached,
        stages=(*ran, *stages) if cases else stages,
        static_results=(StaticResult(check="syntax", passed=True, details="no findings"),),
        cases=cases,
        effective_limits=build_limits_document(LIMITS, NetworkPolicy()),
        clamped=(ClampedValue(field="resources.timeout_s", requested=90, effective=60),),
        input_digest="ab" * 32,
        policy_digest="cd" * 32,
        image_digest="sha256:" + "ef" * 32 if cases else None,
        validated_at=CREATED + timedelta(seconds=1),
    )


def unit(number: int, *, status: int = 0, cause: Cause = Cause.COMPLETED, out: bytes = b"") -> UnitResult:
    return UnitResult(
        name=f"path {number}",
        wait_status=status,
        stdout=CapturedOutput(head=out, total_bytes=len(out)),
        usage=ResourceUsage(wall_s=0.002, cpu_s=0.0015, work_bytes=4096, work_files=1),
        events=(
            PolicyEvent(kind="import", detail="pathlib", allowed=True, enforced=True, line=1),
            PolicyEvent(kind="network", detail="[::1]:80", allowed=False, enforced=True, line=4),
        ),
        outcome=RunOutcome(cause=cause),
    )


def run(*units: UnitResult, outcome: RunOutcome = COMPLETED) -> RunResult:
    return RunResult(
        units=units,
        end=RunEndReason.FINISHED,
        container=ContainerFacts(
            id="c0ffee",
            image="assayd/python",
            image_digest="sha256:ef",
            engine="docker 20.10",
            runtime="runc",
            warm=True,
            python="3.11.2",
        ),
        wall_s=0.0123,
        peak_memory_bytes=30 * 2**20,
        outcome=outcome,
    )


def finished(verdict: Verdict, cause: Cause | None, *, warm: bool | None) -> Attempt:
    return Attempt(
        id=ID,
        kind="extractor",
        policy="extractor",
        input_digest="ab" * 32,
        created_at=CREATED,
        started_at=CREATED + timedelta(milliseconds=2),
        finished_at=CREATED + timedelta(seconds=1),
        peer=Peer(uid=1000, gid=1000, pid=4242),
        state=State.FINISHED,
        verdict=verdict,
        run_number=1,
        labels={"category": "reports"},
        timings_s={"queued": 0.002, "static": 0.004, "total": 1.0},
        warm=warm,
        cause=cause,
        bundle=f"reports/default/20260504T102030.123456Z_{ID}",
        artifacts=(
            Artifact(name="stdout.log", bytes=10, sha256="12" * 32, media_type="text/plain", truncated=False),
        ),
    )


def validated() -> AttemptDocument:
    quality = StageReport(name="quality", status=StageStatus.WARNED, findings=(EMPTY,))
    sandbox = StageReport(name="sandbox", status=StageStatus.PASSED, duration_s=0.012)
    return build_attempt_document(
        finished(Verdict.VALIDATED, Cause.COMPLETED, warm=True),
        report=build_report_document(
            report(Verdict.VALIDATED, "complete", sandbox, quality, cases=PASSED_CASES)
        ),
        execution=build_execution_document(
            run(unit(0), unit(1, out=b"no client\n")), limits=LIMITS, network=NetworkPolicy()
        ),
    )


def failed_at_run() -> AttemptDocument:
    failed = Case(
        name="/data/CLIENT-ABC/2024/Q1/report.csv",
        status=CaseStatus.FAILED,
        cause=Cause.EXITED_NONZERO,
        error_type="ValueError",
        message="invalid literal for int() with base 10: 'Q1'",
        traceback='File "extractor.py", line 12, in extract\n    quarter = int(part)',
        line=12,
        stderr="about to fail\n",
        exit_code=1,
    )
    sandbox = StageReport(name="sandbox", status=StageStatus.FAILED, duration_s=0.012, findings=(RAISED,))
    quality = StageReport(name="quality", status=StageStatus.SKIPPED)
    outcome = RunOutcome(cause=Cause.EXITED_NONZERO, evidence={"exit_code": 1, "unit": "path 0"})
    whole = report(Verdict.FAILED, "sandbox", sandbox, quality, cases=(failed, *PASSED_CASES[1:]))
    return build_attempt_document(
        finished(Verdict.FAILED, Cause.EXITED_NONZERO, warm=False),
        report=build_report_document(replace(whole, retry_context="The extractor failed on 1 of 2 paths.")),
        execution=build_execution_document(
            run(unit(0, status=1 << 8, cause=Cause.EXITED_NONZERO), unit(1), outcome=outcome),
            limits=LIMITS,
            network=NetworkPolicy(),
        ),
    )


def refused() -> AttemptDocument:
    stages = (
        StageReport(name="syntax", status=StageStatus.PASSED, duration_s=0.0003),
        StageReport(
            name="security", status=StageStatus.FAILED, duration_s=0.0005, findings=(REFUSED_IMPORT,)
        ),
        *(StageReport(name=name, status=StageStatus.SKIPPED) for name in ("signature", "sandbox", "quality")),
    )
    whole = report(Verdict.FAILED, "security", *stages, cases=None)
    return build_attempt_document(
        finished(Verdict.FAILED, None, warm=None), report=build_report_document(whole)
    )


def broken() -> AttemptDocument:
    attempt = finished(Verdict.ERROR, Cause.INFRASTRUCTURE, warm=None)
    failure = Failure(code="engine.unreachable", message="the container engine does not answer")
    return build_attempt_document(replace(attempt, error=failure, bundle=None, artifacts=()))


@pytest.mark.parametrize("make", [validated, failed_at_run, refused, broken])
def test_a_document_is_as_recorded(make: Callable[[], AttemptDocument]) -> None:
    document = json.loads(canonical(make()))
    path = GOLDEN / f"{make.__name__}.json"
    if os.environ.get("ASSAY_GOLDEN") == "write":
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    assert document == json.loads(path.read_text())


@pytest.mark.parametrize("make", [validated, failed_at_run, refused, broken])
def test_a_document_is_strict_json(make: Callable[[], AttemptDocument]) -> None:
    assert isinstance(parse_json(canonical(make())), dict)


def test_an_attempt_that_waits_has_neither_report_nor_times() -> None:
    waiting = Attempt(
        id=ID, kind="code", policy="code", input_digest="", created_at=CREATED, peer=Peer(uid=1, gid=2, pid=3)
    )
    document = to_plain(build_attempt_document(waiting))
    assert document["state"] == "queued"
    assert document["timings_ms"] == dict.fromkeys(("queued", "static", "lease", "run", "report", "total"))
    assert [document[name] for name in ("verdict", "started_at", "report", "execution", "error")] == [
        None
    ] * 5


def test_times_are_utc_whatever_their_zone() -> None:
    assert (
        format_optional_time(CREATED.astimezone(timezone(timedelta(hours=5))))
        == "2026-05-04T10:20:30.123456Z"
    )
    assert format_optional_time(CREATED.replace(microsecond=0)) == "2026-05-04T10:20:30.000000Z"
    assert format_optional_time(None) is None


def test_an_artifact_has_the_five_fields() -> None:
    artifact = Artifact(name="files/0", bytes=3, sha256="00", media_type="text/csv", truncated=True)
    assert to_plain(artifact) == {
        "name": "files/0",
        "bytes": 3,
        "sha256": "00",
        "media_type": "text/csv",
        "truncated": True,
    }


def test_an_event_carries_its_id_there_and_back() -> None:
    event = AttemptEvent(
        attempt_id=ID, run_number=2, seq=17, kind="state", at=CREATED, body={"state": "running"}
    )
    assert build_event_document(event).body == {"state": "running"}
    assert parse_event_id(format_event_id(event)) == (2, 17)


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.2", "1.2.3", "1.x", "٣.1", "1" * 40 + ".1"])
def test_a_foreign_event_id_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_event_id(text)
    assert caught.value.code == "invalid"


def test_an_error_has_its_four_fields() -> None:
    error = RequestError("queue.full", "the queue is full", retryable=True)
    assert to_plain(build_error_document(error)) == {
        "error": {"code": "queue.full", "message": "the queue is full", "field": None, "retryable": True}
    }
