"""The pages of workflows, which show the graph with the nodes' states, the findings and the outputs."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd_client import ClientError, Document, StreamEvent, wing_requests
from assayd_console.charts import graph
from assayd_console.daemon import ConsoleDaemon
from assayd_console.live import LivePage, Tell, follow_events
from assayd_console.rendering import render_fragment, render_page

PAGE = 20


async def list_workflows(request: Request) -> Response:
    """Show a page of workflows."""
    daemon: ConsoleDaemon = request.app.state.daemon
    cursor = request.query_params.get("cursor")
    found = await daemon.ask(wing_requests.workflows(cursor=cursor, limit=PAGE))
    return render_page("workflows.html", title="Workflows", **found)


async def show_workflow(request: Request) -> Response:
    """Show one workflow with its graph."""
    daemon: ConsoleDaemon = request.app.state.daemon
    workflow = await daemon.ask(wing_requests.workflow(request.path_params["id"]))
    return render_page("workflow.html", **await _load_values(daemon, workflow))


async def _load_values(daemon: ConsoleDaemon, workflow: Document) -> dict[str, Any]:
    outputs = None
    if workflow["verdict"] == "validated":
        try:
            found = await daemon.ask(wing_requests.workflow_outputs(workflow["id"]))
            outputs = json.dumps(found["outputs"], indent=2, ensure_ascii=False)
        except ClientError as gone:
            outputs = str(gone)
    name = workflow["name"] or workflow["id"]
    return {"title": f"Workflow {name}", "workflow": workflow, "graph": graph(workflow), "outputs": outputs}


async def follow_workflow(request: Request) -> Response:
    """Send a workflow again after each of its changes, until the workflow ends."""
    daemon: ConsoleDaemon = request.app.state.daemon
    newest: list[Document] = []

    async def produce(tell: Tell) -> None:
        def note(event: StreamEvent) -> None:
            newest[:] = [event.body]

        async def show() -> None:
            if newest:
                await tell(
                    "progress", render_fragment("_workflow.html", **await _load_values(daemon, newest[0]))
                )

        await follow_events(
            daemon.events(wing_requests.workflow_events(request.path_params["id"])), note, show
        )
        await tell("end", "")

    return LivePage(produce)


async def cancel_workflow(request: Request) -> Response:
    """Cancel a workflow."""
    workflow_id = request.path_params["id"]
    await request.app.state.daemon.ask(wing_requests.cancel_workflow(workflow_id))
    return RedirectResponse(f"/workflows/{workflow_id}", status_code=303)


async def resume_workflow(request: Request) -> Response:
    """Run an ended workflow again."""
    daemon: ConsoleDaemon = request.app.state.daemon
    begun = await daemon.ask(wing_requests.resume_workflow(request.path_params["id"]))
    return RedirectResponse(f"/workflows/{begun['id']}", status_code=303)


ROUTES = [
    Route("/workflows", list_workflows),
    Route("/workflows/{id}", show_workflow),
    Route("/workflows/{id}/live", follow_workflow),
    Route("/workflows/{id}/cancel", cancel_workflow, methods=["POST"]),
    Route("/workflows/{id}/resume", resume_workflow, methods=["POST"]),
]
