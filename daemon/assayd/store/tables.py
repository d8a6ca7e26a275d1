"""Defines the tables of the database, and converts their rows to model values and back.

SQLite and PostgreSQL both support the column types. Times are stored as microseconds since 1970 (UTC). JSON
is stored as text, so that both databases return it unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator

from assayd.model.attempt import Artifact, Attempt, Failure, State, compute_disk_bytes
from assayd.model.policy import Enforcement
from assayd.model.records import AttemptEvent, AttemptRun
from assayd.model.report import Verdict
from assayd.model.submission import Peer

_ESCAPE_CHAR = "\x1a"

_ESCAPE_PATTERN = re.compile(f"{_ESCAPE_CHAR}(.)", re.DOTALL)

_ESCAPE_TABLE = str.maketrans({"\0": f"{_ESCAPE_CHAR}0", _ESCAPE_CHAR: f"{_ESCAPE_CHAR}1"})


def encode_text(text: str) -> str:
    """Encode a string for storage or comparison on a server by replacing NUL with two other characters.

    A string without NUL and without the escape character is returned unchanged.
    """
    return text.translate(_ESCAPE_TABLE) if "\0" in text or _ESCAPE_CHAR in text else text


def decode_text(text: str) -> str:
    """Decode a string that was encoded by `encode_text`."""
    if _ESCAPE_CHAR not in text:
        return text
    return _ESCAPE_PATTERN.sub(lambda found: "\0" if found[1] == "0" else _ESCAPE_CHAR, text)


class ExactText(TypeDecorator[str]):
    """A column for strings with any characters, encoded by `encode_text` and decoded by `decode_text`."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Decode a string that was read from a server. Return NULL, and strings from SQLite, unchanged."""
        return value if value is None or dialect.name == "sqlite" else decode_text(value)


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

submissions = Table(
    "submissions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("document", LargeBinary, nullable=False),
)
"""Submissions, once per content; `digest` is the SHA-256 of the document."""

