"""The pages of repairs and generations as timelines, and of workflows as graphs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd.documents import build_submission_diff
from assayd_client import ClientError, Document, NotFound, StreamEvent, requests, wing_requests
from assayd_client.cli.repair import iter_failure_lines
from assayd_client.requests import ClientRequest
from assayd_console.charts import graph
from assayd_console.daemon import ConsoleDaemon
from assayd_console.fields import read_form
from assayd_console.live import LivePage, Tell, follow_events
from assayd_console.pages.attempts import load_submission
from assayd_console.rendering import DisplayedSource, build_sources, render_fragment, render_page

PAGE = 20
MAX_DIFF_LINES = 400
WRITE = "write"
"""The strategy of the first answer to a request; all others correct the previous answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a diff. `sign` is `added`, `removed`, `place` or an empty string."""

    sign: str
    text: str


def parse_diff(diff: str) -> list[DiffLine]:
    """Return the lines of a unified diff with their types. Lines above the limit are only counted."""
    signs = {"+": "added", "-": "removed", "@": "place"}
    lines = [line for line in diff.splitlines() if not line.startswith(("--- ", "+++ "))]
    shown = [DiffLine(sign=signs.get(line[:1], ""), text=line) for line in lines[:MAX_DIFF_LINES]]
    if len(lines) > MAX_DIFF_LINES:
        shown.append(DiffLine(sign="place", text=f"… {len(lines) - MAX_DIFF_LINES:,} more lines"))
    return shown


def iter_steps(chain: Document, last: str | None = None) -> Iterator[dict[str, object]]:
    """Yield each answer of a chain with its changes and failure. `last` is the last answer's failure."""
    before = None
    answers = chain["attempts"]
    for answer, following in zip_longest(answers, answers[1:]):
        context = _find_failure(answer, following, last)
        diff = answer["diff"]
        if diff is None and before is not None and not answer["duplicate"]:
            diff = build_submission_diff(before, answer["patched_code"])
        before = answer["patched_code"]
        failed = list(iter_failure_lines(context)) if context else ()
        yield {"answer": answer, "diff": parse_diff(diff or ""), "same": diff == "", "failed": failed}


