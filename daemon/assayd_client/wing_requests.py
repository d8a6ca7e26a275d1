"""Defines the requests of optional packages: workflows, and runs of approved pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from assayd_client import documents
from assayd_client.answers import StreamEvent
from assayd_client.requests import ClientRequest, path, to_filter_query, to_wait_query

T = TypeVar("T")
Inputs = Mapping[str, Mapping[str, object]]
WORKFLOW_TIMEOUT_S = 60.0
"""Maximum number of seconds for reading and checking a workflow."""


def check_workflow(
    document: str, *, inputs: Inputs | None = None
) -> ClientRequest[documents.WorkflowCheckDocument]:
    """Check a workflow in YAML or JSON without running it.

    `inputs` contains the input values by node and name.
    """
    return _post_request(lambda: documents.WorkflowCheckDocument, "check", document=document, inputs=inputs)


def start_workflow(
    document: str, *, inputs: Inputs | None = None, repair: Mapping[str, object] | None = None
) -> ClientRequest[documents.WorkflowDocument]:
    """Check a workflow and run it. `repair` contains a provider for failed nodes and `max_attempts`."""
    return _post_request(lambda: documents.WorkflowDocument, document=document, inputs=inputs, repair=repair)


def resume_workflow(
    workflow_id: str,
    *,
    document: str | None = None,
    inputs: Inputs | None = None,
    repair: Mapping[str, object] | None = None,
) -> ClientRequest[documents.WorkflowDocument]:
    """Run a finished workflow again. Nodes with unchanged code and inputs keep their results.

    By default, the document and inputs of the finished workflow are used. Raises: ClientError
    ``workflow.running``, if the workflow hasn't finished.
    """
    asked = {"document": document, "inputs": inputs, "repair": repair}
    return _post_request(lambda: documents.WorkflowDocument, workflow_id, "resume", **asked)


def workflow(workflow_id: str, *, wait_s: float = 0) -> ClientRequest[documents.WorkflowDocument]:
    """Return one workflow, after waiting up to `wait_s` (at most 600) for its verdict."""
    return ClientRequest(
        method="GET",
        path=path("workflows", workflow_id),
        reads=lambda: documents.WorkflowDocument,
        query=to_wait_query(wait_s),
        wait_s=wait_s,
    )


def workflows(*, cursor: str | None = None, limit: int = 20) -> ClientRequest[documents.WorkflowPageDocument]:
    """Return a page of workflows, newest first."""
    return ClientRequest(
        method="GET",
        path=path("workflows"),
        reads=lambda: documents.WorkflowPageDocument,
        query=to_filter_query({"cursor": cursor, "limit": limit}),
    )


def workflow_outputs(workflow_id: str) -> ClientRequest[documents.WorkflowOutputsDocument]:
    """Return the outputs of a validated workflow. Raises: ClientError ``workflow.no_outputs``."""
    return ClientRequest(
        method="GET",
        path=path("workflows", workflow_id, "outputs"),
        reads=lambda: documents.WorkflowOutputsDocument,
        wait_s=WORKFLOW_TIMEOUT_S,
    )


def workflow_bundle(workflow_id: str) -> ClientRequest[bytes]:
    """Return the bundle of a finished workflow as a tar archive."""
    return ClientRequest(method="GET", path=path("workflows", workflow_id, "bundle"))


def workflow_events(workflow_id: str) -> ClientRequest[StreamEvent]:
    """Stream the events of a workflow until it ends."""
    return ClientRequest(method="GET", path=path("workflows", workflow_id, "events"))


def cancel_workflow(workflow_id: str) -> ClientRequest[documents.WorkflowDocument]:
    """Cancel a workflow and its running attempts. Raises: ClientError ``workflow.finished``."""
    return _post_request(lambda: documents.WorkflowDocument, workflow_id, "cancel")


def _post_request(reads: Callable[[], type[T]], *parts: str, **asked: object) -> ClientRequest[T]:
    document = {name: value for name, value in asked.items() if value is not None}
    return ClientRequest(
        method="POST",
        path=path("workflows", *parts),
        reads=reads,
        document=document or None,
        wait_s=WORKFLOW_TIMEOUT_S,
    )


def run_pipeline(  # noqa: PLR0913  (the fields of a run)
    name: str,
    *,
    version: int | None = None,
    files: Mapping[str, object] | None = None,
    database: Mapping[str, object] | None = None,
    range: Mapping[str, float] | None = None,  # noqa: A002 - the field's name
    strict: bool = False,
    labels: Mapping[str, str] | None = None,
    webhook: str | None = None,
    wait_s: float = 0,
) -> ClientRequest[documents.AttemptDocument]:
    """Run an approved pipeline on new data.

    Differences from earlier runs are reported as findings of the attempt.
    """
    given = {
        "name": name,
        "version": version,
        "files": files,
        "database": database,
        "range": range,
        "strict": strict or None,
        "labels": labels,
        "webhook": webhook,
    }
    return ClientRequest(
        reads=lambda: documents.AttemptDocument,
        method="POST",
        path=path("pipelines", "runs"),
        query=to_wait_query(wait_s),
        document={key: value for key, value in given.items() if value is not None},
        wait_s=wait_s,
    )


def pipeline_runs(
    name: str, *, version: int | None = None, cursor: str | None = None, limit: int | None = None
) -> ClientRequest[Any]:
    """Return a page of runs of an approved pipeline with their row counts, newest first."""
    filters: dict[str, str | int | Sequence[str] | None] = {
        "version": version,
        "cursor": cursor,
        "limit": limit,
    }
    query = to_filter_query({"name": name, **filters})
    return ClientRequest(method="GET", path=path("pipelines", "runs"), query=query)
