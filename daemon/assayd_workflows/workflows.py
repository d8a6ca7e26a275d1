"""Manages this daemon's workflows: checks, starts, follows, cancels, resumes and recovers workflows.

This module decides which workflows begin, and determines their verdicts. The API checks the owner of a
workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

import structlog
from pydantic import ValidationError

from assayd.aio import open_task_group, pause
from assayd.analysis.analyst import Analyst, WorkerDiedError
from assayd.clock import IdSource
from assayd.documents import parse_json
from assayd.errors import AssaydError, RequestError, StoreError
from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairOptions
from assayd.model.text_limits import SNIPPET_CHARS, shorten_text
from assayd.ports.driving import ELSEWHERE_S, WorkAssignment, WorkKind
from assayd.ports.service import RepairRequests
from assayd.store.library import DatabaseLibrary
from assayd_workflows.checking import PLAN
from assayd_workflows.course import (
    KIND,
    MissingResultPart,
    ResultPartsTooLarge,
    ResultRemoved,
    WorkflowRun,
    WorkflowRunParts,
    join_json_members,
    load_outputs,
)
from assayd_workflows.model import (
    Inputs,
    NodeRun,
    NodeState,
    PlanReading,
    Workflow,
    WorkflowOutline,
    WorkflowPlan,
)
from assayd_workflows.reading import READING
from assayd_workflows.store import DatabaseWorkflowStore, WorkflowContents, WorkflowPage

log = structlog.get_logger()

MAX_CODE_BYTES = 4 * 2**20
"""Maximum total size of the code of a workflow's nodes, including library entries."""
MIN_PROGRESS_PERIOD_S = 0.2
"""Minimum number of seconds between two progress events, except for the end."""
_READ_FUNCTION = "assayd_workflows.reading:read_document"
_CHECK_FUNCTION = "assayd_workflows.checking:check_workflow"

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRequest:
    """A request for a workflow: a document, input values that override its values, and repair options."""

    document: str
    inputs: Inputs
    repair: RepairOptions | None = None
    resumes: str | None = None