def _find_failure(answer: Document, following: Document | None, last: str | None) -> str | None:
    """Return an answer's failure from its record, the next repair or `last`, or None if unknown."""
    if answer["strategy"] == WRITE and answer["original_error"]:  # The answer wasn't a valid submission.
        return str(answer["original_error"])
    if answer["verdict"] != "failed":
        return None
    if following is None:
        return last
    return None if following["strategy"] == WRITE else str(following["original_error"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPage:
    """The chain that a page's URL specifies, and the requests for it.

    `sort` is ``repairs`` or ``generations``.
    """

    sort: str
    id: str

    @property
    def name(self) -> str:
        """Return the title of the chain's page."""
        return f"{'Repair' if self.sort == 'repairs' else 'Generation'} {self.id}"

    def state(self) -> ClientRequest[Any]:
        """Return the request for the chain's state."""
        return requests.repair_state(self.id) if self.sort == "repairs" else requests.generation(self.id)

    def events(self) -> ClientRequest[StreamEvent]:
        """Return the request for the chain's events."""
        return (
            requests.repair_events(self.id) if self.sort == "repairs" else requests.generation_events(self.id)
        )

    def step(self, number: int) -> ClientRequest[Any]:
        """Return the request for one prompt and its answer."""
        if self.sort == "repairs":
            return requests.repair_step(self.id, number)
        return requests.generation_step(self.id, number)

    def build_cancel_request(self) -> ClientRequest[Any]:
        """Return the request that cancels the chain."""
        return (
            requests.cancel_repair(self.id) if self.sort == "repairs" else requests.cancel_generation(self.id)
        )


async def list_chains(request: Request) -> Response:
    """Show a page of repairs and a page of generations."""
    daemon: ConsoleDaemon = request.app.state.daemon
    query = request.query_params
    repairs = await daemon.ask(requests.repairs(cursor=query.get("repairs"), limit=PAGE))
    generations = await daemon.ask(requests.generations(cursor=query.get("generations"), limit=PAGE))
    return render_page(
        "chains.html", title="Repairs and generations", repairs=repairs, generations=generations
    )


def _parse_chain_page(request: Request) -> ChainPage:
    return ChainPage(sort=request.url.path.split("/")[1], id=request.path_params["id"])


async def show_chain(request: Request) -> Response:
    """Show one running or finished chain."""
    return render_page(
        "chain.html", **await _load_chain_values(request.app.state.daemon, _parse_chain_page(request))
    )


async def _load_chain_values(daemon: ConsoleDaemon, named: ChainPage) -> dict[str, Any]:
    chain = await daemon.ask(named.state())
    last = await _load_last_attempt(daemon, chain)
    texts: list[DisplayedSource] = []
    if last is not None and last["verdict"] == "validated":
        texts, _ = build_sources((await load_submission(daemon, last)).get("payload") or {}, ())
    failed = (last["report"] or {}).get("retry_context") if last is not None else None
    return {
        "title": named.name,
        "named": named,
        "chain": chain,
        "steps": await asyncio.to_thread(list, iter_steps(chain, failed)),
        "texts": texts,
    }


async def _load_last_attempt(daemon: ConsoleDaemon, chain: Document) -> Document | None:
    """Return the attempt of a finished chain's last answer, or None if there is none or it was removed."""
    if chain["state"] != "finished" or not chain["attempts"] or not chain["attempts"][-1]["attempt_id"]:
        return None
    try:
        return await daemon.ask(requests.attempt(chain["attempts"][-1]["attempt_id"]))
    except NotFound:
        return None


async def follow_chain(request: Request) -> Response:
    """Send a chain again after each of its steps, until the chain ends."""
    daemon: ConsoleDaemon = request.app.state.daemon
    named = _parse_chain_page(request)

    async def produce(tell: Tell) -> None:
        async def show() -> None:
            await tell("progress", render_fragment("_chain.html", **await _load_chain_values(daemon, named)))

        await follow_events(daemon.events(named.events()), lambda _: None, show)
        await tell("end", "")

    return LivePage(produce)


async def show_step(request: Request) -> Response:
    """Show the complete prompt and answer of one provider step."""
    named, number = _parse_chain_page(request), request.path_params["number"]
    step = await request.app.state.daemon.ask(named.step(number))
    return render_page("step.html", title=f"{named.name}, answer {number}", named=named, step=step)


async def cancel_chain(request: Request) -> Response:
    """Cancel a chain."""
    named = _parse_chain_page(request)
    await request.app.state.daemon.ask(named.build_cancel_request())
    return RedirectResponse(f"/{named.sort}/{named.id}", status_code=303)


async def send_hint(request: Request) -> Response:
    """Try again with a user's hint: a generation continues, whereas a repair starts again."""
    daemon: ConsoleDaemon = request.app.state.daemon
    named, form = _parse_chain_page(request), await read_form(request)
    said = form.get("hint", "")
    if named.sort == "generations":
        await daemon.ask(requests.hint_generation(named.id, said))
        return RedirectResponse(f"/generations/{named.id}", status_code=303)
    before = await daemon.ask(named.state())
    wanted = {"provider": before["provider"], "hint": said or None, "fresh": "fresh" in form or None}
    again = await daemon.ask(requests.repair(before["attempt_id"], **wanted))
    return RedirectResponse(f"/repairs/{again['id']}", status_code=303)


async def approve_generation(request: Request) -> Response:
    """Approve the result of a generation."""
    named, form = _parse_chain_page(request), await read_form(request)
    entry = await request.app.state.daemon.ask(requests.approve_generation(named.id, form.get("name", "")))
    return RedirectResponse(f"/library/{entry['name']}", status_code=303)


async def accept_fallback(request: Request) -> Response:
    """Accept the fallback rules that a repair proposes."""
    named = _parse_chain_page(request)
    await request.app.state.daemon.ask(requests.accept_fallback(named.id))
    return RedirectResponse(f"/repairs/{named.id}", status_code=303)


_CHAIN_ROUTES = [
    Route("/repairs", list_chains),
    *(
        Route(f"/{sort}/{{id}}{path}", endpoint, methods=[method])
        for sort in ("repairs", "generations")
        for path, endpoint, method in (
            ("", show_chain, "GET"),
            ("/live", follow_chain, "GET"),
            ("/steps/{number:int}", show_step, "GET"),
            ("/cancel", cancel_chain, "POST"),
            ("/hint", send_hint, "POST"),
        )
    ),
    Route("/generations/{id}/approve", approve_generation, methods=["POST"]),
    Route("/repairs/{id}/accept-fallback", accept_fallback, methods=["POST"]),
]


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
    return render_page("workflow.html", **await _load_workflow_values(daemon, workflow))


async def _load_workflow_values(daemon: ConsoleDaemon, workflow: Document) -> dict[str, Any]:
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
                    "progress",
                    render_fragment("_workflow.html", **await _load_workflow_values(daemon, newest[0])),
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


_WORKFLOW_ROUTES = [
    Route("/workflows", list_workflows),
    Route("/workflows/{id}", show_workflow),
    Route("/workflows/{id}/live", follow_workflow),
    Route("/workflows/{id}/cancel", cancel_workflow, methods=["POST"]),
    Route("/workflows/{id}/resume", resume_workflow, methods=["POST"]),
]

ROUTES = [*_CHAIN_ROUTES, *_WORKFLOW_ROUTES]
