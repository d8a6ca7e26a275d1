"""Runs one workflow with one task per node, which waits for the nodes whose results it needs.

This module decides when a node is submitted, and how the node's end affects other nodes. The id of a node's
attempt is chosen before the node is submitted, so repeating the submission after a crash changes nothing.

Pure functions build a node's submission, with inputs from earlier results, and the context of the node's
repair. Results have the form of a case's `result` in the API; tagged values stay tagged. Inputs are JSON
text, because many references can name parts of one result, and the sizes of texts can be added up before
anything is built.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import TypeVar

import structlog
from tenacity import AsyncRetrying, retry_if_exception

from assayd.aio import BroadcastEvent, compute_tenacity_delay_s
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.scheduler import Scheduler
from assayd.clock import Clock
from assayd.documents import canonical
from assayd.errors import AssaydError, RequestError
from assayd.fair_queue import FairSemaphore
from assayd.guest.tagged import TAG, VALUE
from assayd.model.attempt import Attempt, State
from assayd.model.report import Verdict
from assayd.model.submission import RepairOptions, Submission
from assayd.model.text_limits import shorten_text
from assayd.ports.service import Chains
from assayd.store.jobs import DatabaseJobStore
from assayd_workflows.model import (
    RESULT,
    NodeRun,
    NodeState,
    ResultReference,
    Workflow,
    WorkflowNode,
    WorkflowPlan,
)
from assayd_workflows.store import DatabaseWorkflowStore

log = structlog.get_logger()


KIND = "code"
_SAMPLE_CHARS = 600
_CONTEXT_CHARS = 12_000

WAIT_S = 60.0
"""Seconds per wait for the scheduler, which is repeated."""
LOOK_S = 0.5
"""Seconds between two checks of a repair, or of an attempt that another process runs."""
MAX_CONCURRENT_STARTS = 8
"""Maximum number of nodes of one workflow to submit concurrently, so that the queue stays short."""
OUTPUTS_BYTES = 16 * 2**20
"""Maximum total size of a workflow's outputs."""
_STATE_BY_VERDICT = {
    Verdict.VALIDATED: NodeState.VALIDATED,
    Verdict.FAILED: NodeState.FAILED,
    Verdict.ERROR: NodeState.ERROR,
    Verdict.CANCELLED: NodeState.CANCELLED,
}

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]
ReusableNodes = Mapping[str, NodeRun]
"""The validated nodes of the resumed workflow, by input digest."""
T = TypeVar("T")


class MissingResultPart(Exception):
    """The error for a reference to a part that a result doesn't have."""


class ResultPartsTooLarge(Exception):
    """The error for referenced parts of results that exceed the size limit in total."""


@dataclass(slots=True)
class SizeBudget:
    """The number of bytes available for referenced parts. `what` describes the parts in messages."""

    what: str
    most: int
    used: int = 0

    def spend(self, size: int) -> None:
        """Add `size` bytes to the bytes used. Raises: ResultPartsTooLarge, if the sum exceeds the limit."""
        self.used += size
        if self.used > self.most:
            raise ResultPartsTooLarge(
                f"{self.what} have more than {self.most} bytes; refer to parts of the results"
            )


def extract_texts(
    result: object, sources: Mapping[str, ResultReference], room: SizeBudget
) -> dict[str, bytes]:
    """Return parts of one result as JSON text, keyed by name. Each part counts for each of its names.

    Raises: MissingResultPart, if a part doesn't exist; ResultPartsTooLarge, if `room` is exceeded.
    """
    written: dict[tuple[str, ...], bytes] = {}
    found: dict[str, bytes] = {}
    for name, source in sources.items():
        if source.path not in written:
            written[source.path] = canonical(resolve_reference(result, source))
        found[name] = written[source.path]
        room.spend(len(found[name]))
    return found


def join_json_members(members: Mapping[str, bytes]) -> bytes:
    """Return a JSON object whose members' values are JSON texts."""
    return b"{%b}" % b",".join(b"%b:%b" % (canonical(name), text) for name, text in members.items())


