"""The workflows of this daemon: checked, started, followed, cancelled, resumed, recovered after a restart.

Decides which workflows begin and which verdict they get. Whose a workflow is, the API checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog
from pydantic import ValidationError

from assayd.aio import pause, task_group
from assayd.analysis.analyst import Analyst, WorkerDied
from assayd.documents import canonical, read_json
from assayd.errors import AssaydError, RequestError
from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairWish
from assayd.model.text_limits import SNIPPET_CHARS, shorten
from assayd.ports.chains import RepairRequests
from assayd.ports.clock import Ids
from assayd.ports.driving import ELSEWHERE_S, Driven, Driving
from assayd.store.library import DatabaseLibrary
from assayd_workflows.checking import PLAN
from assayd_workflows.course import Course, CourseParts, ResultGone, outputs_of
from assayd_workflows.model import Node, NodeRun, NodeState, Plan, Reading, Workflow
from assayd_workflows.nodes import KIND, NoSuchPart
from assayd_workflows.reading import READING
from assayd_workflows.store import DatabaseWorkflowStore

log = structlog.get_logger()

CODE_BYTES = 4 * 2**20
"""Code of all nodes of a workflow, that of library entries included."""
PUBLISHED_EVERY_S = 0.2
"""Progress is published no more often than this, except the end."""
_READ = "assayd_workflows.reading:read"
_CHECK = "assayd_workflows.checking:check"

Inputs = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a request asks for: a document, values of inputs in place of the document's, repairs."""

    document: str
    inputs: Inputs
    repair: RepairWish | None = None
    resumes: Workflow | None = None


