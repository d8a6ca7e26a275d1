"""Builds the bundle of an ended workflow: its document, its result, and references to attempts' bundles.

The bundle is created from the record at each request, always with the same content. It references the
attempts' bundles without repeating their content.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Awaitable, Callable, Mapping

from assayd.documents import canonical, digest, to_plain
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd_workflows.documents import to_workflow_document
from assayd_workflows.model import Workflow
from assayd_workflows.store import WorkflowContents

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
    """Return a reference to an attempt's bundle with its report's digest; null values if it was removed."""
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
