"""The page that shows a profile's effects on stored submissions, and suggests additions to the profile."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd.errors import RequestError
from assayd_client import Document, requests
from assayd_client.cli.policy import build_review_query
from assayd_console.daemon import ConsoleDaemon
from assayd_console.rendering import render_page

USUAL = "7d"
"""The default period."""


async def review_policy(request: Request) -> Response:
    """Show the verdicts that a profile would change, and the additions that rejected code requires."""
    daemon: ConsoleDaemon = request.app.state.daemon
    policy = await daemon.ask(requests.policy(request.path_params["name"]))
    typed = {name: request.query_params.get(name, "").strip() for name in ("since", "batch", "label")}
    typed["since"] = typed["since"] or USUAL
    labels = [typed["label"]] if typed["label"] else []
    wanted = build_review_query(typed["since"], typed["batch"] or None, labels, None)
    trial = await _run_trial(daemon, policy["name"], wanted)
    found = await daemon.ask(requests.suggest_policy(policy["name"], **wanted))
    return render_page(
        "policy_review.html",
        title=f"Review of policy {policy['name']}",
        policy=policy,
        typed=typed,
        trial=trial,
        found=found,
    )


async def _run_trial(daemon: ConsoleDaemon, name: str, wanted: Document) -> Document:
    """Return the result of a trial. Raises: RequestError, if the stream ends without a result."""
    last: Any = None
    async for event in daemon.events(requests.try_policy(name, **wanted)):
        last = event
    if last is None or last.kind != "finished":
        raise RequestError("lost", "the trial ended without a result; try again")
    body: Document = last.body
    return body


ROUTES = [Route("/policies/{name}/review", review_policy)]
