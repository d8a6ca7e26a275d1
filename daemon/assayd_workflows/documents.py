"""Workflows as documents."""

from __future__ import annotations

from collections.abc import Sequence

from assayd.documents import timestamp
from assayd.documents.base import written_time
from assayd.documents.workflows import (
    NodeRunDocument,
    PlannedNodeDocument,
    WorkflowCheckDocument,
    WorkflowDocument,
    WorkflowEventDocument,
    WorkflowFindingDocument,
)
from assayd.model.finding import Finding
from assayd_workflows.model import NodeOutline, NodeRun, Outline, Reading, Workflow


def check_document(reading: Reading) -> WorkflowCheckDocument:
    """Return what a check found."""
    outline = reading.plan.outline if reading.plan is not None else Outline()
    return WorkflowCheckDocument.model_construct(
        runnable=reading.is_runnable,
        name=outline.name,
        findings=_findings(reading.findings),
        nodes=[PlannedNodeDocument.from_value(node, needs=list(node.needs)) for node in outline.nodes],
        outputs=_outputs(outline),
    )


def workflow_document(workflow: Workflow) -> WorkflowDocument:
    """Return a workflow."""
    outline, repair = workflow.outline, workflow.repair
    nodes = [_node_document(node, workflow.nodes[node.id]) for node in outline.nodes]
    return WorkflowDocument.from_value(
        workflow,
        name=outline.name,
        uid=workflow.peer.uid,
        state="running" if workflow.verdict is None else "finished",
        finished_at=timestamp(workflow.finished_at),
        repair=None if repair is None else {"provider": repair.provider, "max_attempts": repair.max_attempts},
        findings=_findings(workflow.findings),
        nodes=nodes,
        outputs=_outputs(outline),
    )


def workflow_event(number: int, workflow: Workflow) -> WorkflowEventDocument:
    """Return an event with the current state of a workflow."""
    moments = [run.finished_at for run in workflow.nodes.values() if run.finished_at is not None]
    return WorkflowEventDocument.model_construct(
        id=str(number),
        kind="progress" if workflow.verdict is None else "finished",
        at=written_time(workflow.finished_at or max(moments, default=workflow.created_at)),
        body=workflow_document(workflow),
    )


def _findings(findings: Sequence[Finding]) -> list[WorkflowFindingDocument]:
    return [WorkflowFindingDocument.from_value(one, node=one.context) for one in findings]


def _node_document(node: NodeOutline, run: NodeRun) -> NodeRunDocument:
    return NodeRunDocument.from_value(
        run,
        id=node.id,
        line=node.line,
        library=node.library,
        needs=list(node.needs),
        attempt_id=None if run.input_digest is None else run.attempt_id,
    )


def _outputs(outline: Outline) -> dict[str, str]:
    return {name: source.text for name, source in outline.outputs.items()}
