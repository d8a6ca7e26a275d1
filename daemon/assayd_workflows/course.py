"""One workflow while it is carried out: a task per node, which waits for the nodes that it needs.

Decides when a node is submitted and what its end means for others. A node's attempt has its id before it is
submitted, so that doing it again after a crash changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count

import structlog
from tenacity import AsyncRetrying, retry_if_exception

from assayd.aio import Signal, back_off
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.scheduler import Scheduler
from assayd.documents import canonical
from assayd.errors import AssaydError, RequestError
from assayd.fair_queue import FairSemaphore
from assayd.model.attempt import Attempt, State
from assayd.model.report import Verdict
from assayd.ports.chains import Chains
from assayd.ports.clock import Clock
from assayd.store.jobs import DatabaseJobStore
from assayd_workflows.model import Node, NodeRun, NodeState, Plan, Reference, Workflow
from assayd_workflows.nodes import NoSuchPart, part_of, policy_of, submission_of, with_repair
from assayd_workflows.store import DatabaseWorkflowStore

log = structlog.get_logger()

WAIT_S = 60.0
"""How long one look at the scheduler waits."""
LOOK_S = 0.5
"""Pause between two looks at a repair, or at an attempt that another process carries out."""
LARGE_BYTES = 64 * 1024
"""Longer reports are parsed in a thread."""
_STATES = {
    Verdict.VALIDATED: NodeState.VALIDATED,
    Verdict.FAILED: NodeState.FAILED,
    Verdict.ERROR: NodeState.ERROR,
    Verdict.CANCELLED: NodeState.CANCELLED,
}

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]
Reusable = Mapping[str, str]
"""Validated attempts of the resumed workflow, by input digest."""


class ResultGone(Exception):
    """The attempt that gave a result was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseParts:
    """What every course works with. `turns` bounds the results that are held at once, fairly by user."""

    admission: Admission
    scheduler: Scheduler
    jobs: DatabaseJobStore
    documents: ReadDocuments
    chains: Chains
    store: DatabaseWorkflowStore
    clock: Clock
    turns: FairSemaphore
    numbers: Iterator[int] = field(default_factory=count)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def result(self, attempt_id: str) -> object:
        """Return the result of a validated node. Raises: ResultGone."""
        attempt = await self.jobs.get(attempt_id)
        if attempt is None or attempt.bundle is None:
            raise ResultGone(f"the attempt {attempt_id} or its bundle was removed")
        report, _ = await self.documents(attempt)
        if len(report) > LARGE_BYTES:
            return await asyncio.to_thread(_result_in, report)
        return _result_in(report)


def _result_in(report: bytes) -> object:
    return json.loads(report)["runtime_results"]["cases"][0]["result"]