class WorkflowManager:
    """The manager of this daemon's workflows. It implements `ports.chains.Workflows`."""

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        parts: WorkflowRunParts,
        analyst: Analyst,
        library: DatabaseLibrary,
        policies: Callable[[str], ExecutionPolicy],
        repair_requests: RepairRequests,
        ids: IdSource,
        driving: WorkAssignment,
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
        self._courses: dict[str, WorkflowRun] = {}
        self._run_tasks: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[WorkflowManager]:
        """Run workflows while the body runs. Unfinished ones continue after the daemon's next start."""
        async with open_task_group() as self._tasks:
            try:
                yield self
            finally:
                for task in self._run_tasks.values():
                    task.cancel()

    async def recover_unfinished(self, only: Container[str] | None = None) -> None:
        """Continue unfinished workflows of an earlier process, or `only` those with the given ids."""
        unfinished = [one for one in await self._store.list_unfinished() if only is None or one.id in only]
        for workflow in unfinished:
            contents = await self._store.contents(workflow.id)
            if contents is not None:
                plan = await self._run_in_fair_turn(workflow.peer.uid, WorkflowContents.read_plan, contents)
                self._start_run(workflow, plan)
        if unfinished:
            log.warning("workflows.recovered", count=len(unfinished))

    async def check(self, document: str, inputs: Inputs, *, peer: Peer) -> PlanReading:
        """Check a document without running or storing anything.

        If the check exceeds the limits of the analysis worker, the result is a finding.

        Raises: RequestError ``invalid``, for unknown nodes or library entries; ``policy.unknown``;
        ``too_large``, if the nodes' code exceeds `MAX_CODE_BYTES` bytes.
        """
        flow = (peer.uid, f"workflow {peer.pid}")
        try:
            reading = await self._read_document(_READ_FUNCTION, document.encode(), flow)
            if reading.plan is None:
                return _add_snippets(reading, document)
            _reject_unknown_nodes(reading.plan, inputs)
            plan = await self._resolve_library(reading.plan.with_inputs(inputs), peer.uid)
            for policy in {plan.policy, *(node.policy for node in plan.nodes if node.policy)}:
                self._policies(policy)
            body = await self._run_in_fair_turn(peer.uid, PLAN.dump_json, plan)
            return _add_snippets(await self._read_document(_CHECK_FUNCTION, body, flow), document)
        except WorkerDiedError:
            return PlanReading(plan=None, findings=(_ANALYSIS_LIMIT_FINDING,))

    async def _read_document(self, reader: str, body: bytes, flow: tuple[int, str]) -> PlanReading:
        answer = await self._analyst.read(reader, body, flow=flow)
        try:
            return await self._run_in_fair_turn(flow[0], READING.validate_json, answer)
        except ValidationError as problem:
            raise AssaydError("analysis.broken", "an analysis worker's answer is malformed") from problem

    async def _run_in_fair_turn(self, uid: int, work: Callable[[A], T], argument: A) -> T:
        """Run a long operation in a thread, for which users take turns."""
        async with self._parts.scheduler.budget.wait_to_parse(uid):
            return await asyncio.to_thread(work, argument)

    async def _resolve_library(self, plan: WorkflowPlan, uid: int) -> WorkflowPlan:
        """Load the code of library entries, each once, into a copy of the plan.

        Raises: RequestError ``invalid``, if an entry can't be used; ``too_large``, above `MAX_CODE_BYTES`
        bytes.
        """
        known: dict[str, tuple[str, str]] = {}
        nodes, size = [], 0
        for node in plan.nodes:
            if node.library is None:
                nodes.append(node)
            else:
                if node.library not in known:
                    known[node.library] = await self._fetch_entry(node.id, node.library, uid)
                library, code = known[node.library]
                nodes.append(replace(node, library=library, code=code))
            size += len(nodes[-1].code)
            if size > MAX_CODE_BYTES:
                message = f"the code of all nodes has more than {MAX_CODE_BYTES} bytes"
                raise RequestError("too_large", message, field="document")
        return replace(plan, nodes=tuple(nodes))

    async def _fetch_entry(self, node: str, library: str, uid: int) -> tuple[str, str]:
        """Return a library entry's name with its version, and its code. Only one entry is read at a time.

        Raises: RequestError ``invalid``, if the entry doesn't exist or is of another kind.
        """
        name, _, version = library.partition("@")
        newest = [] if version else await self._library.list_versions(uid, name)
        number = int(version) if version else newest[0].version if newest else 0
        async with self._parts.scheduler.budget.wait_to_parse(uid):
            entry = await self._library.entry(uid, name, number)
            if entry is None:
                message = f"node '{node}': your library has no {library}; see `assay library list`"
                raise RequestError("invalid", message, field="document")
            if entry.kind != KIND:
                message = f"node '{node}': {library} is of the kind {entry.kind}; only {KIND} can be a node"
                raise RequestError("invalid", message, field="document")
            return f"{name}@{entry.version}", await asyncio.to_thread(_extract_code, entry.document)

    async def begin(self, terms: WorkflowRequest, peer: Peer) -> Workflow:
        """Record and start a workflow. If its check has errors, it fails without running.

        Raises: the same errors as `check`; RequestError ``repair.provider_unknown``, ``quota.full``,
        ``not_ready``.
        """
        if terms.repair is not None:
            self._repair_requests.check(terms.repair)
        self._parts.admission.require_ready()
        reading = await self.check(terms.document, terms.inputs, peer=peer)
        now, plan = self._clock.now(), reading.plan
        contents = await self._run_in_fair_turn(
            peer.uid, lambda plan: WorkflowContents.written(terms.document, terms.inputs, plan), plan
        )
        await self._parts.admission.require_quota(peer.uid, len(contents.document) + len(contents.inputs))
        outline = plan.outline if plan is not None else WorkflowOutline()
        workflow = Workflow(
            id=self._ids.new(),
            peer=peer,
            created_at=now,
            ends_at=now + timedelta(seconds=plan.timeout_s if plan is not None else 0),
            outline=outline,
            findings=reading.findings,
            nodes={node.id: NodeRun(node=node.id, attempt_id=self._ids.new()) for node in outline.nodes},
            repair=terms.repair,
            resumes=terms.resumes,
        )
        runs = plan is not None and reading.is_runnable
        if not runs:
            workflow = _to_rejected_workflow(workflow)
        await self._store.add(workflow, contents)
        log.info("workflow.accepted", workflow_id=workflow.id, nodes=len(outline.nodes), refused=not runs)
        if plan is not None and runs and await self._driving.claim(WorkKind.WORKFLOW, workflow.id):
            self._start_run(workflow, plan)
        return workflow

    async def resume(
        self,
        workflow: Workflow,
        document: str | None,
        inputs: Inputs | None,
        repair: RepairOptions | None,
        peer: Peer,
    ) -> Workflow:
        """Begin a workflow whose nodes reuse an ended workflow's results if code and inputs are equal.

        None means the ended workflow's value. Raises: RequestError ``workflow.running``; the same errors as
        `begin`.
        """
        if workflow.verdict is None:
            raise RequestError("workflow.running", "the workflow is still running; cancel it, or wait")
        contents = await self.contents(workflow)
        terms = WorkflowRequest(
            document=contents.document if document is None else document,
            inputs=await self._run_in_fair_turn(peer.uid, WorkflowContents.read_inputs, contents)
            if inputs is None
            else inputs,
            repair=repair,
            resumes=workflow.id,
        )
        return await self.begin(terms, peer)

    async def contents(self, workflow: Workflow) -> WorkflowContents:
        """Return the source of a workflow. Raises: RequestError ``not_found``, if it was removed."""
        found = await self._store.contents(workflow.id)
        if found is None:
            raise RequestError("not_found", f"workflow {workflow.id} doesn't exist")
        return found

    def _start_run(self, workflow: Workflow, plan: WorkflowPlan) -> None:
        if workflow.id in self._courses:  # recovered while this request was on its way
            return
        course = self._courses[workflow.id] = WorkflowRun(workflow, plan, self._parts)
        course.cancelled = workflow.cancelled_at is not None
        task = self._tasks.create_task(self._run_and_record_end(course), name=f"workflow-{workflow.id}")
        self._run_tasks[workflow.id] = task

    async def _run_and_record_end(self, course: WorkflowRun) -> None:
        workflow_id = course.workflow.id
        try:
            await self._run_until_ended(course)
            await self._finish_run(course)
        except Exception as trouble:
            log.exception("workflow.broken", workflow_id=workflow_id)
            # The store may recover: the daemon's next run continues the workflow.
            if not _is_store_error(trouble):
                await self._end_with_error(course)
        finally:
            del self._courses[workflow_id], self._run_tasks[workflow_id]
            course.over.set()
            course.changed.wake_all()

    async def _end_with_error(self, course: WorkflowRun) -> None:
        """End a workflow with an internal error, because otherwise it would stay unfinished."""
        message = "an internal error; operators: see the daemon's log"
        try:
            await course.abort(message)
            await self._record_end(course, Verdict.ERROR, message)
        except Exception:
            log.exception("workflow.broken", workflow_id=course.workflow.id)

    async def _run_until_ended(self, course: WorkflowRun) -> None:
        """Run a workflow until all its nodes have ended or a user cancels it."""
        try:
            if not course.cancelled:
                course.reusable = await self._find_reusable_nodes(course.workflow)
                await course.run()
        except asyncio.CancelledError:
            if not course.cancelled:
                raise
        if course.cancelled:
            await course.abort("the workflow was cancelled")

    async def _find_reusable_nodes(self, workflow: Workflow) -> Mapping[str, NodeRun]:
        """Return the validated nodes of the workflow to resume (none without one), keyed by input digest."""
        earlier = await self._store.get(workflow.resumes) if workflow.resumes is not None else None
        runs = earlier.nodes.values() if earlier is not None else ()
        return {
            run.input_digest: run
            for run in runs
            if run.state is NodeState.VALIDATED and run.input_digest is not None
        }

    async def _finish_run(self, course: WorkflowRun) -> None:
        await self._record_end(course, *await self._decide_verdict(course))

    async def _record_end(self, course: WorkflowRun, verdict: Verdict, detail: str | None) -> None:
        ended = course.ended(self._clock.now(), verdict, detail)
        await self._store.finish(ended)
        course.workflow = ended
        log.info("workflow.finished", workflow_id=ended.id, verdict=verdict.value)

    async def _decide_verdict(self, course: WorkflowRun) -> tuple[Verdict, str | None]:
        """Return the verdict and its reason, or VALIDATED and None if all outputs exist."""
        workflow = course.workflow
        runs = {source.node: workflow.nodes[source.node] for source in workflow.outline.outputs.values()}
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
            return verdict, _explain_missing_outputs(workflow, without)
        try:
            await load_outputs(workflow, self._parts)
        except (MissingResultPart, ResultPartsTooLarge) as fault:
            return Verdict.FAILED, str(fault)
        except ResultRemoved as gone:
            return Verdict.ERROR, str(gone)
        return Verdict.VALIDATED, None

    async def get(self, workflow_id: str) -> Workflow | None:
        """Return the current state of the workflow with this id, or None if it doesn't exist."""
        course = self._courses.get(workflow_id)
        return course.workflow if course is not None else await self._store.get(workflow_id)

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> WorkflowPage:
        """Return a page of workflows without findings, newest first, with current states."""
        page = await self._store.list(uid=uid, before=before, limit=limit)
        running = self._courses
        found = [
            replace(running[one.id].workflow, findings=()) if one.id in running else one
            for one in page.workflows
        ]
        return replace(page, workflows=found)

    def require_outputs(self, workflow: Workflow) -> None:
        """Raise RequestError ``workflow.no_outputs`` if a workflow isn't validated."""
        if workflow.verdict is not Verdict.VALIDATED:
            state = workflow.verdict.value if workflow.verdict is not None else "still running"
            raise RequestError("workflow.no_outputs", f"the workflow has no outputs: it is {state}")

    async def outputs(self, workflow: Workflow) -> bytes:
        """Return the outputs as a JSON document.

        Raises: RequestError ``workflow.no_outputs``, if a result was removed or the outputs are too large.
        """
        try:
            outputs = await load_outputs(workflow, self._parts)
        except (ResultRemoved, MissingResultPart, ResultPartsTooLarge) as gone:
            message = f"the outputs no longer exist: {gone}; run the workflow again"
            raise RequestError("workflow.no_outputs", message) from gone
        return await asyncio.to_thread(lambda: join_json_members({"outputs": join_json_members(outputs)}))

    async def cancel(self, workflow: Workflow) -> None:
        """End a workflow and its running attempts.

        Raises: RequestError ``workflow.finished``, if it has ended.
        """
        if workflow.verdict is not None:
            raise RequestError("workflow.finished", "the workflow has ended")
        await self._store.cancel(workflow.id, self._clock.now())
        if not self.end(workflow.id):
            await self._driving.request_cancel(WorkKind.WORKFLOW, workflow.id)

    def end(self, workflow_id: str) -> bool:
        """End a workflow if it runs in this process, and return whether it does."""
        course = self._courses.get(workflow_id)
        if course is not None and not course.cancelled:
            course.cancelled = True
            self._run_tasks[workflow_id].cancel()
        return course is not None

    async def follow(self, workflow_id: str) -> AsyncGenerator[Workflow, None]:
        """Yield a workflow's current state, and then each change until it ends.

        Yield nothing if it doesn't exist.
        """
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
            await pause(MIN_PROGRESS_PERIOD_S, unless=course.over)