class Workflows:
    """Implements `ports.workflows.Workflows`."""

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        parts: CourseParts,
        analyst: Analyst,
        library: DatabaseLibrary,
        policies: Callable[[str], ExecutionPolicy],
        repair_requests: RepairRequests,
        ids: Ids,
        driving: Driving,
    ) -> None:
        self._parts = parts
        self._store: DatabaseWorkflowStore = parts.store
        self._clock = parts.clock
        self._analyst = analyst
        self._library = library
        self._policies = policies
        self._repair_requests = repair_requests
        self._ids = ids
        self._driving = driving
        self._courses: dict[str, Course] = {}
        self._carriers: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Workflows]:
        """Carry workflows on while the body runs; at its end they are left for the next run of the daemon."""
        async with task_group() as self._tasks:
            try:
                yield self
            finally:
                for task in self._carriers.values():
                    task.cancel()

    async def recover(self, only: Container[str] | None = None) -> None:
        """Go on with what a previous run has left; `only` those with these ids, unless it is None."""
        unfinished = [one for one in await self._store.unfinished() if only is None or one.id in only]
        for workflow in unfinished:
            await self._start(workflow)
        if unfinished:
            log.warning("workflows.recovered", count=len(unfinished))

    async def check(self, document: str, inputs: Inputs, *, peer: Peer) -> Reading:
        """Judge a document; nothing is run or kept.

        Raises: RequestError ``invalid``, ``policy.unknown``, ``too_large``.
        """
        flow = (peer.uid, f"workflow {peer.pid}")
        try:
            reading = await self._read(_READ, document.encode(), flow)
            if reading.plan is None:
                return _with_snippets(reading, document)
            plan = await self._with_library(_with_inputs(reading.plan, inputs), peer.uid)
            for policy in {plan.policy, *(node.policy for node in plan.nodes if node.policy)}:
                self._policies(policy)
            body = await asyncio.to_thread(PLAN.dump_json, plan)
            return _with_snippets(await self._read(_CHECK, body, flow), document)
        except WorkerDied:
            return Reading(plan=None, findings=(_TOO_MUCH,))

    async def _read(self, reader: str, body: bytes, flow: tuple[int, str]) -> Reading:
        answer = await self._analyst.read(reader, body, flow=flow)
        try:
            return await asyncio.to_thread(READING.validate_json, answer)
        except ValidationError as problem:
            raise AssaydError("analysis.broken", "an analysis worker's answer is malformed") from problem

    async def _with_library(self, plan: Plan, uid: int) -> Plan:
        """Look up the code of library entries. Raises: RequestError ``invalid``, ``too_large``."""
        nodes = [node if node.library is None else await self._looked_up(node, uid) for node in plan.nodes]
        if sum(len(node.code) for node in nodes) > CODE_BYTES:
            message = f"the code of all nodes has more than {CODE_BYTES} bytes"
            raise RequestError("too_large", message, field="document")
        return replace(plan, nodes=tuple(nodes))

    async def _looked_up(self, node: Node, uid: int) -> Node:
        name, _, version = (node.library or "").partition("@")
        newest = await self._library.history(uid, name)
        number = int(version) if version else newest[0].version if newest else 0
        entry = await self._library.entry(uid, name, number)
        if entry is None:
            message = f"node '{node.id}': your library has no {node.library}; see `assay library list`"
            raise RequestError("invalid", message, field="document")
        if entry.kind != KIND:
            message = (
                f"node '{node.id}': {node.library} is of the kind {entry.kind}; only {KIND} can be a node"
            )
            raise RequestError("invalid", message, field="document")
        submitted = read_json(entry.document)
        payload = submitted.get("payload") if isinstance(submitted, dict) else None
        code = payload.get("code") if isinstance(payload, dict) else None
        return replace(node, library=f"{name}@{entry.version}", code=str(code or ""))

    async def begin(self, terms: Terms, peer: Peer) -> Workflow:
        """Record a workflow and start it; one with errors in its check fails at once, and nothing runs.

        Raises: RequestError, as `check`; ``repair.provider_unknown``, ``quota.full``, ``not_ready``.
        """
        if terms.repair is not None:
            self._repair_requests.check(terms.repair)
        self._parts.admission.require_ready()
        size = len(terms.document) + len(canonical(dict(terms.inputs)))
        await self._parts.admission.require_share(peer.uid, size)
        reading = await self.check(terms.document, terms.inputs, peer=peer)
        now, plan = self._clock.now(), reading.plan
        nodes = plan.nodes if plan is not None else ()
        workflow = Workflow(
            id=self._ids.new(),
            peer=peer,
            created_at=now,
            ends_at=now + timedelta(seconds=plan.timeout_s if plan is not None else 0),
            document=terms.document,
            inputs=terms.inputs,
            reading=reading,
            nodes={node.id: NodeRun(node=node.id, attempt_id=self._ids.new()) for node in nodes},
            repair=terms.repair,
            resumes=terms.resumes.id if terms.resumes is not None else None,
        )
        if not reading.is_runnable:
            workflow = _refused(workflow)
        await self._store.add(workflow)
        log.info("workflow.accepted", workflow_id=workflow.id, nodes=len(nodes), refused=workflow.verdict)
        if workflow.verdict is None and await self._driving.take(Driven.WORKFLOW, workflow.id):
            await self._start(workflow)
        return workflow

    async def resume(self, workflow: Workflow, terms: Terms, peer: Peer) -> Workflow:
        """Begin a workflow that takes over the results of an ended one, where code and inputs are the same.

        Raises: RequestError ``workflow.running``; as `begin`.
        """
        if workflow.verdict is None:
            raise RequestError("workflow.running", "the workflow is still running; cancel it, or wait")
        return await self.begin(replace(terms, resumes=workflow), peer)

    async def _start(self, workflow: Workflow) -> None:
        if workflow.id in self._courses:  # recovered while its request was on its way here
            return
        course = self._courses[workflow.id] = Course(workflow, self._parts)
        course.cancelled = workflow.cancelled_at is not None
        task = self._tasks.create_task(self._carry(course), name=f"workflow-{workflow.id}")
        self._carriers[workflow.id] = task

    async def _carry(self, course: Course) -> None:
        workflow_id = course.workflow.id
        try:
            await self._see_through(course)
            await self._finish(course)
        except Exception:
            # An internal bug, or a store in trouble: the next run of the daemon goes on with it.
            log.exception("workflow.broken", workflow_id=workflow_id)
        finally:
            del self._courses[workflow_id], self._carriers[workflow_id]
            course.over.set()
            course.changed.give()

    async def _see_through(self, course: Course) -> None:
        """Run a course until all its nodes have ended, or a user cancels it."""
        try:
            if not course.cancelled:
                course.reusable = await self._reusable(course.workflow)
                await course.run()
        except asyncio.CancelledError:
            if not course.cancelled:
                raise
        if course.cancelled:
            await course.break_off("the workflow was cancelled")

    async def _reusable(self, workflow: Workflow) -> Mapping[str, str]:
        """Return the validated attempts of the resumed workflow, by input digest."""
        earlier = await self._store.get(workflow.resumes) if workflow.resumes is not None else None
        runs = earlier.nodes.values() if earlier is not None else ()
        return {
            run.input_digest: run.attempt_id
            for run in runs
            if run.state is NodeState.VALIDATED and run.input_digest is not None
        }

    async def _finish(self, course: Course) -> None:
        verdict, detail = await self._verdict(course)
        ended = course.ended(self._clock.now(), verdict, detail)
        await self._store.finish(ended)
        course.workflow = ended
        log.info("workflow.finished", workflow_id=ended.id, verdict=verdict.value)

    async def _verdict(self, course: Course) -> tuple[Verdict, str | None]:
        """Decide the verdict: validated if all outputs exist."""
        workflow = course.workflow
        runs = {source.node: workflow.nodes[source.node] for source in workflow.plan.outputs.values()}
        without = [name for name, run in runs.items() if run.state is not NodeState.VALIDATED]
        if course.cancelled and without:
            return Verdict.CANCELLED, "the workflow was cancelled"
        if without:
            ended = {run.state for run in workflow.nodes.values()}
            verdict = (
                Verdict.ERROR
                if NodeState.ERROR in ended and NodeState.FAILED not in ended
                else Verdict.FAILED
            )
            return verdict, _why(workflow, without)
        try:
            await course.outputs()
        except NoSuchPart as missing:
            return Verdict.FAILED, str(missing)
        except ResultGone as gone:
            return Verdict.ERROR, str(gone)
        return Verdict.VALIDATED, None

    async def get(self, workflow_id: str) -> Workflow | None:
        """Return the current state of a workflow by its id; None if there is none."""
        course = self._courses.get(workflow_id)
        return course.workflow if course is not None else await self._store.get(workflow_id)

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Workflow]:
        """Return workflows, newest first."""
        found = await self._store.list(uid=uid, before=before, limit=limit)
        running = self._courses
        return [running[one.id].workflow if one.id in running else one for one in found]

    async def outputs(self, workflow: Workflow) -> Mapping[str, object]:
        """Return the outputs of a validated workflow.

        Raises: RequestError ``workflow.no_outputs``.
        """
        if workflow.verdict is not Verdict.VALIDATED:
            state = workflow.verdict.value if workflow.verdict is not None else "still running"
            raise RequestError("workflow.no_outputs", f"the workflow has no outputs: it is {state}")
        try:
            return await outputs_of(workflow, self._parts)
        except (ResultGone, NoSuchPart) as gone:
            message = f"the outputs no longer exist: {gone}; run the workflow again"
            raise RequestError("workflow.no_outputs", message) from gone

    async def cancel(self, workflow: Workflow) -> None:
        """End a workflow with its running attempts. Raises: RequestError ``workflow.finished``."""
        if workflow.verdict is not None:
            raise RequestError("workflow.finished", "the workflow has ended")
        await self._store.cancel(workflow.id, self._clock.now())
        if not self.end(workflow.id):
            await self._driving.cancel(Driven.WORKFLOW, workflow.id)

    def end(self, workflow_id: str) -> bool:
        """End a workflow that is carried out in this process; return whether it is."""
        course = self._courses.get(workflow_id)
        if course is not None and not course.cancelled:
            course.cancelled = True
            self._carriers[workflow_id].cancel()
        return course is not None

    async def follow(self, workflow_id: str) -> AsyncGenerator[Workflow, None]:
        """Yield a workflow each time that it changes, up to its end."""
        while True:
            course = self._courses.get(workflow_id)
            changed = course.changed.next if course is not None else None
            workflow = await self.get(workflow_id)
            if workflow is None:
                return
            yield workflow
            if workflow.verdict is not None or (course is None and self._driving.alone):
                return
            if course is None or changed is None:
                await asyncio.sleep(ELSEWHERE_S)
                continue
            await changed.wait()
            await pause(PUBLISHED_EVERY_S, unless=course.over)


