"""Running a workflow: what a node may use, and which earlier results it may reuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from assayd.byte_budget import ByteBudget
from assayd.errors import RequestError
from assayd.fair_queue import FairSemaphore
from assayd.model.attempt import Attempt, State
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_workflows import course as course_module
from assayd_workflows.course import (
    MAX_CONCURRENT_STARTS,
    ResultPartsTooLarge,
    WorkflowRun,
    WorkflowRunParts,
    load_outputs,
)
from assayd_workflows.model import NodeRun, NodeState, ResultReference, Workflow, WorkflowNode, WorkflowPlan

NOW = datetime(2026, 5, 4, tzinfo=UTC)
PEER = Peer(uid=1000, gid=1, pid=2)
A = ResultReference(node="a")


def attempt(attempt_id: str, **changes: Any) -> Attempt:
    made = Attempt(
        id=attempt_id,
        kind="code",
        policy="code",
        input_digest="d",
        created_at=NOW,
        peer=PEER,
        state=State.FINISHED,
        verdict=Verdict.VALIDATED,
        bundle="b",
    )
    return replace(made, **changes)


class Daemon:
    """The parts of a daemon that a course uses; each submission is validated immediately."""

    def __init__(self, results: Mapping[str, object], *, digest: str = "p1") -> None:
        self.attempts = {f"attempt-{name}": attempt(f"attempt-{name}") for name in results}
        self.results = {f"attempt-{name}": result for name, result in results.items()}
        self.digest = digest
        self.submitted: list[dict[str, Any]] = []
        self.reading = self.most_reading = self.wait_for = 0
        self.all_wait = asyncio.Event()

    async def get(self, attempt_id: str) -> Attempt | None:
        return self.attempts.get(attempt_id)

    async def documents(self, one: Attempt) -> tuple[bytes, bytes]:
        case = {"result": self.results[one.id]}
        return json.dumps({"policy_digest": "p1", "runtime_results": {"cases": [case]}}).encode(), b""

    async def read_submission_in_turn(self, document: bytes, uid: int) -> SimpleNamespace:
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        if self.reading >= self.wait_for:
            self.all_wait.set()
        await self.all_wait.wait()
        self.reading -= 1
        return SimpleNamespace(input_digest="d", policy=json.loads(document)["policy"])

    def policy(self, _: object) -> SimpleNamespace:
        return SimpleNamespace(digest=self.digest)

    async def submit_document(self, document: bytes, origin: Any) -> None:
        self.submitted.append(json.loads(document))
        self.attempts[origin.attempt_id] = attempt(origin.attempt_id)
        self.results[origin.attempt_id] = 1

    async def wait(self, attempt_id: str, _: float) -> SimpleNamespace:
        return SimpleNamespace(attempt=self.attempts[attempt_id])

    async def save_node(self, *_: object) -> None: ...

    @property
    def parts(self) -> WorkflowRunParts:
        scheduler = SimpleNamespace(budget=ByteBudget(2**30), wait=self.wait)
        fakes: dict[str, Any] = {"admission": self, "jobs": self, "store": self, "scheduler": scheduler}
        return WorkflowRunParts(
            **fakes,
            documents=self.documents,
            chains=None,  # type: ignore[arg-type]
            clock=SimpleNamespace(now=lambda: NOW),
            turns=FairSemaphore(1000),
            inputs_bytes=12_000,
        )


def course_of(
    daemon: Daemon, *nodes: WorkflowNode, done: Mapping[str, NodeState] | None = None
) -> WorkflowRun:
    """Return the course of a plan; the nodes with results at the daemon have ended."""
    plan = WorkflowPlan(nodes=nodes, outputs={"x": ResultReference(node=nodes[-1].id)})
    states = {name.removeprefix("attempt-"): NodeState.VALIDATED for name in daemon.attempts} | dict(
        done or {}
    )
    runs = {
        node.id: NodeRun(
            node=node.id, attempt_id=f"attempt-{node.id}", state=states.get(node.id, NodeState.WAITING)
        )
        for node in nodes
    }
    workflow = Workflow(
        id="w",
        peer=PEER,
        created_at=NOW,
        ends_at=NOW + timedelta(minutes=1),
        outline=plan.outline,
        nodes=runs,
    )
    return WorkflowRun(workflow, plan, daemon.parts)


async def test_one_result_referred_to_many_times_fails_the_node_before_it_is_built() -> None:
    daemon = Daemon({"a": "x" * 7900})
    taker = WorkflowNode(id="b", code="", sources={f"x{number}": A for number in range(100)})
    course = course_of(daemon, WorkflowNode(id="a"), taker)

    await course.run()

    run = course.workflow.nodes["b"]
    assert (run.state, daemon.submitted) == (NodeState.FAILED, [])
    assert run.detail == "the inputs of node 'b' have more than 12000 bytes; refer to parts of the results"


async def test_results_of_many_nodes_are_read_only_until_the_room_is_used() -> None:
    daemon = Daemon({f"a{number}": list(range(1000)) for number in range(50)})
    taker = WorkflowNode(
        id="b", sources={f"x{number}": ResultReference(node=f"a{number}") for number in range(50)}
    )
    course = course_of(daemon, *(WorkflowNode(id=f"a{number}") for number in range(50)), taker)
    read: list[str] = []
    documents = daemon.documents

    async def noted(one: Attempt) -> tuple[bytes, bytes]:
        read.append(one.id)
        return await documents(one)

    course.parts = replace(course.parts, documents=noted)
    await course.run()

    assert (course.workflow.nodes["b"].state, len(read)) == (NodeState.FAILED, 4)


async def test_values_and_parts_within_the_room_are_submitted() -> None:
    daemon = Daemon({"a": {"rows": [1, 2]}})
    taker = WorkflowNode(
        id="b",
        code="c",
        values={"n": {"z": 1, "a": "é"}},
        sources={"x": ResultReference(node="a", path=("rows", "1"))},
    )
    course = course_of(daemon, WorkflowNode(id="a"), taker)

    await course.run()

    assert course.workflow.nodes["b"].state is NodeState.VALIDATED
    assert daemon.submitted == [
        {
            "kind": "code",
            "labels": {"node": "b", "workflow": "w"},
            "payload": {"code": "c", "inputs": {"n": {"a": "é", "z": 1}, "x": 2}},
            "policy": "code",
        }
    ]


async def test_submission_with_too_many_values_fails_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(_: bytes, uid: int) -> None:
        raise RequestError("too_large", "too many values")

    daemon = Daemon({})
    monkeypatch.setattr(daemon, "read_submission_in_turn", read)
    course = course_of(daemon, WorkflowNode(id="a"))

    await course.run()

    run = course.workflow.nodes["a"]
    assert run.state is NodeState.FAILED
    assert run.detail == "node 'a' and its inputs are too large: too many values"


async def test_outputs_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon({"a": "x" * 98})
    course = course_of(daemon, WorkflowNode(id="a"))
    outline = replace(course.workflow.outline, outputs={f"o{number}": A for number in range(10)})
    workflow = replace(course.workflow, outline=outline)

    monkeypatch.setattr(course_module, "OUTPUTS_BYTES", 1000)
    found = await load_outputs(workflow, daemon.parts)
    monkeypatch.setattr(course_module, "OUTPUTS_BYTES", 999)

    assert set(found.values()) == {b'"' + b"x" * 98 + b'"'}
    with pytest.raises(ResultPartsTooLarge, match="the outputs have more than 999 bytes"):
        await load_outputs(workflow, daemon.parts)


async def test_few_nodes_of_a_workflow_wait_for_their_turn_at_once() -> None:
    daemon = Daemon({})
    daemon.wait_for = MAX_CONCURRENT_STARTS
    course = course_of(daemon, *(WorkflowNode(id=f"n{number}") for number in range(100)))

    await course.run()

    assert daemon.most_reading <= MAX_CONCURRENT_STARTS
    assert len(daemon.submitted) == 100


EARLIER = NodeRun(
    node="old", attempt_id="old", state=NodeState.VALIDATED, input_digest="d", repair_id="r", finished_at=NOW
)


@pytest.mark.parametrize(
    ("changes", "digest", "reused"),
    [
        ({}, "p1", True),
        ({}, "p2", False),
        ({"approvable": False}, "p1", False),
        ({"distrusted_at": NOW}, "p1", False),
        ({"bundle": None}, "p1", False),
        ({"policy": "other"}, "p1", False),
        ({"verdict": Verdict.FAILED}, "p1", False),
    ],
)
async def test_only_a_trusted_result_of_the_same_policy_is_reused(
    changes: dict[str, Any], digest: str, reused: bool
) -> None:
    daemon = Daemon({}, digest=digest)
    daemon.attempts["old"] = attempt("old", **changes)
    daemon.results["old"] = 1
    course = course_of(daemon, WorkflowNode(id="a"), done={"old": NodeState.VALIDATED})
    course.reusable = {"d": EARLIER}

    await course.run()

    run = course.workflow.nodes["a"]
    assert (run.node, run.state, run.reused, run.input_digest) == ("a", NodeState.VALIDATED, reused, "d")
    assert (run.attempt_id, run.repair_id) == (("old", "r") if reused else ("attempt-a", None))
    assert len(daemon.submitted) == (0 if reused else 1)
