"""The pages of a cluster's nodes: their runs, the reasons for accepting no work, and draining."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd_client import ClientError, requests
from assayd_console.daemon import ConsoleDaemon
from assayd_console.fields import read_form
from assayd_console.rendering import render_page

BADGES = {"ready": "ok", "draining": "warn", "not_ready": "fail", "lost": "fail"}


async def has_nodes(daemon: ConsoleDaemon) -> bool:
    """Return whether there is a cluster, and this user can see its nodes."""
    try:
        await daemon.ask(requests.nodes())
    except ClientError:  # A single-host daemon, no operator rights, or no answer yet.
        return False
    return True


async def list_nodes(request: Request) -> Response:
    """Show all nodes."""
    found = (await request.app.state.daemon.ask(requests.nodes()))["nodes"]
    return render_page("nodes.html", title="Nodes", nodes=found, badges=BADGES)


async def drain_node(request: Request) -> Response:
    """Drain a node, so that it accepts no further runs."""
    await read_form(request)
    await request.app.state.daemon.ask(requests.drain_node(request.path_params["name"]))
    return RedirectResponse("/nodes", status_code=303)


async def resume_node(request: Request) -> Response:
    """Resume a drained node."""
    await read_form(request)
    await request.app.state.daemon.ask(requests.resume_node(request.path_params["name"]))
    return RedirectResponse("/nodes", status_code=303)


ROUTES = [
    Route("/nodes", list_nodes),
    Route("/nodes/{name}/drain", drain_node, methods=["POST"]),
    Route("/nodes/{name}/resume", resume_node, methods=["POST"]),
]
