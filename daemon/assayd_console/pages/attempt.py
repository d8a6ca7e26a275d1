"""The page of one attempt, which shows its progress, then its results, and the available actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

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
        """Return whether the usage is close to the limit."""
        return self.share >= 0.9


def iter_resource_use(attempt: Document) -> Iterator[ResourceUse]:
    """Yield the resource usage of an attempt's run; yield nothing if the attempt didn't run."""
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


TAIL_CHARS = 16_000
"""Maximum characters of a running attempt's output."""
SOURCE_BYTES = 4 * 2**20
"""Bytes above which a submission is only offered as a file."""
MOST_CASES = 200
MOST_TEXTS = 20
"""Maximum texts of a submission to show, those with findings first; its file has all of them."""


@dataclass(slots=True, kw_only=True)
class AttemptProgress:
    """The progress of an attempt, as derived from its events."""

    state: str
    stages: dict[str, Document] = field(default_factory=dict)
    unit: Document | None = None
    output: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})

    def note(self, event: StreamEvent) -> None:
        """Update the progress with an event."""
        match event.kind:
            case "state":
                self.state = event.body["state"]
            case "stage":
                self.stages[event.body["name"]] = event.body
            case "unit":
                self.unit = event.body
            case "stdout" | "stderr":
                self.output[event.kind] = (self.output[event.kind] + event.body["text"])[-TAIL_CHARS:]


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
    """Return the retry context as a download."""
    attempt = await request.app.state.daemon.ask(requests.attempt(request.path_params["id"]))
    context = (attempt["report"] or {}).get("retry_context") or ""
    return build_download(context.encode(), f"{attempt['id']}-retry.txt")


async def download_source(request: Request) -> Response:
    """Return one of the submission's source texts as a download."""
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
    """Start a repair with safe fixes or with a named provider."""
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
    """Return the data of a finished attempt's page in addition to its document."""
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
        "texts": texts[:MOST_TEXTS],
        "texts_left": len(texts[MOST_TEXTS:]),
        "elsewhere": elsewhere,
        "used": list(iter_resource_use(attempt)),
        "repairs": (await daemon.ask(requests.repairs_of(attempt["id"])))["repairs"],
        "batch_name": await _load_batch_name(daemon, attempt),
    }


async def _load_batch_name(daemon: ConsoleDaemon, attempt: Document) -> str | None:
    """Return the name of an attempt's batch; None if the attempt has no batch or the batch was removed."""
    if attempt["batch_id"] is None:
        return None
    try:
        return str((await daemon.ask(requests.batch(attempt["batch_id"])))["name"])
    except NotFound:
        return None


def select_cases(cases: list[Document]) -> list[Document]:
    """Return the cases that a page shows: all cases, or a limited number that begins with failed ones."""
    if len(cases) <= MOST_CASES:
        return cases
    return sorted(cases, key=lambda case: bool(case["status"] == "passed"))[:MOST_CASES]


def find_submission_file(attempt: Document) -> Document | None:
    """Return the bundle's entry for the submission file; None if the bundle was removed."""
    return next((each for each in attempt["artifacts"] if each["name"].startswith("submission_")), None)


async def load_submission(daemon: ConsoleDaemon, attempt: Document) -> Mapping[str, Document]:
    """Return the submission from the bundle; empty if it was removed or is too large for a page."""
    sent = find_submission_file(attempt)
    if sent is None or sent["bytes"] > SOURCE_BYTES:
        return {}
    try:
        content = await daemon.request_bytes(requests.artifact(attempt["id"], sent["name"]))
    except ClientError:  # The bundle was removed, so the page shows only the record.
        return {}
    found: Document = json.loads(content)
    return found


ROUTES = [
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
