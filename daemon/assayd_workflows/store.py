"""Stores workflows in a database, with one row per workflow and one row per node.

This module maps values to rows of the tables in `assayd.store.tables`. Of each user's ended workflows, the
newest are kept. Document, inputs and plan can be large, so they are read only if needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Select, delete, func, insert, select, update

from assayd.documents import canonical
from assayd.errors import RequestError
from assayd.model.finding import Finding
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairOptions
from assayd.store.access import DatabaseAccess
from assayd.store.tables import Values, from_micros, read_optional_time, to_micros, workflow_nodes, workflows
from assayd_workflows.checking import PLAN
from assayd_workflows.model import Inputs, NodeRun, NodeState, Workflow, WorkflowOutline, WorkflowPlan

KEPT = 200
"""Maximum number of ended workflows to keep for one user."""
KEPT_BYTES = 64 * 2**20
"""Maximum total size of the ended workflows to keep for one user."""
MAX_PAGE_BYTES = 256 * 2**10
"""Maximum total size of the outlines on one page, which always contains the first outline."""
OPEN = 16
"""Maximum number of unfinished workflows of one user."""


_OUTLINE: TypeAdapter[WorkflowOutline] = TypeAdapter(WorkflowOutline)
_FINDINGS: TypeAdapter[tuple[Finding, ...]] = TypeAdapter(tuple[Finding, ...])
_LARGE_COLUMNS = {"document", "inputs", "plan"}
_SHOWN_COLUMNS = [column for column in workflows.c if column.name not in _LARGE_COLUMNS]
_LISTED = [column for column in _SHOWN_COLUMNS if column.name != "findings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContents:
    """The source of a workflow: the document, and the inputs and the plan as JSON text.

    `plan` is None if the document isn't a workflow.
    """

    document: str
    inputs: str
    plan: str | None

    @classmethod
    def written(cls, document: str, inputs: Inputs, plan: WorkflowPlan | None) -> WorkflowContents:
        """Return the contents as text. This is slow for large contents."""
        text = None if plan is None else PLAN.dump_json(plan.without_inputs(inputs)).decode()
        return cls(document=document, inputs=canonical(dict(inputs)).decode(), plan=text)

    def read_inputs(self) -> Inputs:
        """Parse the inputs. This is slow for large inputs."""
        found: Inputs = json.loads(self.inputs)
        return found

    def read_plan(self) -> WorkflowPlan:
        """Return the plan with its inputs, or an empty plan if none is stored.

        This is slow for a large plan.
        """
        plan = PLAN.validate_json(self.plan or '{"nodes": [], "outputs": {}}')
        return plan.with_inputs(self.read_inputs())


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPage:
    """One page of workflows. `next_cursor` is the id of the last workflow, or None if there are no more."""

    workflows: Sequence[Workflow]
    next_cursor: str | None


class DatabaseWorkflowStore:
    """A store of workflows in SQLite or PostgreSQL."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access

    async def add(self, workflow: Workflow, contents: WorkflowContents) -> None:
        """Record a workflow and its nodes durably, and remove the user's oldest workflows above the limits.

        Raises: RequestError ``quota.full`` (retryable), if the user has `OPEN` unfinished workflows.
        """
        mine = workflows.c.uid == workflow.peer.uid
        unended = select(func.count()).select_from(workflows).where(mine, workflows.c.finished_at.is_(None))
        ended = select(workflows.c.id, workflows.c.bytes).where(mine, workflows.c.finished_at.is_not(None))
        ended = ended.order_by(workflows.c.id.desc())
        values = await asyncio.to_thread(_build_workflow_values, workflow, contents)

        def apply(connection: Connection) -> None:
            if connection.execute(unended).scalar_one() >= OPEN:
                message = f"{OPEN} workflows of this user are running; wait for one, or cancel one"
                raise RequestError("quota.full", message, retryable=True)
            old = _find_excess_workflows(
                [(row.id, row.bytes) for row in connection.execute(ended)], values["bytes"]
            )
            connection.execute(delete(workflow_nodes).where(workflow_nodes.c.workflow_id.in_(old)))
            connection.execute(delete(workflows).where(workflows.c.id.in_(old)))
            connection.execute(insert(workflows), values)
            if workflow.nodes:
                rows = [_build_node_values(workflow.id, each) for each in workflow.nodes.values()]
                connection.execute(insert(workflow_nodes), rows)

        await self._access.write(apply)

    async def save_node(self, workflow_id: str, run: NodeRun) -> None:
        """Record the current state of a workflow's node."""
        mine = (workflow_nodes.c.workflow_id == workflow_id) & (workflow_nodes.c.node == run.node)
        changed = update(workflow_nodes).where(mine).values(_build_node_values(workflow_id, run))
        await self._access.write(lambda connection: connection.execute(changed).close())

    async def cancel(self, workflow_id: str, at: datetime) -> None:
        """Record the cancellation of a workflow, unless the workflow has ended or was already cancelled."""
        unended = workflows.c.finished_at.is_(None) & workflows.c.cancelled_at.is_(None)
        changed = update(workflows).where(workflows.c.id == workflow_id, unended)
        changed = changed.values(cancelled_at=to_micros(at))
        await self._access.write(lambda connection: connection.execute(changed).close())

    async def finish(self, workflow: Workflow) -> None:
        """Record the end of a workflow and of its nodes in one transaction, at most once."""
        unended = (workflows.c.id == workflow.id) & workflows.c.finished_at.is_(None)
        changed = update(workflows).where(unended).values(_build_end_values(workflow))

        def apply(connection: Connection) -> None:
            if connection.execute(changed).rowcount != 1:
                return
            connection.execute(delete(workflow_nodes).where(workflow_nodes.c.workflow_id == workflow.id))
            if workflow.nodes:
                rows = [_build_node_values(workflow.id, each) for each in workflow.nodes.values()]
                connection.execute(insert(workflow_nodes), rows)

        await self._access.write(apply)

    async def get(self, workflow_id: str) -> Workflow | None:
        """Return the workflow with this id, or None if it doesn't exist."""
        found = await self._read(select(*_SHOWN_COLUMNS).where(workflows.c.id == workflow_id))
        return found[0] if found else None

    async def contents(self, workflow_id: str) -> WorkflowContents | None:
        """Return the source of a workflow, or None if it doesn't exist."""
        large = select(workflows.c.document, workflows.c.inputs, workflows.c.plan)
        wanted = large.where(workflows.c.id == workflow_id)
        row = await self._access.read(lambda connection: connection.execute(wanted).mappings().first())
        return None if row is None else WorkflowContents(**row)

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> WorkflowPage:
        """Return workflows without findings, newest first. A None `uid` or `before` matches any."""
        wanted = select(workflows.c.id, func.length(workflows.c.outline)).order_by(workflows.c.id.desc())
        if uid is not None:
            wanted = wanted.where(workflows.c.uid == uid)
        if before is not None:
            wanted = wanted.where(workflows.c.id < before)
        found = await self._access.read(
            lambda connection: [(row[0], int(row[1])) for row in connection.execute(wanted.limit(limit))]
        )
        sums = accumulate(size for _, size in found)
        shown = [each for (each, _), size in zip(found, sums, strict=True) if size <= MAX_PAGE_BYTES]
        shown = shown or [each for each, _ in found[:1]]
        listed = select(*_LISTED).where(workflows.c.id.in_(shown)).order_by(workflows.c.id.desc())
        more = bool(shown) and (len(shown) < len(found) or len(found) == limit)
        return WorkflowPage(workflows=await self._read(listed), next_cursor=shown[-1] if more else None)

    async def list_unfinished(self) -> Sequence[Workflow]:
        """Return every workflow that has no verdict, starting with the oldest."""
        unended = workflows.c.finished_at.is_(None)
        return await self._read(select(*_SHOWN_COLUMNS).where(unended).order_by(workflows.c.id))

    async def _read(self, statement: Select[Any]) -> Sequence[Workflow]:
        def fetch(connection: Connection) -> Sequence[Workflow]:
            rows = connection.execute(statement).mappings().all()
            ids = [row["id"] for row in rows]
            found: dict[str, dict[str, NodeRun]] = {workflow_id: {} for workflow_id in ids}
            for row in connection.execute(
                select(workflow_nodes).where(workflow_nodes.c.workflow_id.in_(ids))
            ).mappings():
                found[row["workflow_id"]][row["node"]] = _node_run_from_row(row)
            return [_workflow_from_row(row, found[row["id"]]) for row in rows]

        return await self._access.read(fetch)


