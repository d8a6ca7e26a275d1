"""Converts workflows and their checks to API documents."""

from __future__ import annotations

from collections.abc import Sequence

from assayd.documents import format_optional_time
from assayd.documents.base import format_time
from assayd.documents.workflows import (
    NodeRunDocument,
    PlannedNodeDocument,
    WorkflowCheckDocument,
    WorkflowDocument,
    WorkflowEventDocument,
    WorkflowFindingDocument,
)
from assayd.model.finding import Finding
from assayd_workflows.model import NodeOutline, NodeRun, PlanReading, Workflow, WorkflowOutline


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
    """Return an event with the current state of a workflow."""
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
