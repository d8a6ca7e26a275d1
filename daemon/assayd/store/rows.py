"""Converts table rows to model values, and model values to table rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from assayd.model.attempt import Artifact, Attempt, Failure, State, compute_disk_bytes
from assayd.model.policy import Enforcement
from assayd.model.records import AttemptEvent, AttemptRun
from assayd.model.report import Verdict
from assayd.model.submission import Peer

Values = dict[str, object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ARTIFACT = tuple(field.name for field in fields(Artifact))
_MICROSECOND = timedelta(microseconds=1)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def to_micros(moment: datetime) -> int:
    """Return a time as an integer, in microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the time that corresponds to a value of `to_micros`."""
    return _EPOCH + value * _MICROSECOND


def build_attempt_values(attempt: Attempt, submission: str, key: str | None) -> Values:
    """Return a new attempt's row as a mapping of columns to values; `submission` is a digest."""
    return {
        "id": attempt.id,
        "submission": submission,
        "kind": attempt.kind,
        "policy": attempt.policy,
        "input_digest": attempt.input_digest,
        "created_at": to_micros(attempt.created_at),
        "uid": attempt.peer.uid,
        "gid": attempt.peer.gid,
        "pid": attempt.peer.pid,
        "batch_id": attempt.batch_id,
        "parent_id": attempt.parent_id,
        "attempt_number": attempt.attempt_number,
        "labels": _dump_json(dict(attempt.labels)),
        "idempotency_key": key,
        "replay_of": attempt.replay_of,
        "intent": attempt.intent,
        "webhook": attempt.webhook,
        "max_runs": attempt.max_runs,
        "trace": attempt.trace,
    }


def build_verdict_values(attempt: Attempt) -> Values:
    """Return a verdict's row as a mapping of columns to values."""
    assert attempt.verdict is not None, "only a finished attempt has a verdict"  # noqa: S101 - a caller's bug
    return {
        "attempt_id": attempt.id,
        "run_number": attempt.run_number,
        "verdict": attempt.verdict.value,
        "cause": attempt.cause,
        "started_at": to_micros(attempt.started_at) if attempt.started_at else None,
        "finished_at": to_micros(attempt.finished_at) if attempt.finished_at else None,
        "timings": _dump_json(dict(attempt.timings_s)),
        "warm": None if attempt.warm is None else int(attempt.warm),
        "bundle": attempt.bundle,
        "artifacts": _dump_json(
            [{name: getattr(artifact, name) for name in _ARTIFACT} for artifact in attempt.artifacts]
        ),
        "error_code": attempt.error.code if attempt.error else None,
        "error_message": attempt.error.message if attempt.error else None,
        "rules": _dump_json(list(attempt.rules)),
        "enforcement": attempt.enforcement.value if attempt.enforcement else None,
        "approvable": int(attempt.approvable),
        "disk_bytes": compute_disk_bytes(attempt.artifacts),
        "distrusted_at": to_micros(attempt.distrusted_at) if attempt.distrusted_at else None,
    }


def build_run_values(run: AttemptRun) -> Values:
    """Return a run's row as a mapping of columns to values."""
    return {
        "attempt_id": run.attempt_id,
        "run_number": run.run_number,
        "daemon_id": run.daemon_id,
        "generation": run.generation,
        "container_ulid": run.container_ulid,
        "leased_at": to_micros(run.leased_at),
        "expires_at": to_micros(run.expires_at),
    }


def build_event_values(event: AttemptEvent) -> Values:
    """Return an event's row as a mapping of columns to values, with the body as JSON."""
    return {
        "attempt_id": event.attempt_id,
        "run_number": event.run_number,
        "seq": event.seq,
        "kind": event.kind,
        "at": to_micros(event.at),
        "body": _dump_json(event.body),
    }


def read_event(row: Mapping[Any, Any]) -> AttemptEvent:
    """Return the event that a row, or a result of `build_event_values`, represents."""
    return AttemptEvent(
        attempt_id=row["attempt_id"],
        run_number=row["run_number"],
        seq=row["seq"],
        kind=row["kind"],
        at=from_micros(row["at"]),
        body=json.loads(row["body"]),
    )


def read_attempt(row: Mapping[Any, Any]) -> Attempt:
    """Return the attempt from a row that is joined with its verdict, if any, and its number of runs.

    The states between `accepted` and `finished` aren't stored, so a leased attempt is returned as running.
    """
    finished = row["verdict"] is not None
    unfinished_state = State.RUNNING if row["runs"] else State.QUEUED
    attempt = Attempt(
        id=row["id"],
        kind=row["kind"],
        policy=row["policy"],
        input_digest=row["input_digest"],
        created_at=from_micros(row["created_at"]),
        peer=Peer(uid=row["uid"], gid=row["gid"], pid=row["pid"]),
        state=State.FINISHED if finished else unfinished_state,
        batch_id=row["batch_id"],
        parent_id=row["parent_id"],
        intent=row["intent"],
        webhook=row["webhook"],
        trace=row["trace"],
        replay_of=row["replay_of"],
        attempt_number=row["attempt_number"],
        run_number=row["verdict_run"] if finished else row["runs"],
        labels=json.loads(row["labels"]),
        max_runs=row["max_runs"],
    )
    return _add_verdict(attempt, row) if finished else attempt


def _add_verdict(attempt: Attempt, row: Mapping[Any, Any]) -> Attempt:
    code = row["error_code"]
    return replace(
        attempt,
        verdict=Verdict(row["verdict"]),
        cause=row["cause"],
        rules=tuple(json.loads(row["rules"])),
        enforcement=Enforcement(row["enforcement"]) if row["enforcement"] else None,
        approvable=bool(row["approvable"]) and row["distrusted_at"] is None,
        started_at=read_moment(row["started_at"]),
        finished_at=read_moment(row["finished_at"]),
        timings_s=json.loads(row["timings"]),
        warm=None if row["warm"] is None else bool(row["warm"]),
        bundle=row["bundle"],
        artifacts=tuple(Artifact(**artifact) for artifact in json.loads(row["artifacts"])),
        node=row["node"],
        distrusted_at=read_moment(row["distrusted_at"]),
        error=None if code is None else Failure(code=code, message=row["error_message"]),
    )


def read_moment(value: object) -> datetime | None:
    """Return a column's microseconds since 1970 as a UTC time, or None for NULL."""
    return None if value is None else from_micros(cast("int", value))


def _dump_json(value: Mapping[str, object] | list[Values] | list[str]) -> str:
    return _ENCODER.encode(value)