def resolve_reference(result: object, source: ResultReference) -> object:
    """Return the part of a result that a reference names. Raises: MissingResultPart, if it doesn't exist."""
    found, done = result, f"{source.node}.{RESULT}"
    for step in source.path:
        inner = found
        if isinstance(inner, dict) and inner.keys() == {TAG, VALUE} and isinstance(inner[VALUE], list):
            inner = inner[VALUE]  # a tuple, for example
        if isinstance(inner, dict) and TAG not in inner and step in inner:
            found = inner[step]
        elif isinstance(inner, list) and step.isascii() and step.isdigit() and int(step[:9]) < len(inner):
            found = inner[int(step[:9])]
        else:
            raise MissingResultPart(f"{done} has no {shorten_text(step, 64)!r}; it {_describe_value(inner)}")
        done = f"{done}.{step}"
    return found


def _describe_value(value: object) -> str:
    if isinstance(value, dict) and TAG not in value:
        return (
            f"has the keys {shorten_text(', '.join(map(str, list(value)[:20])), 200)}"
            if value
            else "is empty"
        )
    if isinstance(value, list):
        return f"has {len(value)} elements"
    return "has no parts"


def build_submission(
    node: WorkflowNode,
    plan: WorkflowPlan,
    inputs: Mapping[str, bytes],
    *,
    workflow_id: str,
    repair: RepairOptions | None = None,
) -> bytes:
    """Return a node's submission as JSON. With `repair`, its intent describes the other nodes."""
    payload: dict[str, object] = {"code": node.code}
    if node.timeout_s is not None:
        payload["timeout_s"] = node.timeout_s
    submission: dict[str, object] = {
        "kind": KIND,
        "policy": resolve_effective_policy(node, plan),
        "labels": {"workflow": workflow_id, "node": node.id},
    }
    if repair is not None:
        words = "\n".join(_build_context(node, plan, inputs))
        submission["intent"] = shorten_text(words, _CONTEXT_CHARS)
        submission["repair"] = {"provider": repair.provider, "max_attempts": repair.max_attempts}
    texts = {name: canonical(value) for name, value in payload.items()}
    whole = {name: canonical(value) for name, value in submission.items()}
    return join_json_members(
        {**whole, "payload": join_json_members({**texts, "inputs": join_json_members(inputs)})}
    )


def resolve_effective_policy(node: WorkflowNode, plan: WorkflowPlan) -> str:
    """Return the node's policy, or the workflow's policy if the node doesn't name one."""
    return node.policy or plan.policy


def _build_context(node: WorkflowNode, plan: WorkflowPlan, inputs: Mapping[str, bytes]) -> Iterator[str]:
    yield f"This code is the node '{node.id}' of a workflow{f' named {plan.name}' if plan.name else ''}."
    nodes = {one.id: one for one in plan.nodes}
    for name, source in node.sources.items():
        declared = nodes[source.node].declared.get(RESULT, "unknown")
        beginning = inputs[name][: 4 * _SAMPLE_CHARS].decode("utf-8", "ignore")
        sample = shorten_text(beginning, _SAMPLE_CHARS)
        yield f"Its input '{name}' is {source.text} (that result is declared as {declared}), e.g. {sample}"
    for one in plan.nodes:
        for name, source in one.sources.items():
            if source.node == node.id:
                declared = one.declared.get(name, "unknown")
                yield f"{source.text} is the input '{name}' of node '{one.id}', declared as {declared}."
    for name, source in plan.outputs.items():
        if source.node == node.id:
            yield f"{source.text} is the output '{name}' of the workflow."
    yield "Keep the names of the inputs and the type of the result, because the other nodes rely on them."


