"""The list of attempts, and the page of one attempt with its progress, results and actions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd.errors import RequestError
from assayd_client import ClientError, Document, NotFound, StreamEvent, requests
from assayd_console.daemon import ConsoleDaemon
from assayd_console.fields import read_form
from assayd_console.live import LivePage, Tell, follow_events
from assayd_console.rendering import (
    build_sources,
    find_first_error,
    format_size,
    list_texts,
    render_fragment,
    render_page,
    took,
)

NAMES = ("state", "verdict", "kind", "rule", "cause", "batch", "label", "since", "uid", "id_prefix")
STATES = ("queued", "checking", "leasing", "running", "judging", "finished")
VERDICTS = ("validated", "failed", "error", "cancelled")
_AGO = re.compile(r"([1-9][0-9]{0,3})([mhd])")
_UNIT_BY_LETTER = {"m": "minutes", "h": "hours", "d": "days"}

ApiQuery = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilters:
    """The filters that the user entered. An empty string means no filter."""

    typed: Mapping[str, str]
    cursor: str | None = None

    @property
    def any(self) -> bool:
        """Return whether any filter is set."""
        return any(self.typed.values())

    def asked(self, now: datetime | None = None) -> ApiQuery:
        """Return the parameters of the API query that applies these filters."""
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
    """Parse the filters of a URL. Several labels are joined by spaces, as in the input field."""
    typed = {name: " ".join(query.getlist(name)).strip() for name in NAMES}
    return AttemptFilters(typed=typed, cursor=query.get("cursor"))


def parse_since(text: str, now: datetime) -> str | None:
    """Return a time for the API from an age (``30m``, ``24h``, ``7d``) or a date, or None if `text` is empty.

    Raises: RequestError ``invalid``, if the text is neither.
    """
    ago = _AGO.fullmatch(text)
    if ago is None:
        try:
            return text if text and datetime.fromisoformat(text) else None
        except ValueError as error:
            raise RequestError("invalid", "since: 24h, 7d or a date", field="since") from error
    return (now - timedelta(**{_UNIT_BY_LETTER[ago[2]]: int(ago[1])})).isoformat(timespec="seconds")


PAGE = 30
"""Rows per page; twice as many would take twice as long to appear."""
CHANGES = frozenset({"state", "finished"})
"""Events that change a row."""


async def list_attempts(request: Request) -> Response:
    """Show a page of attempts or, if a filter is invalid, an empty page with the error."""
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


_LIST_ROUTES = [Route("/attempts", list_attempts), Route("/attempts/live", follow_attempts)]

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """The usage of one resource by a run. `share` is the used share of the limit, which is at most 1."""

    name: str
    shown: str
    limit: str
    share: float

    @property
    def near(self) -> bool:
        """Return whether at least 90 % of the limit is used."""
        return self.share >= 0.9


def iter_resource_use(attempt: Document) -> Iterator[ResourceUse]:
    """Yield the resource usage of an attempt's run, or nothing without a run and a report."""
    run, report = attempt["execution"], attempt["report"]
    if run is None or report is None:
        return
    limits, counted = report["effective_limits"], run["resource_usage"]
    time_ms, memory = limits["timeout_s"] * 1000, limits["memory_mb"] * MIB
    yield _build_resource_use("time", run["execution_time_ms"], time_ms, took)
    yield _build_resource_use("processor", run["cpu_ms"], time_ms, took)
    slowest = max(
        (case["duration_ms"] for case in (report["runtime_results"] or {}).get("cases", ())), default=0
    )
    yield _build_resource_use("slowest unit", slowest, limits["unit_timeout_s"] * 1000, took)
    if run["peak_memory_bytes"] is not None:
        yield _build_resource_use("memory", run["peak_memory_bytes"], memory, format_size)
    yield _build_resource_use(
        "standard output", run["stdout_bytes"], limits["output_read_bytes"], format_size
    )
    yield _build_resource_use("standard error", run["stderr_bytes"], limits["output_read_bytes"], format_size)
    yield _build_resource_use("disk", counted["work_bytes_used"], limits["work_bytes"], format_size)
    yield _build_resource_use("files", counted["work_files_used"], limits["work_files"], "{:,.0f}".format)


def _build_resource_use(name: str, amount: float, limit: float, write: Callable[[float], str]) -> ResourceUse:
    share = min(amount / limit, 1.0) if limit else 0.0
    return ResourceUse(name=name, shown=write(amount), limit=write(limit), share=share)


