"""Workflows as rows: read as they were written, and bounded per user."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from assayd.errors import RequestError
from assayd.ids import Ulids
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairWish
from assayd.store.access import open_access
from assayd_workflows.checking import check_plan
from assayd_workflows.model import NodeRun, NodeState, Workflow
from assayd_workflows.reading import read_document
from assayd_workflows.store import KEPT, OPEN, DatabaseWorkflowStore

NOW = datetime(2026, 5, 4, tzinfo=UTC)
TEXT = "nodes: [{id: a, code: 'n: int\\nresult: int = n', inputs: {n: 1}}]\noutputs: {x: a.result}\n"
IDS = Ulids()


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[DatabaseWorkflowStore]:
    async with open_access(tmp_path) as access:
        yield DatabaseWorkflowStore(access)


def workflow(uid: int = 1000, **changes: object) -> Workflow:
    plan = read_document(TEXT).plan
    assert plan is not None
    made = Workflow(
        id=IDS.new(),
        peer=Peer(uid=uid, gid=1, pid=2),
        created_at=NOW,
        ends_at=NOW + timedelta(minutes=1),
        document=TEXT,
        inputs={"a": {"n": [1, {"b": None}]}},
        reading=check_plan(plan),
        nodes={"a": NodeRun(node="a", attempt_id=IDS.new())},
        repair=RepairWish(provider="p"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def ended(one: Workflow) -> Workflow:
    run = replace(one.nodes["a"], state=NodeState.VALIDATED, reused=True, input_digest="d", finished_at=NOW)
    return replace(one, verdict=Verdict.VALIDATED, finished_at=NOW, nodes={"a": run})


async def test_workflow_is_read_as_it_was_written(store: DatabaseWorkflowStore) -> None:
    one = workflow()

    await store.add(one)
    assert await store.get(one.id) == one
    await store.finish(ended(one))

    assert await store.get(one.id) == ended(one)
    assert await store.unfinished() == []


async def test_ended_workflow_does_not_end_again(store: DatabaseWorkflowStore) -> None:
    one = workflow()
    await store.add(one)
    await store.finish(ended(one))

    await store.finish(replace(one, verdict=Verdict.FAILED, finished_at=NOW))
    await store.cancel(one.id, NOW)

    assert await store.get(one.id) == ended(one)


async def test_number_of_running_workflows_is_bounded_per_user(store: DatabaseWorkflowStore) -> None:
    for _ in range(OPEN):
        await store.add(workflow())

    with pytest.raises(RequestError, match="16 workflows of this user are running"):
        await store.add(workflow())
    await store.add(workflow(uid=1001))

    assert len(await store.list(uid=1000, before=None, limit=100)) == OPEN


async def test_oldest_ended_workflows_go(store: DatabaseWorkflowStore) -> None:
    every = [ended(workflow()) for _ in range(KEPT + 3)]
    other = ended(workflow(uid=1001))
    for one in (other, *every):
        await store.add(one)

    kept = await store.list(uid=1000, before=None, limit=KEPT + 10)

    assert [one.id for one in kept] == [one.id for one in reversed(every)][:KEPT]
    assert await store.get(other.id) is not None