class ResultRemoved(Exception):
    """An error raised if the attempt with the required result, or its bundle, was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRunParts:
    """The components that all workflow runs have in common.

    `turns` limits the number of results that are held at once, with fairness between users; `inputs_bytes`
    limits the inputs of a node.
    """

    admission: Admission
    scheduler: Scheduler
    jobs: DatabaseJobStore
    documents: ReadDocuments
    chains: Chains
    store: DatabaseWorkflowStore
    clock: Clock
    turns: FairSemaphore
    inputs_bytes: int
    numbers: Iterator[int] = field(default_factory=count)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def read_texts(
        self, workflow: Workflow, sources: Mapping[str, ResultReference], room: SizeBudget
    ) -> dict[str, bytes]:
        """Return parts of results as JSON text, keyed by name. Only one result is held at a time.

        Raises: MissingResultPart, if a part doesn't exist; ResultPartsTooLarge, if `room` is exceeded;
        ResultRemoved, if an attempt or its bundle was removed.
        """
        by_node: dict[str, dict[str, ResultReference]] = {}
        for name, source in sources.items():
            by_node.setdefault(source.node, {})[name] = source
        found: dict[str, bytes] = {}
        for node, wanted in by_node.items():
            attempt_id = workflow.nodes[node].attempt_id
            attempt = await self.jobs.get(attempt_id)
            if attempt is None or attempt.bundle is None:
                raise ResultRemoved(f"the attempt {attempt_id} or its bundle was removed")
            found |= await self.read_from_report(attempt, partial(_extract_texts, wanted, room))
        return {name: found[name] for name in sources}

    async def read_from_report(self, attempt: Attempt, read: Callable[[bytes], T]) -> T:
        """Return a value from an attempt's report. Users take turns to read large reports in a thread."""
        report, _ = await self.documents(attempt)
        return await self.scheduler.budget.parse_in_turn(report, attempt.peer.uid, read)


def _extract_texts(
    sources: Mapping[str, ResultReference], room: SizeBudget, report: bytes
) -> dict[str, bytes]:
    return extract_texts(json.loads(report)["runtime_results"]["cases"][0]["result"], sources, room)


def _extract_policy_digest(report: bytes) -> object:
    return json.loads(report)["policy_digest"]