MAX_TAIL_CHARS = 16_000
"""Number of characters to keep from the end of each output stream of a running attempt."""
SOURCE_BYTES = 4 * 2**20
"""Bytes above which a submission is only offered as a file."""
MAX_SHOWN_CASES = 200
MAX_TEXTS = 20
"""Maximum texts of a submission to show, those with findings first; its file has all of them."""


@dataclass(slots=True, kw_only=True)
class AttemptProgress:
    """The progress of an attempt, as derived from its events."""

    state: str
    stages: dict[str, Document] = field(default_factory=dict)
    unit: Document | None = None
    output: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})

    def note(self, event: StreamEvent) -> None:
        """Update the state, stages, unit or output with an event. Other events are ignored."""
        match event.kind:
            case "state":
                self.state = event.body["state"]
            case "stage":
                self.stages[event.body["name"]] = event.body
            case "unit":
                self.unit = event.body
            case "stdout" | "stderr":
                self.output[event.kind] = (self.output[event.kind] + event.body["text"])[-MAX_TAIL_CHARS:]


async def show_attempt(request: Request) -> Response:
    """Show a running or finished attempt."""
    daemon: ConsoleDaemon = request.app.state.daemon
    attempt = await daemon.ask(requests.attempt(request.path_params["id"]))
    course = None if attempt["state"] == "finished" else AttemptProgress(state=attempt["state"])
    details = await _load_details(daemon, attempt) if course is None else {}
    return render_page(
        "attempt.html", title=f"Attempt {attempt['id']}", attempt=attempt, course=course, **details
    )


async def follow_attempt(request: Request) -> Response:
    """Send the progress of an attempt and, when it ends, all results."""
    daemon: ConsoleDaemon = request.app.state.daemon
    attempt_id = request.path_params["id"]

    async def produce(tell: Tell) -> None:
        course = AttemptProgress(state="queued")

        async def show() -> None:
            await tell("progress", render_fragment("_progress.html", course=course))

        await follow_events(daemon.events(requests.events(attempt_id)), course.note, show)
        attempt = await daemon.ask(requests.attempt(attempt_id))
        details = await _load_details(daemon, attempt)
        await tell("finished", render_fragment("_attempt.html", attempt=attempt, **details))
        await tell("end", "")

    return LivePage(produce)


async def download_files(request: Request) -> Response:
    """Send a file of a bundle, or all files as a tar archive, as a download that browsers never display."""
    daemon: ConsoleDaemon = request.app.state.daemon
    attempt_id, name = request.path_params["id"], request.path_params.get("name")
    asked = requests.bundle(attempt_id) if name is None else requests.artifact(attempt_id, name)
    return build_download(await daemon.request_bytes(asked), f"{attempt_id}.tar" if name is None else name)


async def download_retry_context(request: Request) -> Response:
    """Return the retry context as a download, which is empty if there is none."""
    attempt = await request.app.state.daemon.ask(requests.attempt(request.path_params["id"]))
    context = (attempt["report"] or {}).get("retry_context") or ""
    return build_download(context.encode(), f"{attempt['id']}-retry.txt")


async def download_source(request: Request) -> Response:
    """Return one of the submission's source texts as a download.

    Raises: HTTPException 404, if the submission has no such text.
    """
    daemon: ConsoleDaemon = request.app.state.daemon
    attempt = await daemon.ask(requests.attempt(request.path_params["id"]))
    texts = list_texts((await load_submission(daemon, attempt)).get("payload") or {})
    name = request.path_params["name"]
    if name not in texts:
        raise HTTPException(404, f"the submission of {attempt['id']} contains no file with this name")
    return build_download(texts[name].encode(), name)


def build_download(content: bytes, name: str) -> Response:
    """Return a download response with a file name that contains only safe characters."""
    plain = "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name.rpartition("/")[2]
    )
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{plain or "file"}"'},
    )


async def cancel_attempt(request: Request) -> Response:
    """Cancel an attempt."""
    attempt_id = request.path_params["id"]
    await request.app.state.daemon.ask(requests.cancel(attempt_id))
    return RedirectResponse(f"/attempts/{attempt_id}", status_code=303)


async def replay_attempt(request: Request) -> Response:
    """Replay an attempt, and redirect to the replay."""
    again = await request.app.state.daemon.ask(requests.replay(request.path_params["id"]))
    return RedirectResponse(f"/attempts/{again['id']}", status_code=303)


