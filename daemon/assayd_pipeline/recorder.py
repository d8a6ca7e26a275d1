"""Records pipelines: their steps, their status, and a row for each executed step.

A pipeline's id is the id of its first attempt. An attempt belongs to the pipeline with its `pipeline_id`,
or if it has none, to its parent's pipeline (e.g. the fix of a repair). The attempt's steps replace the
pipeline's steps. Source: docs/kinds/pipeline.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update

from assayd.model.attempt import Attempt
from assayd.model.records import AttemptEvent, AttemptRun
from assayd.model.report import Case, CaseStatus, Verdict
from assayd.store.access import DatabaseAccess
from assayd.store.tables import to_micros, verdicts
from assayd_pipeline.judging import format_step_label
from assayd_pipeline.stored import (
    ROOT,
    PipelineReader,
    PipelineStatus,
    execution_logs,
    pipeline_attempts,
    pipeline_steps,
    pipelines,
)

_PIPELINE_OF = (
    select(pipeline_attempts.c.pipeline_id)
    .where(pipeline_attempts.c.attempt_id == bindparam("wanted"))
    .scalar_subquery()
)
_RUNNING = update(pipelines).where(pipelines.c.id == _PIPELINE_OF).values(status=PipelineStatus.RUNNING.value)
_ORPHANS = delete(pipelines).where(
    ~select(pipeline_attempts.c.attempt_id).where(pipeline_attempts.c.pipeline_id == pipelines.c.id).exists()
)


class PipelineRecorder:
    """The recorder of the kind `pipeline`; implements `store.recorder.Recorder`."""

    kind: str = "pipeline"
    tables: Sequence[Table] = (pipelines, pipeline_steps, pipeline_attempts, execution_logs)

    def records(self, access: DatabaseAccess) -> PipelineReader:
        """Return the stored pipelines."""
        return PipelineReader(access)

    def accepted(self, connection: Connection, attempt: Attempt, document: bytes) -> None:
        """Record the attempt, and the pipeline with its current steps."""
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
        connection.execute(_RUNNING, {"wanted": run.attempt_id})

    def finished(
        self,
        connection: Connection,
        attempt: Attempt,
        cases: Sequence[Case],
        events: Sequence[AttemptEvent],
        refusals: Sequence[str],
    ) -> None:
        """Record the status of the pipeline, and the steps that ran or were rejected."""
        pipeline_id = connection.execute(select(_PIPELINE_OF), {"wanted": attempt.id}).scalar()
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
        connection.execute(_ORPHANS)


def _find_parent_pipeline(connection: Connection, attempt: Attempt) -> str | None:
    """Return the pipeline that an attempt continues; None if it is a new pipeline or a replay."""
    if attempt.parent_id is None or attempt.replay_of is not None:
        return None
    found: str | None = connection.execute(select(_PIPELINE_OF), {"wanted": attempt.parent_id}).scalar()
    return found


def _store_steps(connection: Connection, pipeline_id: str, steps: Sequence[Mapping[str, str]]) -> None:
    """Replace the stored steps; a step at an unchanged position keeps its id."""
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
    """Return the steps that static stages rejected, with the reasons in place of standard error."""
    found = []
    for number, name in sorted(names.items()):
        label = f"{format_step_label(number, name)}: "
        reasons = [reason.removeprefix(label) for reason in refusals if reason.startswith(label)]
        if reasons:
            found.append((number, Case(name=name, status=CaseStatus.FAILED, stderr="\n".join(reasons))))
    return found


def _find_step_start_times(events: Sequence[AttemptEvent], steps: int) -> Mapping[int, int]:
    """Return the start time of each step by its number, ignoring units before the first step."""
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