@dataclass(slots=True)
class WorkflowRun:
    """A running workflow. `changed` is signaled whenever the state of a node changes."""

    workflow: Workflow
    plan: WorkflowPlan
    parts: WorkflowRunParts
    reusable: ReusableNodes = field(default_factory=dict)
    changed: BroadcastEvent = field(default_factory=BroadcastEvent)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: bool = False
    _ended: dict[str, asyncio.Event] = field(default_factory=dict)
    _submitting: set[asyncio.Task[object]] = field(default_factory=set)
    _starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_STARTS))

    async def run(self) -> None:
        """Run all nodes until they have ended or the time limit is reached."""
        runs = self.workflow.nodes
        self._ended = {node.id: asyncio.Event() for node in self.plan.nodes}
        for name, run in runs.items():
            if run.state.is_final:
                self._ended[name].set()
        left_s = (self.workflow.ends_at - self.parts.clock.now()).total_seconds()
        try:
            async with asyncio.timeout(left_s), asyncio.TaskGroup() as tasks:
                for node in self.plan.nodes:
                    if not runs[node.id].state.is_final:
                        tasks.create_task(self._run_node_to_end(node), name=f"node-{node.id}")
        except TimeoutError:
            await self.abort(f"the workflow took longer than {self.plan.timeout_s:g} s")

    async def abort(self, why: str) -> None:
        """End all unfinished nodes: cancel running attempts, and skip nodes that have no attempt."""
        if self._submitting:
            await asyncio.wait(self._submitting)
        for run in list(self.workflow.nodes.values()):
            if not run.state.is_final:
                self._update_node_run(await self._abort_node(run, why))

    async def _abort_node(self, run: NodeRun, why: str) -> NodeRun:
        """End an unfinished node with its attempt and repair, and return its final state.

        The state is validated if the attempt is validated, and skipped if the node has no attempt.
        """
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
        """Return the workflow with this verdict, detail and end time."""
        return replace(self.workflow, verdict=verdict, detail=detail, finished_at=at)

    def _update_node_run(self, run: NodeRun) -> None:
        nodes = {**self.workflow.nodes, run.node: run}
        self.workflow = replace(self.workflow, nodes=nodes)
        self.changed.wake_all()

    async def _record_node_end(self, run: NodeRun) -> None:
        """Record the end of a node, and release the nodes that depend on it."""
        ended = replace(run, finished_at=self.parts.clock.now())
        await self.parts.store.save_node(self.workflow.id, ended)
        self._update_node_run(ended)
        self._ended[run.node].set()

    async def _run_node_to_end(self, node: WorkflowNode) -> None:
        for need in node.needs:
            await self._ended[need].wait()
        run = self.workflow.nodes[node.id]
        states = {need: self.workflow.nodes[need].state for need in node.needs}
        without = [need for need, state in states.items() if state is not NodeState.VALIDATED]
        if without:
            detail = f"no result of {', '.join(without)}"
            await self._record_node_end(replace(run, state=NodeState.SKIPPED, detail=detail))
            return
        try:
            await self._record_node_end(await self._run_node(node, run))
        except (MissingResultPart, ResultPartsTooLarge) as fault:
            await self._record_node_end(replace(run, state=NodeState.FAILED, detail=str(fault)))
        except (AssaydError, ResultRemoved) as trouble:
            log.warning("workflow.node_refused", workflow_id=self.workflow.id, node=node.id)
            await self._record_node_end(replace(run, state=NodeState.ERROR, detail=str(trouble)))

    async def _run_node(self, node: WorkflowNode, run: NodeRun) -> NodeRun:
        """Submit a node unless its attempt exists, and wait for its end.

        Raises: the errors of `_start_node`.
        """
        known = await self.parts.jobs.get(run.attempt_id)
        if known is not None:
            run = replace(run, state=NodeState.RUNNING, input_digest=known.input_digest)
            self._update_node_run(run)
        else:
            passing = retry_if_exception(_is_retryable)
            retrying = AsyncRetrying(
                retry=passing, wait=compute_tenacity_delay_s, sleep=self.parts.sleep, reraise=True
            )
            run = await retrying(self._start_node, node, run)
        if run.state.is_final:
            return run
        attempt = await self._wait_for_verdict(run.attempt_id)
        run = replace(
            run,
            state=_STATE_BY_VERDICT[attempt.verdict or Verdict.ERROR],
            detail=_explain_missing_result(attempt),
        )
        if attempt.verdict is Verdict.FAILED and self.workflow.repair is not None:
            return await self._wait_for_repair(run)
        return run

    async def _start_node(self, node: WorkflowNode, run: NodeRun) -> NodeRun:
        """Submit a node or reuse an earlier attempt, with limited concurrency, because inputs can be large.

        Raises: the errors of `WorkflowRunParts.read_texts`; AssaydError, if the submission is rejected.
        """
        parts, workflow = self.parts, self.workflow
        async with self._starting, parts.turns.hold(workflow.peer.uid, workflow.id, run.attempt_id):
            document = await self._build_submission(node)
            try:
                submission = await parts.admission.read_submission_in_turn(document, workflow.peer.uid)
            except RequestError as refusal:
                raise _to_node_error(refusal, node) from refusal
            run = replace(run, input_digest=submission.input_digest)
            earlier = self.reusable.get(submission.input_digest)
            if earlier is not None and await self._is_reusable(earlier.attempt_id, submission):
                taken = replace(earlier, node=node.id, reused=True, detail=None)
                return replace(taken, input_digest=submission.input_digest)
            run = replace(run, state=NodeState.RUNNING)
            self._update_node_run(run)
            await self._submit_document(document, run.attempt_id)
        return run

    async def _build_submission(self, node: WorkflowNode) -> bytes:
        """Build the submission of a node. Raises: the errors of `WorkflowRunParts.read_texts`."""
        room = SizeBudget(f"the inputs of node '{node.id}'", self.parts.inputs_bytes)
        inputs = await asyncio.to_thread(_encode_values, node.values, room)
        inputs |= await self.parts.read_texts(self.workflow, node.sources, room)
        workflow = self.workflow
        return await asyncio.to_thread(
            build_submission, node, self.plan, inputs, workflow_id=workflow.id, repair=workflow.repair
        )

    async def _is_reusable(self, attempt_id: str, submission: Submission) -> bool:
        """Return whether an attempt is validated, trusted, approvable and stored, with an equal policy."""
        before = await self.parts.jobs.get(attempt_id)
        if (
            before is None
            or before.bundle is None
            or before.verdict is not Verdict.VALIDATED
            or before.distrusted_at is not None
            or not before.approvable
            or before.policy != submission.policy
        ):
            return False
        digest = self.parts.admission.policy(submission).digest
        return await self.parts.read_from_report(before, _extract_policy_digest) == digest

    async def _submit_document(self, document: bytes, attempt_id: str) -> None:
        """Submit a document as the owner. If this task is cancelled, the submission still completes."""
        origin = AttemptOrigin(peer=self.workflow.peer, attempt_id=attempt_id)
        task = asyncio.create_task(self.parts.admission.submit_document(document, origin))
        self._submitting.add(task)
        task.add_done_callback(self._submitting.discard)
        await asyncio.shield(task)

    async def _wait_for_verdict(self, attempt_id: str) -> Attempt:
        """Wait for an attempt's verdict, and return the attempt. Raises: ResultRemoved, if it was removed."""
        while True:
            finished = await self.parts.scheduler.wait(attempt_id, WAIT_S)
            attempt = finished.attempt if finished is not None else await self.parts.jobs.get(attempt_id)
            if attempt is None:
                raise ResultRemoved(f"the attempt {attempt_id} was removed")
            if attempt.state is State.FINISHED:
                return attempt
            if finished is None:
                await self.parts.sleep(LOOK_S)

    async def _wait_for_repair(self, run: NodeRun) -> NodeRun:
        """Wait for the repair of a failed node.

        If a fix succeeds, it becomes the node's attempt; otherwise the node fails.
        """
        self._update_node_run(replace(run, state=NodeState.REPAIRING))
        while (repair := await self.parts.chains.repair_of(run.attempt_id)) is not None and not repair.ended:
            await self.parts.sleep(LOOK_S)
        if repair is None or repair.attempt_id is None:
            found = "" if repair is None else f"; repair {repair.id} found no fix"
            return replace(run, state=NodeState.FAILED, detail=f"{run.detail}{found}")
        return replace(
            run, state=NodeState.VALIDATED, detail=None, attempt_id=repair.attempt_id, repair_id=repair.id
        )


