"""Workflows of a daemon: library entries are read once, and every workflow ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest

from assayd.byte_budget import ByteBudget
from assayd.clock import UlidGenerator
from assayd.errors import RequestError, StoreError
from assayd.fair_queue import FairSemaphore
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.ports.driving import ALONE
from assayd.store.access import DatabaseAccess, open_access
from assayd_workflows.course import WorkflowRunParts
from assayd_workflows.model import NodeState, Workflow
from assayd_workflows.store import DatabaseWorkflowStore
from assayd_workflows.workflows import MAX_CODE_BYTES, WorkflowManager, WorkflowRequest

PEER = Peer(uid=1000, gid=1, pid=2)
ONE = "nodes: [{id: a, code: 'result: int = 1'}]\noutputs: {x: a.result}\n"


class Analyst:
    """Reads in this process what a worker would read."""

    async def read(self, reader: str, body: bytes, **_: object) -> bytes:
        answer: bytes = resolve_name(reader)(body)
        return answer


class Library:
    """Has one entry with one version."""

    def __init__(self, code: str) -> None:
        self.document = json.dumps({"payload": {"code": code}}).encode()
        self.looked_up: list[tuple[str, int]] = []

    async def list_versions(self, _: int, name: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(version=1)] if name != "none" else []

    async def entry(self, _: int, name: str, version: int) -> SimpleNamespace | None:
        self.looked_up.append((name, version))
        return None if version != 1 else SimpleNamespace(version=1, kind="code", document=self.document)


class Parts:
    """The parts of a daemon that workflows use; `trouble` is raised when a node is read."""

    def __init__(self, access: DatabaseAccess, trouble: Exception | None = None) -> None:
        self.trouble = trouble
        scheduler = SimpleNamespace(budget=ByteBudget(2**30))
        jobs: Any = SimpleNamespace(get=self.get)
        self.parts = WorkflowRunParts(
            admission=self,  # type: ignore[arg-type]
            scheduler=scheduler,  # type: ignore[arg-type]
            jobs=jobs,
            documents=None,  # type: ignore[arg-type]
            chains=None,  # type: ignore[arg-type]
            store=DatabaseWorkflowStore(access),
            clock=SimpleNamespace(now=lambda: datetime.now(UTC)),
            turns=FairSemaphore(3),
            inputs_bytes=1000,
        )

    async def get(self, _: str) -> None: ...

    def require_ready(self) -> None: ...

    async def require_quota(self, *_: object) -> None: ...

    async def read_submission_in_turn(self, _: bytes, uid: int) -> None:
        assert self.trouble is not None
        raise self.trouble


@asynccontextmanager
async def opened(
    folder: Path, *, library: Library | None = None, trouble: Exception | None = None
) -> AsyncIterator[WorkflowManager]:
    async with open_access(folder) as access:
        fakes: dict[str, Any] = {"analyst": Analyst(), "library": library, "repair_requests": None}
        policies: Callable[[str], Any] = lambda _: None  # noqa: E731
        made = WorkflowManager(
            parts=Parts(access, trouble).parts, policies=policies, ids=UlidGenerator(), driving=ALONE, **fakes
        )
        async with made.running():
            yield made


def of_library(count: int, entry: str) -> str:
    nodes = ", ".join(f"{{id: n{number}, library: {entry}}}" for number in range(count))
    return f"nodes: [{nodes}]\noutputs: {{x: n0.result}}\n"


async def test_entry_of_many_nodes_is_looked_up_once(tmp_path: Path) -> None:
    library = Library("result: int = 1")
    async with opened(tmp_path, library=library) as workflows:
        reading = await workflows.check(of_library(256, "entry"), {}, peer=PEER)

    assert reading.plan is not None
    assert {node.library for node in reading.plan.nodes} == {"entry@1"}
    assert library.looked_up == [("entry", 1)]


async def test_lookups_end_once_the_code_is_too_large(tmp_path: Path) -> None:
    library = Library("#" * (MAX_CODE_BYTES // 2 + 1))
    text = "nodes: [{id: a, library: a}, {id: b, library: b}, {id: c, library: c}]\noutputs: {x: a.result}\n"
    async with opened(tmp_path, library=library) as workflows:
        with pytest.raises(RequestError, match="the code of all nodes has more than") as caught:
            await workflows.check(text, {}, peer=PEER)

    assert (caught.value.code, library.looked_up) == ("too_large", [("a", 1), ("b", 1)])


async def test_missing_entry_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path, library=Library("")) as workflows:
        for entry in ("none", "entry@2"):
            with pytest.raises(RequestError, match=f"node 'n0': your library has no {entry}; see"):
                await workflows.check(of_library(1, entry), {}, peer=PEER)


async def last_of(workflows: WorkflowManager, begun: Workflow) -> Workflow:
    last = begun
    async for state in workflows.follow(begun.id):
        last = state
    return last


async def test_internal_error_ends_the_workflow(tmp_path: Path) -> None:
    async with opened(tmp_path, trouble=KeyError("a bug")) as workflows:
        begun = await workflows.begin(WorkflowRequest(document=ONE, inputs={}), PEER)

        ended = await last_of(workflows, begun)

        assert (ended.verdict, ended.detail) == (
            Verdict.ERROR,
            "an internal error; operators: see the daemon's log",
        )
        assert ended.nodes["a"].state is NodeState.SKIPPED
        assert await workflows.get(begun.id) == ended


async def test_trouble_of_the_store_leaves_the_workflow_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def save_node(*_: object) -> None:
        raise StoreError("store.failed", "the disk is full")

    monkeypatch.setattr(DatabaseWorkflowStore, "save_node", save_node)
    async with opened(tmp_path, trouble=RequestError("invalid", "no")) as workflows:
        begun = await workflows.begin(WorkflowRequest(document=ONE, inputs={}), PEER)

        ended = await last_of(workflows, begun)

    assert replace(ended, nodes={}) == replace(begun, nodes={})
    assert ended.verdict is None
