"""Write attempts, reports, artifacts, events and errors as the contract names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from assayd.documents.import_violations import list_violations
from assayd.documents.strict_json import compact
from assayd.errors import AssaydError, RequestError
from assayd.model.attempt import Artifact, Attempt
from assayd.model.finding import Edit, Finding, FixHint
from assayd.model.policy import NetworkPolicy
from assayd.model.report import Case, CaseStatus, Report, StageReport
from assayd.model.run import Limits
from assayd.model.submission import JsonValue
from assayd.ports.store import Event

SCHEMA_VERSION = 1
_EVENT_ID_DIGITS = 18
_TIMINGS = ("queued", "static", "lease", "run", "report", "total")

Document = dict[str, object]
"""A JSON object on its way out."""


def timestamp(moment: datetime | None) -> str | None:
    """Write a time as RFC 3339 in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def milliseconds(seconds: float) -> float:
    """Write a duration, to the microsecond."""
    return round(seconds * 1000, 3)


def attempt_document(
    attempt: Attempt,
    *,
    report: Mapping[str, object] | None = None,
    execution: Mapping[str, object] | None = None,
    replay_diff: Mapping[str, object] | None = None,
) -> Document:
    """Write an attempt; `report` and `execution` are the documents of its bundle, where there are any.

    `replay_diff` is how a replay differs from what it repeats.
    """
    return {
        "id": attempt.id,
        "kind": attempt.kind,
        "policy": attempt.policy,
        "state": attempt.state,
        "verdict": attempt.verdict,
        "created_at": timestamp(attempt.created_at),
        "started_at": timestamp(attempt.started_at),
        "finished_at": timestamp(attempt.finished_at),
        "peer": {"uid": attempt.peer.uid, "gid": attempt.peer.gid, "pid": attempt.peer.pid},
        "batch_id": attempt.batch_id,
        "parent_id": attempt.parent_id,
        "replay_of": attempt.replay_of,
        "attempt_number": attempt.attempt_number,
        "run_number": attempt.run_number,
        "labels": dict(attempt.labels),
        "input_digest": attempt.input_digest,
        "timings_ms": {
            name: milliseconds(attempt.timings_s[name]) if name in attempt.timings_s else None
            for name in _TIMINGS
        },
        "warm": attempt.warm,
        "cause": attempt.cause,
        "rules": list(attempt.rules),
        "report": report,
        "execution": execution,
        "replay_diff": replay_diff,
        "bundle": attempt.bundle,
        "artifacts": [artifact_document(artifact) for artifact in attempt.artifacts],
        "error": attempt.error and {"code": attempt.error.code, "message": attempt.error.message},
    }


def attempt_body(
    attempt: Attempt,
    *,
    report: bytes = b"null",
    execution: bytes = b"null",
    replay_diff: Mapping[str, object] | None = None,
) -> bytes:
    """Write an attempt as JSON text, with documents that are JSON text already: they may be large."""
    written = {"report": report, "execution": execution}
    members = (
        b'"%b":%b' % (key.encode(), written.get(key) or compact(value))
        for key, value in attempt_document(attempt, replay_diff=replay_diff).items()
    )
    return b"{" + b",".join(members) + b"}"


def artifact_document(artifact: Artifact) -> Document:
    """Write one file of a bundle."""
    return {
        "name": artifact.name,
        "bytes": artifact.bytes,
        "sha256": artifact.sha256,
        "media_type": artifact.media_type,
        "truncated": artifact.truncated,
    }


def report_document(report: Report) -> Document:
    """Write a report."""
    return {
        "schema_version": SCHEMA_VERSION,
        "attempt_id": report.attempt_id,
        "kind": report.kind,
        "status": report.verdict.upper(),
        "stage_reached": report.stage_reached,
        "stages": [_stage(stage) for stage in report.stages],
        "static_results": [
            {"check": result.check, "passed": result.passed, "details": result.details}
            for result in report.static_results
        ],
        "runtime_results": None if report.cases is None else _runtime_results(report.cases),
        "findings": [_finding(finding) for finding in report.findings],
        "import_violations": list_violations(report.findings, report.refused_imports),
        "fix_hints": [_fix_hint(hint) for hint in report.fix_hints],
        "retry_context": report.retry_context,
        "confidence": report.confidence,
        "feedback": report.feedback,
        "effective_limits": dict(report.effective_limits),
        "clamped": [
            {"field": clamp.field, "requested": clamp.requested, "effective": clamp.effective}
            for clamp in report.clamped
        ],
        "input_digest": report.input_digest,
        "policy_digest": report.policy_digest,
        "image_digest": report.image_digest,
        "validated_at": timestamp(report.validated_at),
    }


