"""Documents of attempts, of their artifacts and events, and of counts of attempts by result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from assayd.documents.base import (
    BaseDocument,
    Timestamp,
    format_time,
    serialize_compact,
    serialize_with_raw_members,
    to_milliseconds,
)
from assayd.documents.execution import ExecutionDocument, ReplayDiffDocument
from assayd.documents.reports import ReportDocument
from assayd.errors import RequestError
from assayd.model.attempt import Artifact, Attempt, Failure, State
from assayd.model.policy import Enforcement
from assayd.model.records import AttemptEvent, Summary
from assayd.model.report import StageReport, Verdict
from assayd.model.run import Unit
from assayd.model.submission import Peer


class TimingsDocument(BaseDocument):
    """Durations of phases in milliseconds, or null for phases that didn't happen."""

    queued: float | None = Field(description="From accepted to started.")
    static: float | None = Field(description="Static stages.")
    lease: float | None = Field(description="Waiting for a container.")
    run: float | None = Field(description="Units in the container.")
    report: float | None = Field(description="Judging and writing the bundle.")
    total: float | None = Field(description="From accepted to the verdict.")


class AttemptDocument(BaseDocument):
    """One submission, from acceptance to its verdict."""

    id: str = Field(description="ULID.")
    kind: str = Field(description="Kind of the submission.")
    policy: str = Field(description="Profile name.")
    state: State = Field(description="State of the attempt.")
    verdict: Verdict | None = Field(description="Result; null until finished.")
    created_at: Timestamp = Field(description="When it was accepted.")
    started_at: Timestamp | None = Field(description="When it left the queue.")
    finished_at: Timestamp | None = Field(description="When it got its verdict.")
    peer: Peer = Field(description="The submitter.")
    batch_id: str | None = Field(description="The batch that it belongs to.")
    parent_id: str | None = Field(description="The attempt that it follows.")
    replay_of: str | None = Field(description="The attempt that it repeats.")
    intent: str | None = Field(None, description="The purpose in words; in lists its beginning.")
    webhook: str | None = Field(None, description="The URL that receives the verdict.")
    attempt_number: int = Field(description="Its place in a chain of repairs, from 1.")
    run_number: int = Field(description="Number of runs; a second one only after an internal error.")
    labels: dict[str, str] = Field(description="Labels of the submission.")
    input_digest: str = Field(description="SHA-256 of kind and payload.")
    timings_ms: TimingsDocument = Field(description="Duration of each step.")
    warm: bool | None = Field(
        description="Whether its container was started in advance; null without a container."
    )
    cause: str | None = Field(description="How its run ended; null if nothing ran.")
    rules: list[str] = Field(description="The rules of its errors, each once; the first 50.")
    enforcement: Enforcement | None = Field(
        None, description="Whether its profile enforced or only reported its rules; null until finished."
    )
    approvable: bool = Field(
        True,
        description="False: node distrusted, report-only without `approve_reported`, or checks skipped.",
    )
    node: str | None = Field(None, description="The cluster's node that judged it; null on a single host.")
    distrusted_at: Timestamp | None = Field(
        None, description="When an operator distrusted that node's verdicts; null otherwise."
    )
    report: ReportDocument | None = Field(description="The report of a finished attempt; omitted in lists.")
    execution: ExecutionDocument | None = Field(description="Record of the run; null if nothing ran.")
    replay_diff: ReplayDiffDocument | None = Field(
        description="Differences of a replay; null for other attempts, and if the original is gone."
    )
    bundle: str | None = Field(description="Folder of its files, below the artifact root.")
    bundle_path: str | None = Field(
        default=None,
        description="That folder on the daemon's host, readable by its user; null in lists.",
    )
    artifacts: list[Artifact] = Field(description="Its files.")
    error: Failure | None = Field(description="The internal error, with verdict `error`.")


class AttemptPageDocument(BaseDocument):
    """A page of attempts, with the newest first."""

    attempts: list[AttemptDocument] = Field(description="The attempts, without reports.")
    next_cursor: str | None = Field(description="Start of the next page; null on the last page.")


class ArtifactListDocument(BaseDocument):
    """The files of a bundle."""

    artifacts: list[Artifact] = Field(description="The files.")


def build_attempt_document(
    attempt: Attempt,
    *,
    report: ReportDocument | None = None,
    execution: ExecutionDocument | None = None,
    replay_diff: ReplayDiffDocument | None = None,
    bundle_path: str | None = None,
) -> AttemptDocument:
    """Return the document of an attempt.

    Args:
        attempt: the attempt.
        report: the report in its bundle, if any.
        execution: the execution record, if a container ran.
        replay_diff: the differences of a replay from its original.
        bundle_path: the folder of its bundle, if known.
    """
    times = attempt.timings_s
    return AttemptDocument.from_value(
        attempt,
        labels=dict(attempt.labels),
        timings_ms=TimingsDocument.from_value(
            times,
            **{
                name: to_milliseconds(times[name]) if name in times else None
                for name in TimingsDocument.model_fields
            },
        ),
        report=report,
        execution=execution,
        replay_diff=replay_diff,
        bundle_path=bundle_path,
        artifacts=list(attempt.artifacts),
    )


def serialize_attempt(
    attempt: Attempt,
    *,
    report: bytes = b"null",
    execution: bytes = b"null",
    replay_diff: Mapping[str, object] | None = None,
    bundle_path: str | None = None,
) -> bytes:
    """Return an attempt as JSON text.

    The embedded documents are passed as JSON text, because they may be large.
    """
    written = {"report": report, "execution": execution, "replay_diff": serialize_compact(replay_diff)}
    return serialize_with_raw_members(build_attempt_document(attempt, bundle_path=bundle_path), written)


