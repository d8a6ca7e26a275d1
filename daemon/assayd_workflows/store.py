"""Workflows in a database: one row each, and one row per node.

Decides how values and rows correspond; the tables themselves are `assayd.store.tables`. Of a user's ended
workflows the newest are kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from assayd.errors import RequestError
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairWish
from assayd.store.access import DatabaseAccess
from assayd.store.rows import Values, from_micros, read_moment, to_micros
from assayd.store.tables import workflow_nodes, workflows
from assayd_workflows.model import NodeRun, NodeState, Workflow
from assayd_workflows.reading import READING

KEPT = 200
"""Ended workflows of one user that are kept."""
OPEN = 16
"""Workflows of one user that are under way at once."""


class DatabaseWorkflowStore:
    """Where workflows are kept, in SQLite or PostgreSQL."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access

    async def add(self, workflow: Workflow) -> None:
        """Record a workflow with its nodes durably; the user's oldest beyond the limit go.

        Raises: RequestError ``quota.full`` (retryable).
        """
        mine = workflows.c.uid == workflow.peer.uid
        unended = select(func.count()).select_from(workflows).where(mine, workflows.c.finished_at.is_(None))
        ended = select(workflows.c.id).where(mine, workflows.c.finished_at.is_not(None))
        beyond = ended.order_by(workflows.c.id.desc()).offset(KEPT - 1).limit(KEPT)

        def apply(connection: Connection) -> None:
            if connection.execute(unended).scalar_one() >= OPEN:
                message = f"{OPEN} workflows of this user are running; wait for one, or cancel one"
                raise RequestError("quota.full", message, retryable=True)
            old = list(connection.execute(beyond).scalars())
            connection.execute(delete(workflow_nodes).where(workflow_nodes.c.workflow_id.in_(old)))
            connection.execute(delete(workflows).where(workflows.c.id.in_(old)))
            connection.execute(insert(workflows), _values(workflow))
            if workflow.nodes:
                rows = [_node_values(workflow.id, each) for each in workflow.nodes.values()]
                connection.execute(insert(workflow_nodes), rows)

        await self._access.write(apply)

    async def save_node(self, workflow_id: str, run: NodeRun) -> None:
        """Record how far a node is."""
        mine = (workflow_nodes.c.workflow_id == workflow_id) & (workflow_nodes.c.node == run.node)
        changed = update(workflow_nodes).where(mine).values(_node_values(workflow_id, run))
        await self._access.write(lambda connection: connection.execute(changed).close())

    async def cancel(self, workflow_id: str, at: datetime) -> None:
        """Record that no further node of a workflow starts."""
        unended = workflows.c.finished_at.is_(None) & workflows.c.cancelled_at.is_(None)
        changed = update(workflows).where(workflows.c.id == workflow_id, unended)
        changed = changed.values(cancelled_at=to_micros(at))
        await self._access.write(lambda connection: connection.execute(changed).close())

    async def finish(self, workflow: Workflow) -> None:
        """Record the end of a workflow with that of its nodes, in one transaction, once."""
        unended = (workflows.c.id == workflow.id) & workflows.c.finished_at.is_(None)
        changed = update(workflows).where(unended).values(_values(workflow))

        def apply(connection: Connection) -> None:
            if connection.execute(changed).rowcount != 1:
                return
            connection.execute(delete(workflow_nodes).where(workflow_nodes.c.workflow_id == workflow.id))
            if workflow.nodes:
                rows = [_node_values(workflow.id, each) for each in workflow.nodes.values()]
                connection.execute(insert(workflow_nodes), rows)

        await self._access.write(apply)

    async def get(self, workflow_id: str) -> Workflow | None:
        """Return a workflow by its id; None if there is none."""
        found = await self._read(select(workflows).where(workflows.c.id == workflow_id))
        return found[0] if found else None

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Workflow]:
        """Return workflows, newest first; those of one user, and older than the one named `before`."""
        wanted = select(workflows).order_by(workflows.c.id.desc()).limit(limit)
        if uid is not None:
            wanted = wanted.where(workflows.c.uid == uid)
        if before is not None:
            wanted = wanted.where(workflows.c.id < before)
        return await self._read(wanted)

    async def unfinished(self) -> Sequence[Workflow]:
        """Return every workflow without a verdict, oldest first."""
        return await self._read(
            select(workflows).where(workflows.c.finished_at.is_(None)).order_by(workflows.c.id)
        )

    async def _read(self, statement: Select[Any]) -> Sequence[Workflow]:
        def fetch(connection: Connection) -> Sequence[Workflow]:
            rows = connection.execute(statement).mappings().all()
            ids = [row["id"] for row in rows]
            found: dict[str, dict[str, NodeRun]] = {workflow_id: {} for workflow_id in ids}
            for row in connection.execute(
                select(workflow_nodes).where(workflow_nodes.c.workflow_id.in_(ids))
            ).mappings():
                found[row["workflow_id"]][row["node"]] = _read_node(row)
            return [_read_workflow(row, found[row["id"]]) for row in rows]

        return await self._access.read(fetch)


def _values(workflow: Workflow) -> Values:
    repair = workflow.repair
    wish = None if repair is None else {"provider": repair.provider, "max_attempts": repair.max_attempts}
    return {
        "id": workflow.id,
        "uid": workflow.peer.uid,
        "gid": workflow.peer.gid,
        "pid": workflow.peer.pid,
        "created_at": to_micros(workflow.created_at),
        "ends_at": to_micros(workflow.ends_at),
        "document": workflow.document,
        "inputs": json.dumps(workflow.inputs),
        "reading": READING.dump_json(workflow.reading).decode(),
        "repair": None if wish is None else json.dumps(wish),
        "resumes": workflow.resumes,
        "verdict": workflow.verdict,
        "detail": workflow.detail,
        "cancelled_at": None if workflow.cancelled_at is None else to_micros(workflow.cancelled_at),
        "finished_at": None if workflow.finished_at is None else to_micros(workflow.finished_at),
    }


def _read_workflow(row: Any, runs: dict[str, NodeRun]) -> Workflow:
    reading = READING.validate_json(row["reading"])
    order = [node.id for node in reading.plan.nodes] if reading.plan is not None else []
    return Workflow(
        id=row["id"],
        peer=Peer(uid=row["uid"], gid=row["gid"], pid=row["pid"]),
        created_at=from_micros(row["created_at"]),
        ends_at=from_micros(row["ends_at"]),
        document=row["document"],
        inputs=json.loads(row["inputs"]),
        reading=reading,
        nodes={node: runs[node] for node in order if node in runs},
        repair=None if row["repair"] is None else RepairWish(**json.loads(row["repair"])),
        resumes=row["resumes"],
        verdict=None if row["verdict"] is None else Verdict(row["verdict"]),
        detail=row["detail"],
        cancelled_at=read_moment(row["cancelled_at"]),
        finished_at=read_moment(row["finished_at"]),
    )


def _node_values(workflow_id: str, run: NodeRun) -> Values:
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


def _read_node(row: Any) -> NodeRun:
    return NodeRun(
        node=row["node"],
        attempt_id=row["attempt_id"],
        state=NodeState(row["state"]),
        reused=bool(row["reused"]),
        input_digest=row["input_digest"],
        repair_id=row["repair_id"],
        detail=row["detail"],
        finished_at=read_moment(row["finished_at"]),
    )