attempts = Table(
    "attempts",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("submission", String(64), ForeignKey("submissions.digest"), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("policy", String(64), nullable=False),
    Column("input_digest", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("gid", BigInteger, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("batch_id", String(64)),
    Column("parent_id", String(26)),
    Column("attempt_number", Integer, nullable=False),
    Column("labels", Text, nullable=False),
    Column("idempotency_key", String(255)),
    Column("replay_of", String(26)),
    Column("intent", ExactText),
    Column("webhook", Text),
    Column("trace", Text),
    Column("max_runs", Integer),
    UniqueConstraint("uid", "idempotency_key"),
    Index(None, "submission"),
    Index(None, "created_at", "id"),
    Index("ix_attempts_uid", "uid", "created_at", "id"),
    Index("ix_attempts_batch_id", "batch_id", "created_at", "id"),
)
"""Accepted attempts; their results are in `runs` and `verdicts`."""

labels = Table(
    "labels",
    metadata,
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("value", String(128), nullable=False),
    Index("ix_labels_name", "name", "value", "attempt_id"),
)
"""The labels of `attempts` again, for searches."""

runs = Table(
    "runs",
    metadata,
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("run_number", Integer, primary_key=True),
    Column("daemon_id", String(64), nullable=False),
    Column("generation", String(64), nullable=False),
    Column("container_ulid", String(26), nullable=False),
    Column("leased_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    CheckConstraint("run_number BETWEEN 1 AND 2", name="run_number"),
    Index("ix_runs_daemon_id", "daemon_id", "leased_at"),
)
"""The container of each run, recorded before any submitted code enters it."""

verdicts = Table(
    "verdicts",
    metadata,
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("run_number", Integer, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("cause", String(32)),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("timings", Text, nullable=False),
    Column("warm", Integer),
    Column("bundle", Text),
    Column("artifacts", Text, nullable=False),
    Column("error_code", String(64)),
    Column("error_message", ExactText),
    Column("rules", Text, nullable=False, server_default="[]"),
    Column("enforcement", String(16)),
    Column("approvable", Integer, nullable=False, server_default="1"),
    Column("disk_bytes", BigInteger, nullable=False, server_default="0"),
    Column("distrusted_at", BigInteger),
)
"""The verdict of each attempt. The attempt is the primary key: one verdict, regardless of the run."""

repairs = Table(
    "repairs",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("provider", String(64), nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("first_fingerprint", String(64)),
    Column("first_digest", String(64)),
    Column("first_cause", String(32)),
    Column("hint", ExactText),
    Column("outcome", String(32)),
    Column("detail", ExactText),
    Column("fallback", Text),
    Column("granted_by", BigInteger),
    Column("generation_id", String(26)),
    Index(None, "attempt_id"),
    Index("ix_repairs_uid", "uid", "started_at", "id"),
)
"""Repairs of failed attempts; `fallback` is JSON."""

repair_fixes = Table(
    "repair_fixes",
    metadata,
    Column("repair_id", String(26), ForeignKey("repairs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("strategy", String(16), nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("error", ExactText, nullable=False),
    Column("reason", ExactText, nullable=False),
    Column("passage", ExactText, nullable=False),
    Column("patched_code", ExactText, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("duplicate", Integer, nullable=False),
    Column("attempt_id", String(26)),
    Column("verdict", String(16)),
    Column("cause", String(32)),
    Column("fingerprint", String(64)),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("took_s", Float, nullable=False),
    Column("problem", ExactText),
    Column("form", String(16), nullable=False, server_default="code"),
)
"""One row per fix: the failure, the change with its reason, and the result."""

repair_steps = Table(
    "repair_steps",
    metadata,
    Column("repair_id", String(26), ForeignKey("repairs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("provider", String(64), nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("system", ExactText, nullable=False),
    Column("user", ExactText, nullable=False),
    Column("answer", ExactText, nullable=False),
    Column("reply", Text, nullable=False),
)
"""Raw answers of providers with their prompts; `reply` is the parsed answer as JSON."""

generations = Table(
    "generations",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("gid", BigInteger, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("provider", String(64), nullable=False),
    Column("policy", String(64), nullable=False),
    Column("intent", ExactText, nullable=False),
    Column("context", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("grants", Text, nullable=False),
    Column("drafts", Text, nullable=False),
    Column("attempt_id", String(26)),
    Column("outcome", String(32)),
    Column("detail", ExactText),
    Column("webhook", Text),
    Index("ix_generations_uid", "uid", "started_at", "id"),
)
"""Generations; `context`, `labels`, `grants` and `drafts` are JSON."""

generation_steps = Table(
    "generation_steps",
    metadata,
    Column("generation_id", String(26), ForeignKey("generations.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("provider", String(64), nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("system", ExactText, nullable=False),
    Column("user", ExactText, nullable=False),
    Column("answer", ExactText, nullable=False),
    Column("reply", Text, nullable=False),
)
"""The steps of generations, with the columns of `repair_steps`."""

library_entries = Table(
    "library_entries",
    metadata,
    Column("uid", BigInteger, primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("attempt_id", String(26), ForeignKey("attempts.id"), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("intent", ExactText),
    Column("chain", Text, nullable=False),
    Column("approved_by", BigInteger, nullable=False),
    Column("approved_at", BigInteger, nullable=False),
    Column("bundle", Text),
    Index(None, "attempt_id"),
)
"""Approved attempts. Attempt and bundle are kept as long as the entry. `chain` is JSON."""

events = Table(
    "events",
    metadata,
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("run_number", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
"""Events of attempts, without output."""

batches = Table(
    "batches",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("gid", BigInteger, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("dedupe", Integer, nullable=False),
    Column("complete", Integer, nullable=False),
    Column("cancelled_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("webhook", Text),
    UniqueConstraint("uid", "name"),
    Index(None, "created_at", "id"),
)
"""Batches; their items are in `batch_items`."""

batch_items = Table(
    "batch_items",
    metadata,
    Column("batch_id", String(26), ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True),
    Column("line", Integer, primary_key=True),
    Column("input_digest", String(64), primary_key=True),
    Column("submission", String(64), ForeignKey("submissions.digest")),
    Column("attempt_id", String(26)),
    Column("run_key", String(64)),
    Column("present", Integer, nullable=False),
    Column("error_code", String(64)),
    Column("error_message", ExactText),
    Index(None, "submission"),
    Index(None, "attempt_id"),
    Index("ix_batch_items_run_key", "batch_id", "run_key"),
)
"""The lines of batches. `attempt_id` is chosen with the line, before the attempt exists."""

workflows = Table(
    "workflows",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("gid", BigInteger, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("repair", Text),
    Column("resumes", String(26)),
    Column("verdict", String(16)),
    Column("detail", ExactText),
    Column("cancelled_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("outline", Text, nullable=False),
    Column("findings", Text, nullable=False),
    Column("document", ExactText, nullable=False),
    Column("inputs", Text, nullable=False),
    Column("plan", Text),
    Index("ix_workflows_uid", "uid", "id"),
)
"""Workflows; `inputs`, `plan`, `outline`, `findings` and `repair` are JSON.

`plan` lacks the values that are in `inputs`; `outline` is the part of it that lists show. `bytes` is the size
of these columns. Large ones are last: SQLite reads a row from its beginning.
"""

workflow_nodes = Table(
    "workflow_nodes",
    metadata,
    Column("workflow_id", String(26), ForeignKey("workflows.id", ondelete="CASCADE"), primary_key=True),
    Column("node", String(64), primary_key=True),
    Column("attempt_id", String(26), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reused", Integer, nullable=False),
    Column("input_digest", String(64)),
    Column("repair_id", String(26)),
    Column("detail", ExactText),
    Column("finished_at", BigInteger),
)
"""The nodes of workflows. `attempt_id` exists before there is such an attempt."""

webhook_messages = Table(
    "webhook_messages",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("origin", String(320), nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("next_try_at", BigInteger, nullable=False),
    Index("ix_webhook_messages_uid", "uid", "origin", "next_try_at"),
    Index(None, "next_try_at"),
)
"""Webhook messages that wait for delivery. A row outlives its attempt and is deleted after delivery."""

Values = dict[str, object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ARTIFACT_FIELDS = tuple(field.name for field in fields(Artifact))
_MICROSECOND = timedelta(microseconds=1)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def to_micros(moment: datetime) -> int:
    """Return a time as an integer, in microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the time that corresponds to a value of `to_micros`."""
    return _EPOCH + value * _MICROSECOND


def build_attempt_values(attempt: Attempt, submission: str, key: str | None) -> Values:
    """Return a new attempt's row as a mapping of columns to values. `submission` is a digest."""
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
            [{name: getattr(artifact, name) for name in _ARTIFACT_FIELDS} for artifact in attempt.artifacts]
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

    The states between `queued` and `finished` aren't stored, so a leased attempt is returned as running.
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
        started_at=read_optional_time(row["started_at"]),
        finished_at=read_optional_time(row["finished_at"]),
        timings_s=json.loads(row["timings"]),
        warm=None if row["warm"] is None else bool(row["warm"]),
        bundle=row["bundle"],
        artifacts=tuple(Artifact(**artifact) for artifact in json.loads(row["artifacts"])),
        node=row["node"],
        distrusted_at=read_optional_time(row["distrusted_at"]),
        error=None if code is None else Failure(code=code, message=row["error_message"]),
    )


def read_optional_time(value: object) -> datetime | None:
    """Return a column's microseconds since 1970 as a UTC time, or None for NULL."""
    return None if value is None else from_micros(cast("int", value))


def _dump_json(value: Mapping[str, object] | list[Values] | list[str]) -> str:
    return _ENCODER.encode(value)
