"""Defines the HTTP routes of workflows, converts workflows to API documents, and builds their bundles.

Each route checks the caller, makes one call, and responds.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from asyncio import timeout
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.answers import (
    Responses,
    describe_event_stream,
    describe_json_response,
    describe_raw_response,
    describe_request_body,
)
from assayd.api.call import Call, CallDep, build_raw_json_response, json_response, read_model
from assayd.api.events import Documents, EventStream
from assayd.documents import canonical, digest, format_optional_time, serialize_compact, to_plain
from assayd.documents.base import ErrorDocument, format_time
from assayd.documents.chains import (
    NodeRunDocument,
    PlannedNodeDocument,
    WorkflowBody,
    WorkflowCheckBody,
    WorkflowCheckDocument,
    WorkflowDocument,
    WorkflowEventDocument,
    WorkflowFindingDocument,
    WorkflowOutputsDocument,
    WorkflowPageDocument,
    WorkflowResumeBody,
)
from assayd.documents.submission import RepairRequest
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.finding import Finding
from assayd.model.submission import RepairOptions
from assayd.model.text_limits import MAX_WAIT_S
from assayd_workflows.model import NodeOutline, NodeRun, PlanReading, Workflow, WorkflowOutline
from assayd_workflows.store import WorkflowContents, WorkflowPage
from assayd_workflows.workflows import WorkflowManager, WorkflowRequest

BODY_BYTES = 4 * 2**20


def to_check_document(reading: PlanReading) -> WorkflowCheckDocument:
    """Return the document of a check's result, without nodes if the text isn't a workflow."""
    outline = reading.plan.outline if reading.plan is not None else WorkflowOutline()
    return WorkflowCheckDocument.model_construct(
        runnable=reading.is_runnable,
        name=outline.name,
        findings=_to_finding_documents(reading.findings),
        nodes=[PlannedNodeDocument.from_value(node, needs=list(node.needs)) for node in outline.nodes],
        outputs=_map_output_references(outline),
    )


def to_workflow_document(workflow: Workflow) -> WorkflowDocument:
    """Return the document of a workflow."""
    outline, repair = workflow.outline, workflow.repair
    nodes = [_to_node_document(node, workflow.nodes[node.id]) for node in outline.nodes]
    return WorkflowDocument.from_value(
        workflow,
        name=outline.name,
        uid=workflow.peer.uid,
        state="running" if workflow.verdict is None else "finished",
        finished_at=format_optional_time(workflow.finished_at),
        repair=None if repair is None else {"provider": repair.provider, "max_attempts": repair.max_attempts},
        findings=_to_finding_documents(workflow.findings),
        nodes=nodes,
        outputs=_map_output_references(outline),
    )


def to_workflow_event(number: int, workflow: Workflow) -> WorkflowEventDocument:
    """Return the event `number` with the current state of a workflow."""
    moments = [run.finished_at for run in workflow.nodes.values() if run.finished_at is not None]
    return WorkflowEventDocument.model_construct(
        id=str(number),
        kind="progress" if workflow.verdict is None else "finished",
        at=format_time(workflow.finished_at or max(moments, default=workflow.created_at)),
        body=to_workflow_document(workflow),
    )


def _to_finding_documents(findings: Sequence[Finding]) -> list[WorkflowFindingDocument]:
    return [WorkflowFindingDocument.from_value(one, node=one.context) for one in findings]


def _to_node_document(node: NodeOutline, run: NodeRun) -> NodeRunDocument:
    return NodeRunDocument.from_value(
        run,
        id=node.id,
        line=node.line,
        library=node.library,
        needs=list(node.needs),
        attempt_id=None if run.input_digest is None else run.attempt_id,
    )


def _map_output_references(outline: WorkflowOutline) -> dict[str, str]:
    return {name: source.text for name, source in outline.outputs.items()}


ReadAttempt = Callable[[str], Awaitable[Attempt | None]]


async def build_bundle(workflow: Workflow, contents: WorkflowContents, read: ReadAttempt) -> bytes:
    """Return the bundle of a workflow as a tar archive.

    Raises: RequestError ``workflow.running``, if the workflow hasn't ended.
    """
    if workflow.finished_at is None:
        raise RequestError("workflow.running", "the workflow has no verdict yet; wait for it")
    attempts: dict[str, object] = {}
    for node in to_plain(to_workflow_document(workflow))["nodes"]:
        if node["attempt_id"] is not None:
            attempts[node["id"]] = _build_bundle_reference(node["attempt_id"], await read(node["attempt_id"]))
    return await asyncio.to_thread(_build_tar, workflow, contents, attempts)


def _build_bundle_reference(attempt_id: str, attempt: Attempt | None) -> dict[str, object]:
    """Return a reference to an attempt's bundle with its report's digest, or nulls if it was removed."""
    if attempt is None:
        return {"attempt_id": attempt_id, "verdict": None, "bundle": None, "report_sha256": None}
    reports = [one.sha256 for one in attempt.artifacts if one.name.startswith("validation_")]
    return {
        "attempt_id": attempt_id,
        "verdict": attempt.verdict,
        "bundle": attempt.bundle,
        "report_sha256": reports[0] if reports else None,
    }


def _build_tar(workflow: Workflow, contents: WorkflowContents, attempts: Mapping[str, object]) -> bytes:
    files = {
        "workflow.yaml": contents.document.encode("utf-8", "replace"),
        "inputs.json": contents.inputs.encode(),
        "result.json": canonical(to_plain(to_workflow_document(workflow))),
        "attempts.json": canonical(attempts),
    }
    listed = [
        {"name": name, "bytes": len(content), "sha256": digest(content)} for name, content in files.items()
    ]
    files["manifest.json"] = canonical({"workflow_id": workflow.id, "files": listed})
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{workflow.id}/{name}")
            entry.size, entry.mode = len(content), 0o444
            entry.mtime = int(workflow.finished_at.timestamp()) if workflow.finished_at else 0
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def _get_workflows(request: Request) -> WorkflowManager:
    workflows: WorkflowManager = request.app.state.workflows
    return workflows


WorkflowsDep = Annotated[WorkflowManager, Depends(_get_workflows)]
Id = Annotated[str, Path(alias="id", description="The workflow's ULID.")]

_STARTED_RESPONSES: Responses = {
    202: {
        **describe_json_response(
            WorkflowDocument, "The workflow; if its check found errors, it has failed already"
        ),
        "headers": {"Location": {"description": "Path of the workflow.", "schema": {"type": "string"}}},
    },
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    413: describe_json_response(ErrorDocument, "Body or code too large"),
    429: describe_json_response(ErrorDocument, "Too many of this user's workflows are running"),
    503: describe_json_response(ErrorDocument, "Not ready; see Retry-After"),
}
_RESUMED_RESPONSES: Responses = {
    **_STARTED_RESPONSES,
    409: describe_json_response(ErrorDocument, "The workflow is still running"),
}
_CHECKED_RESPONSES: Responses = {200: describe_json_response(WorkflowCheckDocument, "What the check found")}
_WORKFLOW_RESPONSES: Responses = {200: describe_json_response(WorkflowDocument, "The workflow")}
_LIST_RESPONSES: Responses = {200: describe_json_response(WorkflowPageDocument, "Workflows")}
_CANCELLED_RESPONSES: Responses = {
    202: describe_json_response(WorkflowDocument, "The workflow is being cancelled"),
    409: describe_json_response(ErrorDocument, "The workflow has ended"),
}
_OUTPUTS: Responses = {
    200: describe_json_response(WorkflowOutputsDocument, "The outputs"),
    409: describe_json_response(ErrorDocument, "The workflow isn't validated, or its attempts were removed"),
}
_BUNDLE: Responses = {200: describe_raw_response("application/x-tar", "The workflow's bundle")}
_EVENTS = describe_event_stream("Events `progress`, each with the current workflow, and `finished`")

workflows = APIRouter(prefix="/v1/workflows", tags=["workflows"], responses=answers.ERRORS)
ROUTERS = (workflows,)


@workflows.post(
    "/check", responses=_CHECKED_RESPONSES, openapi_extra=describe_request_body(WorkflowCheckBody)
)
async def check_workflow(request: Request, call: CallDep, found: WorkflowsDep) -> Response:
    """Check a workflow's references, cycles, input sources and edge types; run and store nothing."""
    wanted = await read_model(request, call, WorkflowCheckBody, max_bytes=BODY_BYTES)
    reading = await found.check(wanted.document, wanted.inputs, peer=call.caller.peer)
    return json_response(to_check_document(reading))