_TOO_MUCH = Finding(
    rule="workflow.syntax",
    category="workflow",
    message="The workflow can't be analysed: reading it exceeded the limit of time or memory.",
    suggestion="Split the workflow, or make its code smaller and less deeply nested.",
)


def _with_snippets(reading: Reading, document: str) -> Reading:
    """Return the findings with the lines of the document that they are about."""
    lines = document.split("\n")
    found = (
        replace(one, snippet=shorten(lines[one.line - 1].rstrip(), SNIPPET_CHARS))
        if one.line is not None and one.line <= len(lines)
        else one
        for one in reading.findings
    )
    return replace(reading, findings=tuple(found))


def _with_inputs(plan: Plan, inputs: Inputs) -> Plan:
    """Return a plan with values in place of the document's. Raises: RequestError ``invalid``."""
    known = {node.id for node in plan.nodes}
    for name in inputs:
        if name not in known:
            message = f"inputs: the workflow has no node {name[:64]!r}"
            raise RequestError("invalid", message, field=f"inputs.{name[:64]}")
    return replace(plan, nodes=tuple(_given(node, inputs.get(node.id, {})) for node in plan.nodes))


def _given(node: Node, values: Mapping[str, object]) -> Node:
    sources = {name: source for name, source in node.sources.items() if name not in values}
    return replace(node, values={**node.values, **values}, sources=sources)


def _refused(workflow: Workflow) -> Workflow:
    """Return a workflow that its check has refused: it has ended, and nothing ran."""
    at = workflow.created_at
    errors = sum(finding.is_error for finding in workflow.reading.findings)
    detail = f"the check found {errors} error{'' if errors == 1 else 's'}; nothing ran"
    nodes = {
        name: replace(run, state=NodeState.SKIPPED, finished_at=at, detail=detail)
        for name, run in workflow.nodes.items()
    }
    return replace(workflow, nodes=nodes, verdict=Verdict.FAILED, detail=detail, finished_at=at)


def _why(workflow: Workflow, without: Sequence[str]) -> str:
    broken = [
        f"{name} {run.state.value}"
        for name, run in workflow.nodes.items()
        if run.state in {NodeState.FAILED, NodeState.ERROR, NodeState.CANCELLED}
    ]
    why = ", ".join(broken[:10]) or ", ".join(f"{name} has no result" for name in without[:10])
    return f"outputs are missing: {why}"
