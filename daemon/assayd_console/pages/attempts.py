"""The list of attempts, with filters in the URL, and pages of which the first one is updated live."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd.errors import RequestError
from assayd_client import ClientError, Document, StreamEvent, requests
from assayd_console.daemon import ConsoleDaemon
from assayd_console.live import LivePage, Tell, follow_events
from assayd_console.rendering import render_fragment, render_page

NAMES = ("state", "verdict", "kind", "rule", "cause", "batch", "label", "since", "uid", "id_prefix")
STATES = ("queued", "checking", "leasing", "running", "judging", "finished")
VERDICTS = ("validated", "failed", "error", "cancelled")
_AGO = re.compile(r"([1-9][0-9]{0,3})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

Asked = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilters:
    """The filters that the user entered; an empty string means no filter."""

    typed: Mapping[str, str]
    cursor: str | None = None

    @property
    def any(self) -> bool:
        """Return whether any filter is set."""
        return any(self.typed.values())

    def asked(self, now: datetime | None = None) -> Asked:
        """Return the API query that applies these filters."""
        given: dict[str, str | int | list[str] | None] = {
            name: text for name, text in self.typed.items() if text and name != "label"
        }
        given["label"] = self.typed["label"].split()
        given["id_prefix"] = self.typed["id_prefix"].upper() or None
        given["since"] = parse_since(self.typed["since"], now or datetime.now(UTC))
        given["cursor"] = self.cursor
        return given

    def address(self, **changes: str | None) -> str:
        """Return the URL query for these filters, with the given changes."""
        wanted = {**self.typed, **changes}
        return urlencode([(name, text) for name, text in wanted.items() if text])


def parse_filters(query: QueryParams) -> AttemptFilters:
    """Parse the filters of a URL; several labels are joined by spaces, as in the input field."""
    typed = {name: " ".join(query.getlist(name)).strip() for name in NAMES}
    return AttemptFilters(typed=typed, cursor=query.get("cursor"))


def parse_since(text: str, now: datetime) -> str | None:
    """Return a time for the API: ``30m``, ``24h`` and ``7d`` count back from now; other values are dates.

    Raises: RequestError ``invalid``.
    """
    ago = _AGO.fullmatch(text)
    if ago is None:
        try:
            return text if text and datetime.fromisoformat(text) else None
        except ValueError as error:
            raise RequestError("invalid", "since: 24h, 7d or a date", field="since") from error
    return (now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat(timespec="seconds")


PAGE = 30
"""Rows per page; twice as many would take twice as long to appear."""
CHANGES = frozenset({"state", "finished"})
"""Events that change a row."""


async def list_attempts(request: Request) -> Response:
    """Show a page of attempts."""
    daemon: ConsoleDaemon = request.app.state.daemon
    filters = parse_filters(request.query_params)
    refusal = None
    found: Document = {"attempts": [], "next_cursor": None}
    try:
        found = await _load_page(daemon, filters)
    except (ClientError, RequestError) as error:
        if not error.field:
            raise
        refusal = error
    return render_page(
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
    """Send the rows of the first page again after each change."""
    daemon: ConsoleDaemon = request.app.state.daemon
    filters = parse_filters(request.query_params)

    async def produce(tell: Tell) -> None:
        stale = [False]

        def note(event: StreamEvent) -> None:
            stale[0] |= event.kind in CHANGES

        async def show() -> None:
            if stale[0]:
                stale[0] = False
                found = await _load_page(daemon, filters)
                await tell("rows", render_fragment("_rows.html", attempts=found["attempts"]))

        await follow_events(daemon.events(requests.all_events()), note, show, pause_s=1.0)

    return LivePage(produce)


async def _load_page(daemon: ConsoleDaemon, filters: AttemptFilters) -> Document:
    return await daemon.ask(requests.attempts(**filters.asked(), limit=PAGE))


ROUTES = [Route("/attempts", list_attempts), Route("/attempts/live", follow_attempts)]