async def start_repair(request: Request) -> Response:
    """Start a repair with the form's provider and hint, and redirect to the repair."""
    form = await read_form(request)
    attempt_id = request.path_params["id"]
    asked = requests.repair(attempt_id, provider=form.get("provider") or None, hint=form.get("hint") or None)
    begun = await request.app.state.daemon.ask(asked)
    return RedirectResponse(f"/repairs/{begun['id']}", status_code=303)


async def approve_attempt(request: Request) -> Response:
    """Approve an attempt under a library name."""
    form = await read_form(request)
    attempt_id = request.path_params["id"]
    entry = await request.app.state.daemon.ask(requests.approve(attempt_id, form.get("name", "")))
    attempt = await request.app.state.daemon.ask(requests.attempt(attempt_id))
    details = await _load_details(request.app.state.daemon, attempt)
    version = f"{entry['name']}@{entry['version']}"
    said = f"Approved as {version}. Write it to a file: assay library export {version} --out FILE"
    return render_page(
        "attempt.html", title=f"Attempt {attempt_id}", attempt=attempt, course=None, said=said, **details
    )


async def _load_details(daemon: ConsoleDaemon, attempt: Document) -> dict[str, Any]:
    """Return the template values for a finished attempt's page, except its document."""
    submission = await load_submission(daemon, attempt)
    findings = (attempt["report"] or {}).get("findings") or []
    texts, elsewhere = build_sources(submission.get("payload") or {}, findings)
    # The sort is stable, so texts without findings stay in order.
    texts.sort(key=lambda text: not text.has_findings)
    return {
        "sent": find_submission_file(attempt),
        "cases": select_cases(((attempt["report"] or {}).get("runtime_results") or {}).get("cases") or []),
        "first": find_first_error(texts, findings),
        "errors": sum(finding["severity"] == "error" for finding in findings),
        "texts": texts[:MAX_TEXTS],
        "texts_left": len(texts[MAX_TEXTS:]),
        "elsewhere": elsewhere,
        "used": list(iter_resource_use(attempt)),
        "repairs": (await daemon.ask(requests.repairs_of(attempt["id"])))["repairs"],
        "batch_name": await _load_batch_name(daemon, attempt),
    }


async def _load_batch_name(daemon: ConsoleDaemon, attempt: Document) -> str | None:
    """Return the name of an attempt's batch, or None without a batch or if the batch was removed."""
    if attempt["batch_id"] is None:
        return None
    try:
        return str((await daemon.ask(requests.batch(attempt["batch_id"])))["name"])
    except NotFound:
        return None


def select_cases(cases: list[Document]) -> list[Document]:
    """Return the cases that a page shows: all cases, or a limited number that begins with failed ones."""
    if len(cases) <= MAX_SHOWN_CASES:
        return cases
    return sorted(cases, key=lambda case: bool(case["status"] == "passed"))[:MAX_SHOWN_CASES]


def find_submission_file(attempt: Document) -> Document | None:
    """Return the bundle's entry for the submission file, or None if the bundle was removed."""
    return next((each for each in attempt["artifacts"] if each["name"].startswith("submission_")), None)


async def load_submission(daemon: ConsoleDaemon, attempt: Document) -> Mapping[str, Document]:
    """Return the submission from the bundle, or {} if it was removed or is too large for a page."""
    sent = find_submission_file(attempt)
    if sent is None or sent["bytes"] > SOURCE_BYTES:
        return {}
    try:
        content = await daemon.request_bytes(requests.artifact(attempt["id"], sent["name"]))
    except ClientError:  # The bundle was removed, so the page shows only the record.
        return {}
    found: Document = json.loads(content)
    return found


_ATTEMPT_ROUTES = [
    Route("/attempts/{id}", show_attempt),
    Route("/attempts/{id}/live", follow_attempt),
    Route("/attempts/{id}/cancel", cancel_attempt, methods=["POST"]),
    Route("/attempts/{id}/replay", replay_attempt, methods=["POST"]),
    Route("/attempts/{id}/repair", start_repair, methods=["POST"]),
    Route("/attempts/{id}/approve", approve_attempt, methods=["POST"]),
    Route("/attempts/{id}/bundle", download_files),
    Route("/attempts/{id}/retry-context", download_retry_context),
    Route("/attempts/{id}/sources/{name:path}", download_source),
    Route("/attempts/{id}/files/{name:path}", download_files),
]

ROUTES = [*_LIST_ROUTES, *_ATTEMPT_ROUTES]