@workflows.post(
    "", status_code=202, responses=_STARTED_RESPONSES, openapi_extra=describe_request_body(WorkflowBody)
)
async def start_workflow(request: Request, call: CallDep, found: WorkflowsDep) -> Response:
    """Check a workflow, and run it on behalf of the caller with one attempt per node."""
    wanted = await read_model(request, call, WorkflowBody, max_bytes=BODY_BYTES)
    terms = WorkflowRequest(
        document=wanted.document, inputs=wanted.inputs, repair=_to_repair_options(wanted.repair)
    )
    return _started_response(await found.begin(terms, call.caller.peer))


@workflows.get("", responses=_LIST_RESPONSES)
async def list_workflows(
    call: CallDep,
    found: WorkflowsDep,
    cursor: Annotated[str | None, Query(max_length=26, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of workflows on a page.")] = 20,
) -> Response:
    """List workflows without their findings, starting with the newest."""
    async with call.budget.wait_to_parse(call.caller.peer.uid):
        page = await found.list(uid=call.visible_uid, before=cursor, limit=limit)
        body = await asyncio.to_thread(_render_page, page)
    return build_raw_json_response(body)


@workflows.get("/{id}", responses=_WORKFLOW_RESPONSES)
async def get_workflow(
    call: CallDep,
    found: WorkflowsDep,
    workflow_id: Id,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the verdict.")] = 0,
) -> Response:
    """Return one workflow with its nodes."""
    workflow = await _get_visible(call, found, workflow_id)
    if wait_s and workflow.verdict is None:
        with suppress(TimeoutError):
            async with timeout(wait_s), aclosing(found.follow(workflow.id)) as states:
                async for state in states:
                    workflow = state
    return json_response(to_workflow_document(workflow))


@workflows.post("/{id}/cancel", status_code=202, responses=_CANCELLED_RESPONSES)
async def cancel_workflow(call: CallDep, found: WorkflowsDep, workflow_id: Id) -> Response:
    """Cancel a workflow and its running attempts."""
    workflow = await _get_visible(call, found, workflow_id)
    await found.cancel(workflow)
    return json_response(to_workflow_document(workflow), status=202)


@workflows.post(
    "/{id}/resume",
    status_code=202,
    responses=_RESUMED_RESPONSES,
    openapi_extra=describe_request_body(WorkflowResumeBody),
)
async def resume_workflow(request: Request, call: CallDep, found: WorkflowsDep, workflow_id: Id) -> Response:
    """Run an ended workflow again, possibly changed; reuse validated nodes with equal code and inputs."""
    workflow = await _get_visible(call, found, workflow_id)
    wanted = await read_model(request, call, WorkflowResumeBody, max_bytes=BODY_BYTES)
    if workflow.peer.uid != call.caller.peer.uid:
        raise RequestError("peer.not_allowed", "only its owner can resume a workflow")
    wish = _to_repair_options(wanted.repair)
    resumed = await found.resume(workflow, wanted.document, wanted.inputs, wish, call.caller.peer)
    return _started_response(resumed)


@workflows.get("/{id}/outputs", responses=_OUTPUTS)
async def get_workflow_outputs(call: CallDep, found: WorkflowsDep, workflow_id: Id) -> Response:
    """Return the outputs of a validated workflow."""
    workflow = await _get_visible(call, found, workflow_id)
    found.require_outputs(workflow)
    return call.build_large_json_response(lambda: found.outputs(workflow))


@workflows.get("/{id}/bundle", responses=_BUNDLE, response_class=Response)
async def get_workflow_bundle(call: CallDep, found: WorkflowsDep, workflow_id: Id) -> Response:
    """Return an ended workflow as a tar file: document, inputs, result, and attempt references."""
    workflow = await _get_visible(call, found, workflow_id)

    async def build() -> bytes:
        return await build_bundle(workflow, await found.contents(workflow), call.service.get)

    return call.build_large_json_response(build, headers={"Content-Type": "application/x-tar"})


@workflows.get("/{id}/events", responses=_EVENTS, response_class=Response)
async def follow_workflow(call: CallDep, found: WorkflowsDep, workflow_id: Id) -> Response:
    """Send a workflow's changes as server-sent events, of which the last one is `finished`."""
    workflow = await _get_visible(call, found, workflow_id)
    return EventStream(_stream_change_events(found.follow(workflow.id)), heartbeat_s=call.limits.heartbeat_s)


async def _stream_change_events(states: AsyncGenerator[Workflow, None]) -> Documents:
    number = 0
    async with aclosing(states):
        async for workflow in states:
            number += 1
            yield to_workflow_event(number, workflow)


async def _get_visible(call: Call, found: WorkflowManager, workflow_id: str) -> Workflow:
    """Return a workflow that the caller is allowed to see.

    Raises: RequestError ``not_found``, also for another user's workflow.
    """
    workflow = await found.get(workflow_id)
    if workflow is None or call.visible_uid not in {None, workflow.peer.uid}:
        raise RequestError("not_found", f"workflow {workflow_id[:40]} doesn't exist")
    return workflow


def _render_page(page: WorkflowPage) -> bytes:
    shown = [to_workflow_document(one) for one in page.workflows]
    return serialize_compact(
        WorkflowPageDocument.model_construct(workflows=shown, next_cursor=page.next_cursor)
    )


def _started_response(workflow: Workflow) -> Response:
    headers = {"Location": f"/v1/workflows/{workflow.id}"}
    return json_response(to_workflow_document(workflow), status=202, headers=headers)


def _to_repair_options(asked: RepairRequest | None) -> RepairOptions | None:
    return None if asked is None else RepairOptions(provider=asked.provider, max_attempts=asked.max_attempts)
