"""Documents of workflows, and of the requests that check, run or resume a workflow.

This module only defines the models; `assayd_workflows` decides their contents.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assayd.documents.base import BaseDocument, Timestamp
from assayd.documents.reports import FindingDocument
from assayd.documents.submission import RepairRequest

InputValues = dict[str, dict[str, Any]]


class WorkflowCheckBody(BaseModel):
    """A workflow to check."""

    model_config = ConfigDict(extra="forbid", strict=True)

    document: str = Field(max_length=2**20, description="The workflow, as YAML or JSON text.")
    inputs: InputValues = Field(
        {}, max_length=256, description="Values of inputs by node and name; they replace the document's."
    )


class WorkflowBody(WorkflowCheckBody):
    """A workflow to run."""

    repair: RepairRequest | None = Field(None, description="How to repair nodes that fail; null: don't.")


class WorkflowResumeBody(BaseModel):
    """The request to resume a workflow that has ended; missing fields keep their earlier values."""

    model_config = ConfigDict(extra="forbid", strict=True)

    document: str | None = Field(None, max_length=2**20, description="The changed workflow.")
    inputs: InputValues | None = Field(None, max_length=256, description="Values of inputs, as before.")
    repair: RepairRequest | None = Field(None, description="How to repair nodes that fail; null: don't.")


class WorkflowFindingDocument(FindingDocument):
    """One finding of a workflow check; `line` refers to the workflow document."""

    node: str | None = Field(description="The node; null for the document and its outputs.")


class PlannedNodeDocument(BaseDocument):
    """One node of a workflow that was checked."""

    id: str = Field(description="The node's id.")
    line: int | None = Field(description="Its line in the document.")
    library: str | None = Field(description="The library entry that its code comes from, with its version.")
    needs: list[str] = Field(description="Nodes whose results it uses.")


class WorkflowCheckDocument(BaseDocument):
    """The findings of a check. A check neither runs nor records anything."""

    runnable: bool = Field(description="Whether no finding is an error.")
    name: str | None = Field(description="The workflow's name.")
    findings: list[WorkflowFindingDocument] = Field(description="Findings, by line.")
    nodes: list[PlannedNodeDocument] = Field(description="The nodes, in the document's order.")
    outputs: dict[str, str] = Field(description="References by output.")


class NodeRunDocument(PlannedNodeDocument):
    """One node of a recorded workflow."""

    state: str = Field(
        description="`waiting`, `running`, `repairing`, `validated`, `failed`, `error`, `cancelled` or "
        "`skipped`."
    )
    attempt_id: str | None = Field(description="Its attempt; null if it never ran.")
    reused: bool = Field(description="Whether the attempt is one of the workflow that this one resumes.")
    repair_id: str | None = Field(description="The repair that its attempt is a fix of.")
    input_digest: str | None = Field(description="Digest of code and inputs.")
    detail: str | None = Field(description="Why it has no result.")
    finished_at: Timestamp | None = Field(description="When it ended.")


class WorkflowDocument(BaseDocument):
    """A recorded workflow."""

    id: str = Field(description="ULID.")
    name: str | None = Field(description="The workflow's name.")
    uid: int = Field(description="User id of its owner.")
    state: str = Field(description="`running` or `finished`.")
    verdict: str | None = Field(
        description="`validated` if all outputs exist, `failed`, `error` or `cancelled`; null while it runs."
    )
    detail: str | None = Field(description="Why it isn't validated.")
    created_at: Timestamp = Field(description="When it was accepted.")
    ends_at: Timestamp = Field(description="When it ends at the latest.")
    finished_at: Timestamp | None = Field(description="When it ended.")
    resumes: str | None = Field(description="The workflow that this one resumes.")
    repair: dict[str, Any] | None = Field(description="Provider and maximum number of fixes.")
    findings: list[WorkflowFindingDocument] = Field(description="Findings of the check before it ran.")
    nodes: list[NodeRunDocument] = Field(description="The nodes, in the document's order.")
    outputs: dict[str, str] = Field(description="References by output.")


class WorkflowPageDocument(BaseDocument):
    """A page of workflows, with the newest first."""

    workflows: list[WorkflowDocument] = Field(description="The workflows, without their findings.")
    next_cursor: str | None = Field(description="For the next page; null on the last.")


class WorkflowOutputsDocument(BaseDocument):
    """The outputs of a validated workflow."""

    outputs: dict[str, Any] = Field(description="Values by name, in the form of a case's `result`.")


class WorkflowEventDocument(BaseDocument):
    """One event of a workflow."""

    id: str = Field(description="Its number, from 1.")
    kind: str = Field(description="`progress`, or `finished` for the last.")
    at: Timestamp = Field(description="When the workflow or a node of it last changed.")
    body: WorkflowDocument = Field(description="The workflow at that time.")