async def load_outputs(workflow: Workflow, parts: WorkflowRunParts) -> dict[str, bytes]:
    """Return the outputs of a workflow as JSON texts.

    Raises: the errors of `WorkflowRunParts.read_texts`.
    """
    async with parts.turns.hold(workflow.peer.uid, workflow.id, f"outputs {next(parts.numbers)}"):
        return await parts.read_texts(
            workflow, workflow.outline.outputs, SizeBudget("the outputs", OUTPUTS_BYTES)
        )


def _to_node_error(refusal: RequestError, node: WorkflowNode) -> Exception:
    """Return ResultPartsTooLarge if a submission was rejected as too large, otherwise the original error."""
    if refusal.code != "too_large":
        return refusal
    return ResultPartsTooLarge(f"node '{node.id}' and its inputs are too large: {refusal.message}")


def _encode_values(values: Mapping[str, object], room: SizeBudget) -> dict[str, bytes]:
    texts = {name: canonical(value) for name, value in values.items()}
    room.spend(sum(map(len, texts.values())))
    return texts


def _explain_missing_result(attempt: Attempt) -> str | None:
    """Return an attempt's error or failed rules, or None if the attempt is validated or cancelled."""
    if attempt.error is not None:
        return attempt.error.message
    if attempt.verdict is Verdict.FAILED:
        return ", ".join(attempt.rules[:3]) or attempt.cause
    return None


def _is_retryable(refusal: BaseException) -> bool:
    return isinstance(refusal, RequestError) and refusal.retryable
