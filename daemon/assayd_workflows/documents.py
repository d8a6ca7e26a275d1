"""Converts workflows to API documents, and builds the bundle of an ended workflow.

Builds the bundle of an ended workflow: its document, its result, and references to attempts' bundles.

The bundle is created from the record at each request, always with the same content. It references the
attempts' bundles without repeating their content.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence

from assayd.documents import canonical, digest, format_optional_time, to_plain
from assayd.documents.base import format_time
from assayd.documents.chains import (
    NodeRunDocument,
    PlannedNodeDocument,
    WorkflowCheckDocument,
    WorkflowDocument,
    WorkflowEventDocument,
    WorkflowFindingDocument,
)
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.finding import Finding
from assayd_workflows.model import NodeOutline, NodeRun, PlanReading, Workflow, WorkflowOutline
from assayd_workflows.store import WorkflowContents


def to_check_document(reading: PlanReading) -> WorkflowCheckDocument:
    """Return the document of the result of a check."""
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
    """Return the bundle of a workflow as a tar archive. Raises: RequestError ``workflow.running``."""
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