_ANALYSIS_LIMIT_FINDING = Finding(
    rule="workflow.syntax",
    category="workflow",
    message="The workflow can't be analysed: reading it exceeded the limit of time or memory.",
    suggestion="Split the workflow, or make its code smaller and less deeply nested.",
)


def _add_snippets(reading: PlanReading, document: str) -> PlanReading:
    """Add the referenced lines of the document to the findings as snippets."""
    lines = document.split("\n")
    found = (
        replace(one, snippet=shorten_text(lines[one.line - 1].rstrip(), SNIPPET_CHARS))
        if one.line is not None and one.line <= len(lines)
        else one
        for one in reading.findings
    )
    return replace(reading, findings=tuple(found))


def _reject_unknown_nodes(plan: WorkflowPlan, inputs: Inputs) -> None:
    """Raise RequestError ``invalid`` if inputs belong to a node that the plan doesn't contain."""
    known = {node.id for node in plan.nodes}
    for name in inputs:
        if name not in known:
            message = f"inputs: the workflow has no node {name[:64]!r}"
            raise RequestError("invalid", message, field=f"inputs.{name[:64]}")


def _extract_code(submission: bytes) -> str:
    read = parse_json(submission)
    payload = read.get("payload") if isinstance(read, dict) else None
    code = payload.get("code") if isinstance(payload, dict) else None
    return str(code or "")


def _is_store_error(trouble: BaseException) -> bool:
    if isinstance(trouble, BaseExceptionGroup):
        return trouble.subgroup(StoreError) is not None
    return isinstance(trouble, StoreError)


def _to_rejected_workflow(workflow: Workflow) -> Workflow:
    """Return the workflow as ended, because its check found errors and no node ran."""
    at = workflow.created_at
    errors = sum(finding.is_error for finding in workflow.findings)
    detail = f"the check found {errors} error{'' if errors == 1 else 's'}; nothing ran"
    nodes = {
        name: replace(run, state=NodeState.SKIPPED, finished_at=at, detail=detail)
        for name, run in workflow.nodes.items()
    }
    return replace(workflow, nodes=nodes, verdict=Verdict.FAILED, detail=detail, finished_at=at)


def _explain_missing_outputs(workflow: Workflow, without: Sequence[str]) -> str:
    broken = [
        f"{name} {run.state.value}"
        for name, run in workflow.nodes.items()
        if run.state in {NodeState.FAILED, NodeState.ERROR, NodeState.CANCELLED}
    ]
    why = ", ".join(broken[:10]) or ", ".join(f"{name} has no result" for name in without[:10])
    return f"outputs are missing: {why}"