def _find_excess_workflows(ended: Sequence[tuple[str, int]], added: int) -> list[str]:
    """Return the ids of the ended workflows (newest first) that exceed the limits with `added` more bytes."""
    sums = accumulate((size for _, size in ended), initial=added)
    next(sums)
    return [
        each
        for number, ((each, _), size) in enumerate(zip(ended, sums, strict=True), 1)
        if number >= KEPT or size > KEPT_BYTES
    ]


def _build_workflow_values(workflow: Workflow, contents: WorkflowContents) -> dict[str, Any]:
    repair = workflow.repair
    wish = None if repair is None else {"provider": repair.provider, "max_attempts": repair.max_attempts}
    texts = {
        "document": contents.document,
        "inputs": contents.inputs,
        "plan": contents.plan,
        "outline": _OUTLINE.dump_json(workflow.outline).decode(),
        "findings": _FINDINGS.dump_json(workflow.findings).decode(),
    }
    return {
        **texts,
        "bytes": sum(len(text.encode("utf-8", "replace")) for text in texts.values() if text is not None),
        "id": workflow.id,
        "uid": workflow.peer.uid,
        "gid": workflow.peer.gid,
        "pid": workflow.peer.pid,
        "created_at": to_micros(workflow.created_at),
        "ends_at": to_micros(workflow.ends_at),
        "repair": None if wish is None else json.dumps(wish),
        "resumes": workflow.resumes,
        **_build_end_values(workflow),
    }