@dataclass(slots=True)
class Course:
    """A workflow that is carried out. `changed` is given each time that a node gets further."""

    workflow: Workflow
    parts: CourseParts
    reusable: Reusable = field(default_factory=dict)
    changed: Signal = field(default_factory=Signal)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: bool = False
    _ended: dict[str, asyncio.Event] = field(default_factory=dict)
    _submitting: set[asyncio.Task[object]] = field(default_factory=set)

    @property
    def _plan(self) -> Plan:
        return self.workflow.plan

    async def run(self) -> None:
        """Carry all nodes to their ends, as far as time permits."""
        runs = self.workflow.nodes
        self._ended = {node.id: asyncio.Event() for node in self._plan.nodes}
        for name, run in runs.items():
            if run.state.is_final:
                self._ended[name].set()
        left_s = (self.workflow.ends_at - self.parts.clock.now()).total_seconds()
        try:
            async with asyncio.timeout(left_s), asyncio.TaskGroup() as tasks:
                for node in self._plan.nodes:
                    if not runs[node.id].state.is_final:
                        tasks.create_task(self._carry(node), name=f"node-{node.id}")
        except TimeoutError:
            await self.break_off(f"the workflow took longer than {self._plan.timeout_s:g} s")

    async def break_off(self, why: str) -> None:
        """End every node without an end: running attempts are cancelled, and the others never run."""
        if self._submitting:
            await asyncio.wait(self._submitting)
        for run in list(self.workflow.nodes.values()):
            if not run.state.is_final:
                self._set(await self._broken_off(run, why))

    async def _broken_off(self, run: NodeRun, why: str) -> NodeRun:
        """End a node without an end, with its attempt and its repair."""
        parts, at = self.parts, self.parts.clock.now()
        known = await parts.jobs.get(run.attempt_id)
        if known is None:
            return replace(run, state=NodeState.SKIPPED, input_digest=None, detail=why, finished_at=at)
        run = replace(run, input_digest=known.input_digest, finished_at=at)
        if known.verdict is Verdict.VALIDATED:
            return replace(run, state=NodeState.VALIDATED, detail=None)
        parts.scheduler.cancel(run.attempt_id)
        if (repair := await parts.chains.repair_of(run.attempt_id)) is not None:
            parts.chains.end(repair.id)
        return replace(run, state=NodeState.CANCELLED, detail=why)

    def ended(self, at: datetime, verdict: Verdict, detail: str | None) -> Workflow:
        """Return the workflow as it has ended."""
        return replace(self.workflow, verdict=verdict, detail=detail, finished_at=at)

    def _set(self, run: NodeRun) -> None:
        nodes = {**self.workflow.nodes, run.node: run}
        self.workflow = replace(self.workflow, nodes=nodes)
        self.changed.give()

    async def _end(self, run: NodeRun) -> None:
        """Put the end of a node on record, and release those that need it."""
        ended = replace(run, finished_at=self.parts.clock.now())
        await self.parts.store.save_node(self.workflow.id, ended)
        self._set(ended)
        self._ended[run.node].set()

    async def _carry(self, node: Node) -> None:
        for need in node.needs:
            await self._ended[need].wait()
        run = self.workflow.nodes[node.id]
        states = {need: self.workflow.nodes[need].state for need in node.needs}
        without = [need for need, state in states.items() if state is not NodeState.VALIDATED]
        if without:
            detail = f"no result of {', '.join(without)}"
            await self._end(replace(run, state=NodeState.SKIPPED, detail=detail))
            return
        try:
            await self._end(await self._run(node, run))
        except NoSuchPart as missing:
            await self._end(replace(run, state=NodeState.FAILED, detail=str(missing)))
        except (AssaydError, ResultGone) as trouble:
            log.warning("workflow.node_refused", workflow_id=self.workflow.id, node=node.id)
            await self._end(replace(run, state=NodeState.ERROR, detail=str(trouble)))

    async def _run(self, node: Node, run: NodeRun) -> NodeRun:
        """Submit a node and see it to its end. Raises: NoSuchPart, ResultGone, AssaydError."""
        known = await self.parts.jobs.get(run.attempt_id)
        if known is not None:
            run = replace(run, state=NodeState.RUNNING, input_digest=known.input_digest)
            self._set(run)
        else:
            passing = retry_if_exception(_passes)
            retrying = AsyncRetrying(retry=passing, wait=back_off, sleep=self.parts.sleep, reraise=True)
            run = await retrying(self._begin, node, run)
        if run.state.is_final:
            return run
        attempt = await self._judged(run.attempt_id)
        run = replace(run, state=_STATES[attempt.verdict or Verdict.ERROR], detail=_why(attempt))
        if attempt.verdict is Verdict.FAILED and self.workflow.repair is not None:
            return await self._repaired(run)
        return run

    async def _begin(self, node: Node, run: NodeRun) -> NodeRun:
        """Submit a node, or take over an earlier attempt. Few do so at a time: each may hold large inputs.

        Raises: NoSuchPart, ResultGone, AssaydError.
        """
        parts, plan = self.parts, self._plan
        async with parts.turns.hold(self.workflow.peer.uid, self.workflow.id, run.attempt_id):
            inputs = await self._inputs(node)
            document = submission_of(node, plan, inputs, workflow_id=self.workflow.id)
            submission = await parts.admission.read(await asyncio.to_thread(canonical, document))
            run = replace(run, input_digest=submission.input_digest)
            earlier = self.reusable.get(submission.input_digest)
            before = await parts.jobs.get(earlier) if earlier is not None else None
            if before is not None and before.policy == policy_of(node, plan) and before.bundle is not None:
                return replace(run, attempt_id=before.id, reused=True, state=NodeState.VALIDATED)
            if self.workflow.repair is not None:
                document = with_repair(document, self.workflow.repair, node, plan, inputs)
            run = replace(run, state=NodeState.RUNNING)
            self._set(run)
            await self._submit(await asyncio.to_thread(canonical, document), run.attempt_id)
        return run

    async def _inputs(self, node: Node) -> dict[str, object]:
        """Return the inputs of a node; a result that several of them use is read once."""
        results = {need: await self.result(need) for need in node.needs}
        parts = {name: part_of(results[source.node], source) for name, source in node.sources.items()}
        return {**node.values, **parts}

    async def result(self, node: str) -> object:
        """Return the result of a node that was validated. Raises: ResultGone."""
        return await self.parts.result(self.workflow.nodes[node].attempt_id)

    async def outputs(self) -> dict[str, object]:
        """Return the outputs. Raises: NoSuchPart, ResultGone."""
        return await outputs_of(self.workflow, self.parts)

    async def _submit(self, document: bytes, attempt_id: str) -> None:
        """Submit in the owner's name; a cancelled course still completes the submission."""
        origin = AttemptOrigin(peer=self.workflow.peer, attempt_id=attempt_id)
        task = asyncio.create_task(self.parts.admission.submit_document(document, origin))
        self._submitting.add(task)
        task.add_done_callback(self._submitting.discard)
        await asyncio.shield(task)

    async def _judged(self, attempt_id: str) -> Attempt:
        """Wait for the verdict of an attempt. Raises: ResultGone."""
        while True:
            finished = await self.parts.scheduler.wait(attempt_id, WAIT_S)
            attempt = finished.attempt if finished is not None else await self.parts.jobs.get(attempt_id)
            if attempt is None:
                raise ResultGone(f"the attempt {attempt_id} was removed")
            if attempt.state is State.FINISHED:
                return attempt
            if finished is None:
                await self.parts.sleep(LOOK_S)

    async def _repaired(self, run: NodeRun) -> NodeRun:
        """Wait for the repair of a failed node; its fix that passed is then the node's attempt."""
        self._set(replace(run, state=NodeState.REPAIRING))
        while (repair := await self.parts.chains.repair_of(run.attempt_id)) is not None and not repair.ended:
            await self.parts.sleep(LOOK_S)
        if repair is None or repair.attempt_id is None:
            found = "" if repair is None else f"; repair {repair.id} found no fix"
            return replace(run, state=NodeState.FAILED, detail=f"{run.detail}{found}")
        return replace(
            run, state=NodeState.VALIDATED, detail=None, attempt_id=repair.attempt_id, repair_id=repair.id
        )


async def outputs_of(workflow: Workflow, parts: CourseParts) -> dict[str, object]:
    """Return the outputs of a workflow. Raises: NoSuchPart, ResultGone."""
    by_node: dict[str, dict[str, Reference]] = {}
    for name, source in workflow.plan.outputs.items():
        by_node.setdefault(source.node, {})[name] = source
    found: dict[str, object] = {}
    async with parts.turns.hold(workflow.peer.uid, workflow.id, f"outputs {next(parts.numbers)}"):
        for node, sources in by_node.items():
            result = await parts.result(workflow.nodes[node].attempt_id)
            found |= {name: part_of(result, source) for name, source in sources.items()}
    return {name: found[name] for name in workflow.plan.outputs}


def _why(attempt: Attempt) -> str | None:
    """Return why an attempt has no result."""
    if attempt.error is not None:
        return attempt.error.message
    if attempt.verdict is Verdict.FAILED:
        return ", ".join(attempt.rules[:3]) or attempt.cause
    return None


def _passes(refusal: BaseException) -> bool:
    return isinstance(refusal, RequestError) and refusal.retryable