def limits_document(limits: Limits, network: NetworkPolicy) -> dict[str, JsonValue]:
    """Write the limits that an attempt has been held to."""
    return {
        "timeout_s": limits.timeout_s,
        "unit_timeout_s": limits.unit_timeout_s,
        "memory_mb": limits.memory_bytes // 2**20,
        "max_processes": limits.max_processes,
        "cpus": limits.cpus,
        "work_bytes": limits.work_bytes,
        "work_files": limits.work_files,
        "open_files": limits.open_files,
        "output_kept_bytes": limits.output_kept_bytes,
        "output_read_bytes": limits.output_read_bytes,
        "unit_result_bytes": limits.unit_result_bytes,
        "network_mode": network.mode,
    }


def event_document(event: Event) -> Document:
    """Write an event. What its `body` holds depends on its kind.

    - state: state
    - stage: name, status, duration_ms, findings (how many)
    - unit: name, index (from 1), total, status (``started``, then its cause), duration_ms
    - stdout, stderr: unit, text
    - finished: verdict, cause
    - gap: missed (how many events are gone; null where that is not known)
    """
    return {
        "id": event_id(event),
        "attempt_id": event.attempt_id,
        "run_number": event.run_number,
        "seq": event.seq,
        "kind": event.kind,
        "at": timestamp(event.at),
        "body": event.body,
    }


def event_id(event: Event) -> str:
    """Return the id that a stream shows and `Last-Event-ID` sends back."""
    return f"{event.run_number}.{event.seq}"


def read_event_id(text: str) -> tuple[int, int]:
    """Read an event's id as (run number, sequence number).

    Raises:
        RequestError: ``invalid``, when it was not made by `event_id`.
    """
    run, dot, seq = text.partition(".")
    if not (dot and all(n.isascii() and n.isdigit() and len(n) <= _EVENT_ID_DIGITS for n in (run, seq))):
        raise RequestError("invalid", "Last-Event-ID is not an id of this stream", field="Last-Event-ID")
    return int(run), int(seq)


def error_document(error: AssaydError) -> Document:
    """Write an error, as every answer that is one has it."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "field": error.field,
            "retryable": error.retryable,
        }
    }


def _stage(stage: StageReport) -> Document:
    return {
        "name": stage.name,
        "status": stage.status,
        "duration_ms": milliseconds(stage.duration_s),
        "findings": [_finding(finding) for finding in stage.findings],
    }


def _finding(finding: Finding) -> Document:
    return {
        "rule": finding.rule,
        "category": finding.category,
        "severity": finding.severity,
        "message": finding.message,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "snippet": finding.snippet,
        "suggestion": finding.suggestion,
        "layer": finding.layer,
    }


def _fix_hint(hint: FixHint) -> Document:
    return {
        "category": hint.category,
        "message": hint.message,
        "context": hint.context,
        "suggestion": hint.suggestion,
        "file": hint.file,
        "line": hint.line,
        "rule": hint.rule,
        "edit": hint.edit and _edit(hint.edit),
    }


def _edit(edit: Edit) -> Document:
    return {"start_line": edit.start_line, "end_line": edit.end_line, "replacement": edit.replacement}


def _runtime_results(cases: Sequence[Case]) -> Document:
    count = Counter(case.status for case in cases)
    return {
        "total": len(cases),
        "passed": count[CaseStatus.PASSED],
        "failed": count[CaseStatus.FAILED],
        "errored": count[CaseStatus.ERROR],
        "skipped": count[CaseStatus.SKIPPED],
        "cases": [_case(case) for case in cases],
    }


def _case(case: Case) -> Document:
    return {
        "name": case.name,
        "status": case.status,
        "cause": case.cause,
        "result": case.result,
        "error_type": case.error_type,
        "message": case.message,
        "traceback": case.traceback,
        "file": case.file,
        "line": case.line,
        "stdout": case.stdout,
        "stderr": case.stderr,
        "duration_ms": milliseconds(case.duration_s),
        "exit_code": case.exit_code,
    }