class SummaryBucketDocument(BaseDocument):
    """The attempts that were created in one time bucket."""

    at: Timestamp = Field(description="When the span begins.")
    verdicts: dict[str, int] = Field(description="Number of attempts by verdict.")


class SlowestDocument(BaseDocument):
    """One of the attempts with the longest duration."""

    attempt_id: str = Field(description="The attempt.")
    kind: str = Field(description="Its kind.")
    verdict: str = Field(description="Result.")
    duration_ms: float = Field(description="From start to verdict, without the time in the queue.")


class SummaryDocument(BaseDocument):
    """Counts of the finished attempts that match a query."""

    total: int = Field(description="Number of attempts.")
    verdicts: dict[str, int] = Field(description="By verdict.")
    causes: dict[str, int] = Field(description="By cause; attempts that didn't run have none.")
    kinds: dict[str, int] = Field(description="By kind.")
    rules: dict[str, int] = Field(
        description="Attempts by rule of their errors: the 100 most frequent rules, most frequent first."
    )
    bucket_s: int = Field(description="Length of each time span.")
    buckets: list[SummaryBucketDocument] = Field(
        description="By time, oldest first; empty spans are omitted."
    )
    slowest: list[SlowestDocument] = Field(description="The ten slowest attempts.")


def build_summary_document(summary: Summary, bucket_s: int) -> SummaryDocument:
    """Return the document of a summary."""
    totals: dict[str, Counter[str]] = {name: Counter() for name in ("verdict", "cause", "kind")}
    spans: dict[str, Counter[str]] = defaultdict(Counter)
    for count in summary.counts:
        spans[format_time(count.at)][count.verdict] += count.number
        for name, counter in totals.items():
            if (value := getattr(count, name)) is not None:
                counter[value] += count.number
    return SummaryDocument.model_construct(
        total=sum(count.number for count in summary.counts),
        verdicts=dict(totals["verdict"].most_common()),
        causes=dict(totals["cause"].most_common()),
        kinds=dict(totals["kind"].most_common()),
        rules=dict(summary.rules),
        bucket_s=bucket_s,
        buckets=[
            SummaryBucketDocument.model_construct(at=at, verdicts=dict(counts))
            for at, counts in sorted(spans.items())
        ],
        slowest=[
            SlowestDocument.from_value(each, duration_ms=to_milliseconds(each.took_s))
            for each in summary.slowest
        ],
    )


_EVENT_ID_DIGITS = 18


class EventDocument(BaseDocument):
    """One event of an attempt. The members of `body` depend on the event's kind.

    - state: state
    - stage: name, status, duration_ms, findings (their number)
    - unit: name, index (from 1), total, status (``started``, then its cause), duration_ms
    - stdout, stderr: unit, text
    - finished: verdict, cause
    - gap: missed (the number of lost events; null if unknown)
    """

    id: str = Field(description="Id of the event, for `Last-Event-ID`.")
    attempt_id: str = Field(description="The attempt.")
    run_number: int = Field(description="Number of the run.")
    seq: int = Field(description="Its place in that run, from 1.")
    kind: str = Field(description="Kind of the event.")
    at: Timestamp = Field(description="When.")
    body: dict[str, Any] = Field(description="Details; their keys depend on the kind.")


def build_event_document(event: AttemptEvent, place: str | None = None) -> EventDocument:
    """Return the document of an event. In a stream of several attempts, `place` is its id."""
    return EventDocument.from_value(event, id=place or format_event_id(event))


def format_event_id(event: AttemptEvent) -> str:
    """Return an event's id, which a stream sends and a client returns in `Last-Event-ID`."""
    return f"{event.run_number}.{event.seq}"


def parse_event_id(text: str) -> tuple[int, int]:
    """Parse an event id into its run number and sequence number.

    Raises:
        RequestError: ``invalid``, if `format_event_id` can't have produced the text.
    """
    run, dot, seq = text.partition(".")
    if not (dot and all(n.isascii() and n.isdigit() and len(n) <= _EVENT_ID_DIGITS for n in (run, seq))):
        raise RequestError("invalid", "Last-Event-ID isn't an id of this stream", field="Last-Event-ID")
    return int(run), int(seq)


def build_state_body(state: State) -> dict[str, object]:
    """Return the event body for a change of state."""
    return {"state": state.value}


def build_stage_body(stage: StageReport) -> dict[str, object]:
    """Return the event body for the end of a stage."""
    return {
        "name": stage.name,
        "status": stage.status.value,
        "duration_ms": to_milliseconds(stage.duration_s),
        "findings": len(stage.findings),
    }


def build_unit_body(
    units: tuple[Unit, ...], index: int, status: str, duration_s: float = 0.0
) -> dict[str, object]:
    """Return the event body for the start of a unit, or for its end with the cause."""
    return {
        "name": units[index].name,
        "index": index + 1,
        "total": len(units),
        "status": status,
        "duration_ms": to_milliseconds(duration_s),
    }


def build_output_body(unit: Unit, data: bytes) -> dict[str, object]:
    """Return the event body for a piece of output."""
    return {"unit": unit.name, "text": data.decode("utf-8", "replace")}


def build_finished_body(attempt: Attempt) -> dict[str, object]:
    """Return the event body for the verdict."""
    return {"verdict": attempt.verdict.value if attempt.verdict else None, "cause": attempt.cause}