def _build_end_values(workflow: Workflow) -> dict[str, Any]:
    return {
        "verdict": workflow.verdict,
        "detail": workflow.detail,
        "cancelled_at": None if workflow.cancelled_at is None else to_micros(workflow.cancelled_at),
        "finished_at": None if workflow.finished_at is None else to_micros(workflow.finished_at),
    }


def _workflow_from_row(row: Any, runs: dict[str, NodeRun]) -> Workflow:
    outline = _OUTLINE.validate_json(row["outline"])
    return Workflow(
        id=row["id"],
        peer=Peer(uid=row["uid"], gid=row["gid"], pid=row["pid"]),
        created_at=from_micros(row["created_at"]),
        ends_at=from_micros(row["ends_at"]),
        outline=outline,
        nodes={node.id: runs[node.id] for node in outline.nodes if node.id in runs},
        findings=_FINDINGS.validate_json(row.get("findings", "[]")),
        repair=None if row["repair"] is None else RepairOptions(**json.loads(row["repair"])),
        resumes=row["resumes"],
        verdict=None if row["verdict"] is None else Verdict(row["verdict"]),
        detail=row["detail"],
        cancelled_at=read_optional_time(row["cancelled_at"]),
        finished_at=read_optional_time(row["finished_at"]),
    )


def _build_node_values(workflow_id: str, run: NodeRun) -> Values:
    return {
        "workflow_id": workflow_id,
        "node": run.node,
        "attempt_id": run.attempt_id,
        "state": run.state,
        "reused": int(run.reused),
        "input_digest": run.input_digest,
        "repair_id": run.repair_id,
        "detail": run.detail,
        "finished_at": None if run.finished_at is None else to_micros(run.finished_at),
    }


def _node_run_from_row(row: Any) -> NodeRun:
    return NodeRun(
        node=row["node"],
        attempt_id=row["attempt_id"],
        state=NodeState(row["state"]),
        reused=bool(row["reused"]),
        input_digest=row["input_digest"],
        repair_id=row["repair_id"],
        detail=row["detail"],
        finished_at=read_optional_time(row["finished_at"]),
    )
