"""Stores pipelines, and records in their attempts' transactions which steps ran.

Defines the tables and values of stored pipelines, and reads them.

The revisions in `store/migrations` create and change the tables. Source: docs/kinds/pipeline.md.

Records pipelines: their steps, their status, and a row for each executed step.

A pipeline's id is the id of its first attempt. An attempt belongs to the pipeline with its `pipeline_id`,
or if it has none, to its parent's pipeline (e.g. the fix of a repair). The attempt's steps replace the
pipeline's steps. Source: docs/kinds/pipeline.md.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.records import AttemptEvent, AttemptRun
from assayd.model.report import Case, CaseStatus, Verdict
from assayd.model.submission import Submission
from assayd.store.access import DatabaseAccess
from assayd.store.tables import ExactText, attempts, from_micros, metadata, to_micros, verdicts
from assayd_pipeline.judging import format_step_label

pipelines = Table(
    "pipelines",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_pipelines_uid", "uid", "id"),
)
"""Submitted pipelines, each stored as long as one of its attempts exists."""

pipeline_steps = Table(
    "pipeline_steps",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("pipeline_id", String(26), ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", String(64), nullable=False),
    Column("type", String(8), nullable=False),
    Column("content", ExactText, nullable=False),
    UniqueConstraint("pipeline_id", "position"),
)
"""The steps of each pipeline, as last submitted or repaired."""

pipeline_attempts = Table(
    "pipeline_attempts",
    metadata,
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True),
    Column("pipeline_id", String(26), ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    Index(None, "pipeline_id"),
)
"""The attempts of each pipeline."""

execution_logs = Table(
    "execution_logs",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("pipeline_id", String(26), ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    Column("step_id", Integer, ForeignKey("pipeline_steps.id", ondelete="SET NULL")),
    Column("attempt_id", String(26), ForeignKey("attempts.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", String(64), nullable=False),
    Column("run_time", BigInteger),
    Column("is_successful", Integer, nullable=False),
    Column("stdout", ExactText, nullable=False),
    Column("stderr", ExactText, nullable=False),
    Column("exit_code", Integer),
    Column("execution_time_ms", BigInteger, nullable=False),
    UniqueConstraint("attempt_id", "position"),
    Index(None, "pipeline_id"),
    Index(None, "step_id"),
)
"""A row per step that ran, written with its attempt's verdict."""


