"""Workflows as rows: read back unchanged, and limited per user."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import RowMapping

from assayd.clock import UlidGenerator
from assayd.errors import RequestError
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairOptions
from assayd.store.access import open_access
from assayd_workflows import store as store_module
from assayd_workflows.checking import check_plan
from assayd_workflows.model import Inputs, NodeRun, NodeState, Workflow, WorkflowPlan
from assayd_workflows.reading import parse_document
from assayd_workflows.store import (
    KEPT,
    KEPT_BYTES,
    MAX_PAGE_BYTES,
    OPEN,
    DatabaseWorkflowStore,
    WorkflowContents,
    _workflow_from_row,
)

NOW = datetime(2026, 5, 4, tzinfo=UTC)
INPUTS: Inputs = {"a": {"n": [1, {"b": None}]}}
TEXT = "nodes: [{id: a, code: 'n: int\\nresult: int = n', inputs: {n: 1}}]\noutputs: {x: a.result}\n"
IDS = UlidGenerator()
PLAN = replace(parse_document(TEXT).plan or WorkflowPlan(nodes=(), outputs={}), name="p").with_inputs(INPUTS)
CONTENTS = WorkflowContents.written(TEXT, INPUTS, PLAN)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[DatabaseWorkflowStore]:
    async with open_access(tmp_path) as access:
        yield DatabaseWorkflowStore(access)


def workflow(uid: int = 1000, **changes: object) -> Workflow:
    reading = check_plan(PLAN)
    made = Workflow(
        id=IDS.new(),
        peer=Peer(uid=uid, gid=1, pid=2),
        created_at=NOW,
        ends_at=NOW + timedelta(minutes=1),
        outline=PLAN.outline,
        findings=reading.findings,
        nodes={"a": NodeRun(node="a", attempt_id=IDS.new())},
        repair=RepairOptions(provider="p"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def ended(one: Workflow) -> Workflow:
    run = replace(one.nodes["a"], state=NodeState.VALIDATED, reused=True, input_digest="d", finished_at=NOW)
    return replace(one, verdict=Verdict.VALIDATED, finished_at=NOW, nodes={"a": run})


async def test_workflow_is_read_as_it_was_written(store: DatabaseWorkflowStore) -> None:
    one = workflow()

    await store.add(one, CONTENTS)
    assert await store.get(one.id) == one
    await store.finish(ended(one))

    assert await store.get(one.id) == ended(one)
    assert await store.list_unfinished() == []


async def test_ended_workflow_does_not_end_again(store: DatabaseWorkflowStore) -> None:
    one = workflow()
    await store.add(one, CONTENTS)
    await store.finish(ended(one))

    await store.finish(replace(one, verdict=Verdict.FAILED, finished_at=NOW))
    await store.cancel(one.id, NOW)

    assert await store.get(one.id) == ended(one)


async def test_number_of_running_workflows_is_bounded_per_user(store: DatabaseWorkflowStore) -> None:
    for _ in range(OPEN):
        await store.add(workflow(), CONTENTS)

    with pytest.raises(RequestError, match="16 workflows of this user are running"):
        await store.add(workflow(), CONTENTS)
    await store.add(workflow(uid=1001), CONTENTS)

    assert len((await store.list(uid=1000, before=None, limit=100)).workflows) == OPEN


async def test_oldest_ended_workflows_go(store: DatabaseWorkflowStore) -> None:
    every = [ended(workflow()) for _ in range(KEPT + 3)]
    other = ended(workflow(uid=1001))
    for one in (other, *every):
        await store.add(one, CONTENTS)

    kept = await store.list(uid=1000, before=None, limit=KEPT + 10)

    assert [one.id for one in kept.workflows] == [one.id for one in reversed(every)][:KEPT]
    assert await store.get(other.id) is not None


async def test_contents_are_stored_once_and_read_only_when_asked_for(store: DatabaseWorkflowStore) -> None:
    one = workflow()
    await store.add(one, CONTENTS)

    contents = await store.contents(one.id)

    assert contents == CONTENTS
    assert (contents.read_inputs(), contents.read_plan()) == (INPUTS, PLAN)
    assert "null" not in str(json.loads(CONTENTS.plan or "")["nodes"][0]["values"])
    assert await store.contents("none") is None


async def test_lists_and_looks_at_one_workflow_leave_large_columns_unread(
    store: DatabaseWorkflowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add(one := workflow(), CONTENTS)
    read: list[str] = []

    def noting(row: RowMapping, runs: dict[str, NodeRun]) -> Workflow:
        read.extend(map(str, row))
        return _workflow_from_row(row, runs)

    monkeypatch.setattr(store_module, "_workflow_from_row", noting)

    await store.get(one.id)
    await store.list(uid=1000, before=None, limit=10)
    await store.list_unfinished()

    assert "outline" in read
    assert not {"document", "inputs", "plan"} & set(read)


async def test_oldest_ended_workflows_go_if_all_are_too_large(store: DatabaseWorkflowStore) -> None:
    large = replace(CONTENTS, document="x" * (KEPT_BYTES // 3))
    every = [ended(workflow()) for _ in range(4)]
    for one in every:
        await store.add(one, large)

    kept = await store.list(uid=1000, before=None, limit=10)

    assert [one.id for one in kept.workflows] == [every[3].id, every[2].id]


async def test_page_of_large_outlines_is_shorter_and_names_the_next(store: DatabaseWorkflowStore) -> None:
    every = [workflow(outline=replace(PLAN.outline, name="x" * (MAX_PAGE_BYTES // 3))) for _ in range(4)]
    for one in every:
        await store.add(one, CONTENTS)

    first = await store.list(uid=1000, before=None, limit=4)
    second = await store.list(uid=1000, before=first.next_cursor, limit=4)
    huge = workflow(uid=7, outline=replace(PLAN.outline, name="x" * (MAX_PAGE_BYTES + 1)))
    await store.add(huge, CONTENTS)

    assert [one.id for one in [*first.workflows, *second.workflows]] == [one.id for one in every[::-1]]
    assert (len(first.workflows), second.next_cursor) == (2, None)
    alone = await store.list(uid=7, before=None, limit=4)
    assert [one.id for one in alone.workflows] == [huge.id]
