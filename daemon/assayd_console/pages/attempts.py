"""The list of attempts: filters in the address, pages, and a first page that follows what happens."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd.errors import RequestError
from assayd_client import ClientError, Document, StreamEvent, requests
from assayd_console.daemon import ConsoleDaemon
from assayd_console.live import LivePage, Tell, follow
from assayd_console.pages.filters import STATES, VERDICTS, Filters, read_filters
from assayd_console.rendering import fragment, page

PAGE = 30
"""Rows that a screen shows; twice as many take twice as long to appear."""
CHANGES = frozenset({"state", "finished"})
"""Events that change a row."""


async def list_attempts(request: Request) -> Response:
    """Show a page of attempts."""
    daemon: ConsoleDaemon = request.app.state.daemon
    filters = read_filters(request.query_params)
    refusal = None
    found: Document = {"attempts": [], "next_cursor": None}
    try:
        found = await _page(daemon, filters)
    except (ClientError, RequestError) as error:
        if not error.field:
            raise
        refusal = error
    return page(
        "attempts.html",
        status=200 if refusal is None else 422,
        refusal=refusal,
        title="Attempts",
        attempts=found["attempts"],
        next_cursor=found["next_cursor"],
        filters=filters,
        kinds=[kind["kind"] for kind in await daemon.kinds()],
        states=STATES,
        verdicts=VERDICTS,
    )


async def follow_attempts(request: Request) -> Response:
    """Send the rows of the first page anew when something has changed."""
    daemon: ConsoleDaemon = request.app.state.daemon
    filters = read_filters(request.query_params)

    async def produce(tell: Tell) -> None:
        stale = [False]

        def note(event: StreamEvent) -> None:
            stale[0] |= event.kind in CHANGES

        async def show() -> None:
            if stale[0]:
                stale[0] = False
                found = await _page(daemon, filters)
                await tell("rows", fragment("_rows.html", attempts=found["attempts"]))

        await follow(daemon.events(requests.all_events()), note, show, pause_s=1.0)

    return LivePage(produce)


async def _page(daemon: ConsoleDaemon, filters: Filters) -> Document:
    return await daemon.ask(requests.attempts(**filters.asked(), limit=PAGE))


ROUTES = [Route("/attempts", list_attempts), Route("/attempts/live", follow_attempts)]