class PipelineStatus(StrEnum):
    """The status of a pipeline, which depends on its last attempt."""

    CREATED = "created"
    """No attempt of the pipeline has started."""
    RUNNING = "running"
    """An attempt of the pipeline is running."""
    SUCCESS = "success"
    """All steps ended with exit code 0."""
    FAILED = "failed"
    """A step failed, a stage rejected it, or the attempt had an error; the verdict specifies which."""
    REPAIRED = "repaired"
    """An attempt after a failed one succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStep:
    """One stored step. `position` is its 1-based position in the pipeline."""

    id: int
    position: int
    name: str
    type: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """A step that was run or rejected.

    `run_time` is the time of the start, or None if the step was rejected. `exit_code` is None if the step was
    killed or rejected.
    """

    pipeline_id: str
    step_id: int | None
    attempt_id: str
    position: int
    name: str
    run_time: datetime | None
    is_successful: bool
    stdout: str
    stderr: str
    exit_code: int | None
    execution_time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineAttempt:
    """One attempt of a pipeline, with the steps that it ran in their order."""

    attempt_id: str
    verdict: str | None
    created_at: datetime
    parent_id: str | None
    steps: tuple[StepRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPipeline:
    """A pipeline. `id` is the id of the pipeline's first attempt, and `uid` is the owner."""

    id: str
    uid: int
    status: PipelineStatus
    created_at: datetime
    updated_at: datetime
    steps: tuple[PipelineStep, ...] = ()
    attempts: tuple[PipelineAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineQuery:
    """The filters of a listing, where None matches any value. `before` is the previous page's last id."""

    uid: int | None = None
    status: PipelineStatus | None = None
    attempt_id: str | None = None
    before: str | None = None
    limit: int = 50


class PipelineStore(Protocol):
    """The interface of a store of pipelines. Raises: StoreError."""

    async def get(self, pipeline_id: str) -> StoredPipeline | None:
        """Return a pipeline with its steps and attempts (newest first), or None if it doesn't exist."""
        ...

    async def list(self, query: PipelineQuery) -> Sequence[StoredPipeline]:
        """Return pipelines without steps and attempts, newest first."""
        ...


ROOT = 0


class PipelineReader:
    """A reader that implements `PipelineStore` and the recorder's `SubmissionCompleter` and `GroupFinder`."""

    def __init__(self, reader: DatabaseAccess) -> None:
        self._reader = reader

    async def get(self, pipeline_id: str) -> StoredPipeline | None:
        """Return a pipeline with its steps and attempts (newest first), or None if it doesn't exist."""
        return await self._reader.read(lambda connection: _fetch_pipeline(connection, pipeline_id))

    async def list(self, query: PipelineQuery) -> Sequence[StoredPipeline]:
        """Return pipelines without steps and attempts, newest first."""
        return await self._reader.read(lambda connection: _list_pipelines(connection, query))

    async def find_groups(self, attempt_id: str) -> Mapping[str, str]:
        """Return an attempt's pipeline as ``{"pipeline_id": ID}``, or {} if it belongs to no pipeline."""
        found = await self.list(PipelineQuery(attempt_id=attempt_id, limit=1))
        return {"pipeline_id": found[0].id} if found else {}

    async def complete(
        self, submission: Submission, uid: int, *, from_gateway: bool = False
    ) -> Mapping[str, object] | None:
        """Return the steps of the referenced pipeline, or None if the payload has steps or names no pipeline.

        A node's daemon doesn't have the pipelines of its gateway, so it accepts an unknown pipeline with
        steps from the gateway.

        Raises: RequestError ``pipeline.unknown``, also for another user's pipeline.
        """
        pipeline_id = getattr(submission.payload, "pipeline_id", None)
        if pipeline_id is None:
            return None
        stored = await self.get(pipeline_id)
        has_steps = bool(getattr(submission.payload, "steps", ()))
        if stored is None and has_steps and from_gateway:
            return None
        if stored is None or uid not in {stored.uid, ROOT}:
            message = f"pipeline {pipeline_id} doesn't exist"
            raise RequestError("pipeline.unknown", message, field="payload.pipeline_id")
        if has_steps:
            return None
        steps = [{"name": step.name, "type": step.type, "content": step.content} for step in stored.steps]
        return {"steps": steps}


def _fetch_pipeline(connection: Connection, pipeline_id: str) -> StoredPipeline | None:
    row = connection.execute(select(pipelines).where(pipelines.c.id == pipeline_id)).mappings().first()
    if row is None:
        return None
    steps = connection.execute(
        select(pipeline_steps)
        .where(pipeline_steps.c.pipeline_id == pipeline_id)
        .order_by(pipeline_steps.c.position)
    ).mappings()
    return _build_pipeline(
        row, steps=tuple(map(_build_step, steps)), attempts=tuple(_fetch_attempts(connection, pipeline_id))
    )


def _list_pipelines(connection: Connection, query: PipelineQuery) -> tuple[StoredPipeline, ...]:
    statement = select(pipelines).order_by(pipelines.c.id.desc()).limit(query.limit)
    if query.uid is not None:
        statement = statement.where(pipelines.c.uid == query.uid)
    if query.status is not None:
        statement = statement.where(pipelines.c.status == query.status.value)
    if query.before is not None:
        statement = statement.where(pipelines.c.id < query.before)
    if query.attempt_id is not None:
        of_attempt = select(pipeline_attempts.c.pipeline_id).where(
            pipeline_attempts.c.attempt_id == query.attempt_id
        )
        statement = statement.where(pipelines.c.id.in_(of_attempt))
    return tuple(_build_pipeline(row) for row in connection.execute(statement).mappings())


def _fetch_attempts(connection: Connection, pipeline_id: str) -> Sequence[PipelineAttempt]:
    logs: dict[str, list[StepRun]] = defaultdict(list)
    wanted = select(execution_logs).where(execution_logs.c.pipeline_id == pipeline_id)
    for row in connection.execute(wanted.order_by(execution_logs.c.position)).mappings():
        logs[row["attempt_id"]].append(_build_step_run(row))
    found = connection.execute(
        select(attempts.c.id, attempts.c.created_at, attempts.c.parent_id, verdicts.c.verdict)
        .select_from(
            pipeline_attempts.join(attempts, attempts.c.id == pipeline_attempts.c.attempt_id).outerjoin(
                verdicts, verdicts.c.attempt_id == attempts.c.id
            )
        )
        .where(pipeline_attempts.c.pipeline_id == pipeline_id)
        .order_by(attempts.c.created_at.desc(), attempts.c.id.desc())
    ).mappings()
    return [
        PipelineAttempt(
            attempt_id=row["id"],
            verdict=row["verdict"],
            created_at=from_micros(row["created_at"]),
            parent_id=row["parent_id"],
            steps=tuple(logs[row["id"]]),
        )
        for row in found
    ]


def _build_pipeline(
    row: RowMapping, steps: tuple[PipelineStep, ...] = (), attempts: tuple[PipelineAttempt, ...] = ()
) -> StoredPipeline:
    return StoredPipeline(
        id=row["id"],
        uid=row["uid"],
        status=PipelineStatus(row["status"]),
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        steps=steps,
        attempts=attempts,
    )


def _build_step(row: RowMapping) -> PipelineStep:
    return PipelineStep(
        id=row["id"], position=row["position"], name=row["name"], type=row["type"], content=row["content"]
    )


def _build_step_run(row: RowMapping) -> StepRun:
    return StepRun(
        pipeline_id=row["pipeline_id"],
        step_id=row["step_id"],
        attempt_id=row["attempt_id"],
        position=row["position"],
        name=row["name"],
        run_time=None if row["run_time"] is None else from_micros(row["run_time"]),
        is_successful=bool(row["is_successful"]),
        stdout=row["stdout"],
        stderr=row["stderr"],
        exit_code=row["exit_code"],
        execution_time_ms=row["execution_time_ms"],
    )


_SELECT_PIPELINE = (
    select(pipeline_attempts.c.pipeline_id)
    .where(pipeline_attempts.c.attempt_id == bindparam("wanted"))
    .scalar_subquery()
)
_SET_RUNNING = (
    update(pipelines).where(pipelines.c.id == _SELECT_PIPELINE).values(status=PipelineStatus.RUNNING.value)
)
_DELETE_ORPHANS = delete(pipelines).where(
    ~select(pipeline_attempts.c.attempt_id).where(pipeline_attempts.c.pipeline_id == pipelines.c.id).exists()
)


class PipelineRecorder:
    """The recorder of the kind `pipeline`. Implements `store.recorder.Recorder`."""

    kind: str = "pipeline"
    tables: Sequence[Table] = (pipelines, pipeline_steps, pipeline_attempts, execution_logs)

    def records(self, access: DatabaseAccess) -> PipelineReader:
        """Return a reader of the stored pipelines."""
        return PipelineReader(access)

    def accepted(self, connection: Connection, attempt: Attempt, document: bytes) -> None:
        """Record a new attempt, its pipeline, and the pipeline's current steps."""
        payload = json.loads(document)["payload"]
        of_parent = None if payload.get("pipeline_id") else _find_parent_pipeline(connection, attempt)
        pipeline_id = of_parent or payload.get("pipeline_id") or attempt.id
        now = to_micros(attempt.created_at)
        touched = update(pipelines).where(pipelines.c.id == pipeline_id).values(updated_at=now)
        if of_parent is None and attempt.peer.uid != ROOT:  # another user may have used this id before
            touched = touched.where(pipelines.c.uid == attempt.peer.uid)
        if connection.execute(touched).rowcount == 0:
            connection.execute(
                insert(pipelines).values(
                    id=pipeline_id,
                    uid=attempt.peer.uid,
                    status=PipelineStatus.CREATED.value,
                    created_at=now,
                    updated_at=now,
                )
            )
        _store_steps(connection, pipeline_id, payload["steps"])
        connection.execute(insert(pipeline_attempts).values(attempt_id=attempt.id, pipeline_id=pipeline_id))

    def leased(self, connection: Connection, run: AttemptRun) -> None:
        """Record that the pipeline is running."""
        connection.execute(_SET_RUNNING, {"wanted": run.attempt_id})

    def finished(
        self,
        connection: Connection,
        attempt: Attempt,
        cases: Sequence[Case],
        events: Sequence[AttemptEvent],
        refusals: Sequence[str],
    ) -> None:
        """Record the status of the pipeline, and the steps that ran or were rejected.

        Do nothing if the attempt belongs to no pipeline.
        """
        pipeline_id = connection.execute(select(_SELECT_PIPELINE), {"wanted": attempt.id}).scalar()
        if pipeline_id is None:
            return
        status = _determine_pipeline_status(connection, attempt, pipeline_id)
        connection.execute(update(pipelines).where(pipelines.c.id == pipeline_id).values(status=status.value))
        of_pipeline = pipeline_steps.c.pipeline_id == pipeline_id
        found = connection.execute(select(pipeline_steps).where(of_pipeline)).all()
        step_ids: dict[int, int] = {row.position: row.id for row in found}
        started = _find_step_start_times(events, len(cases))
        ran = [
            (number, case) for number, case in enumerate(cases, 1) if case.status is not CaseStatus.SKIPPED
        ]
        ran = ran or _list_refused_steps({row.position: row.name for row in found}, refusals)
        rows = [_build_log_row(case, number, step_ids, started) for number, case in ran]
        if rows:
            common = {"pipeline_id": pipeline_id, "attempt_id": attempt.id}
            connection.execute(insert(execution_logs), [{**row, **common} for row in rows])

    def removed(self, connection: Connection) -> None:
        """Delete pipelines that have no remaining attempts."""
        connection.execute(_DELETE_ORPHANS)


def _find_parent_pipeline(connection: Connection, attempt: Attempt) -> str | None:
    """Return the pipeline that an attempt continues, or None for a new pipeline or a replay."""
    if attempt.parent_id is None or attempt.replay_of is not None:
        return None
    found: str | None = connection.execute(select(_SELECT_PIPELINE), {"wanted": attempt.parent_id}).scalar()
    return found


def _store_steps(connection: Connection, pipeline_id: str, steps: Sequence[Mapping[str, str]]) -> None:
    """Replace the stored steps. A step at an unchanged position keeps its id."""
    of_pipeline = pipeline_steps.c.pipeline_id == pipeline_id
    there = set(connection.execute(select(pipeline_steps.c.position).where(of_pipeline)).scalars())
    for position, step in enumerate(steps, 1):
        values = {"name": step["name"], "type": step["type"], "content": step["content"]}
        if position in there:
            place = pipeline_steps.c.position == position
            connection.execute(update(pipeline_steps).where(of_pipeline, place).values(**values))
        else:
            row = {"pipeline_id": pipeline_id, "position": position, **values}
            connection.execute(insert(pipeline_steps).values(**row))
    connection.execute(delete(pipeline_steps).where(of_pipeline, pipeline_steps.c.position > len(steps)))


def _determine_pipeline_status(connection: Connection, attempt: Attempt, pipeline_id: str) -> PipelineStatus:
    if attempt.verdict is not Verdict.VALIDATED:
        return PipelineStatus.FAILED
    followed = (
        select(verdicts.c.verdict)
        .join(pipeline_attempts, pipeline_attempts.c.attempt_id == verdicts.c.attempt_id)
        .where(verdicts.c.attempt_id == attempt.parent_id, pipeline_attempts.c.pipeline_id == pipeline_id)
    )
    repaired = connection.execute(followed).scalar() == Verdict.FAILED
    return PipelineStatus.REPAIRED if repaired else PipelineStatus.SUCCESS


def _list_refused_steps(names: Mapping[int, str], refusals: Sequence[str]) -> list[tuple[int, Case]]:
    """Return the steps that static stages rejected, with the reasons in place of standard error, or []."""
    found = []
    for number, name in sorted(names.items()):
        label = f"{format_step_label(number, name)}: "
        reasons = [reason.removeprefix(label) for reason in refusals if reason.startswith(label)]
        if reasons:
            found.append((number, Case(name=name, status=CaseStatus.FAILED, stderr="\n".join(reasons))))
    return found


def _find_step_start_times(events: Sequence[AttemptEvent], steps: int) -> Mapping[int, int]:
    """Return the start time of each step by its number, in microseconds since the epoch.

    Units before the first step are ignored.
    """
    started: dict[int, int] = {}
    for event in events:
        index, total = event.body.get("index"), event.body.get("total")
        if event.kind == "unit" and event.body.get("status") == "started":
            if isinstance(index, int) and isinstance(total, int):
                started[index - (total - steps)] = to_micros(event.at)
    return started


def _build_log_row(
    case: Case, number: int, step_ids: Mapping[int, int], started: Mapping[int, int]
) -> dict[str, object]:
    return {
        "step_id": step_ids.get(number),
        "position": number,
        "name": case.name,
        "run_time": started.get(number),
        "is_successful": int(case.exit_code == 0 and case.status is CaseStatus.PASSED),
        # PostgreSQL strings can't contain NUL.
        "stdout": case.stdout.replace("\0", "\ufffd"),
        "stderr": case.stderr.replace("\0", "\ufffd"),
        "exit_code": case.exit_code,
        "execution_time_ms": round(case.duration_s * 1000),
    }


recorder = PipelineRecorder()
