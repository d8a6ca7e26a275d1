"""The pages of batches: their progress, the reasons of failures, and downloads of results."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, Self

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from assayd.errors import RequestError
from assayd_client import Document, NotFound, StreamEvent, requests
from assayd_client.cli.evaluate import TASK_LABEL, estimate_pass_at_k
from assayd_client.cli.reports import JunitWriter, SarifWriter
from assayd_console import charts
from assayd_console.daemon import ConsoleDaemon
from assayd_console.live import LivePage, Tell, follow_events
from assayd_console.pages.attempts import find_submission_file
from assayd_console.pages.now import build_count_bars
from assayd_console.rendering import build_chart_response, render_fragment, render_page

PAGE = 20
ATTEMPTS = 100
MAX_ATTEMPT_PAGES = 50
"""Maximum pages of attempts to read for a table by task."""
MAX_GRID_ITEMS = 1000
"""Maximum items of one grid."""
MAX_BARS = 12
NAME_CHARS = 40
"""Maximum number of characters of a batch's name at the start of the name for its failed lines."""
MAX_MISSING = 10
_LINES_PATTERN = re.compile(r"[0-9]{1,9}(?:,[0-9]{1,9})*")
COMPARED_ITEMS = 5
"""Items of each type of failure to compare."""


async def list_batches(request: Request) -> Response:
    """Show a page of batches."""
    daemon: ConsoleDaemon = request.app.state.daemon
    found = await daemon.ask(requests.batches(cursor=request.query_params.get("cursor"), limit=PAGE))
    return render_page(
        "batches.html", title="Batches", batches=found["batches"], next_cursor=found["next_cursor"]
    )


async def show_batch(request: Request) -> Response:
    """Show one batch. The slow parts of its page are loaded afterwards."""
    values = await _load_batch(request)
    return render_page("batch.html", title=f"Batch {values['batch']['name']}", **values)


async def _load_batch(request: Request) -> dict[str, Any]:
    """Return the template values for a batch's page."""
    daemon: ConsoleDaemon = request.app.state.daemon
    batch = await daemon.ask(requests.batch(request.path_params["name"]))
    return {
        "batch": batch,
        "after": request.query_params.get("after", "0"),
        "missing": missing
        if _LINES_PATTERN.fullmatch(missing := request.query_params.get("missing", ""))
        else "",
        "own": batch["peer"]["uid"] == os.geteuid(),
        "seconds": _compute_duration_s(batch),
    }


def _compute_duration_s(batch: Document) -> float | None:
    """Return the duration of a batch in seconds, or None if the batch hasn't ended."""
    if batch["finished_at"] is None:
        return None
    begin, end = (datetime.fromisoformat(batch[name]) for name in ("created_at", "finished_at"))
    return max((end - begin).total_seconds(), 0.001)


async def show_details(request: Request) -> Response:
    """Show a batch's results: the reasons of failures, the slowest items, and a cell for each item."""
    batch, first, summary, items = await _load_details(request)
    return render_page(
        "_batch_details.html",
        batch=batch,
        summary=summary,
        pictures=_draw_charts(batch, summary, items["items"]),
        malformed=[item for item in items["items"] if item["error"] is not None][:MAX_BARS],
        failures=await _explain_groups(request.app.state.daemon, _group_failures(items["items"])),
        next_after=items["next_after"],
        first=first,
        lines={item["attempt_id"]: item["line"] for item in items["items"]},
        tasks=(tasks := await _load_tasks(request.app.state.daemon, batch)),
        pass_at_1=estimate_pass_at_k(tasks, 1),
    )


async def _load_tasks(daemon: ConsoleDaemon, batch: Document) -> list[Document]:
    """Return one row per task of an evaluation, hardest first. Other batches have no rows."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    cursor: str | None = None
    for _ in range(MAX_ATTEMPT_PAGES):
        listed = await daemon.ask(requests.attempts(batch=batch["id"], cursor=cursor, limit=ATTEMPTS))
        labelled = [each for each in listed["attempts"] if TASK_LABEL in each["labels"]]
        for each in labelled:
            found[each["labels"][TASK_LABEL]][each["verdict"] or "waiting"] += 1
        cursor = listed["next_cursor"]
        if not labelled or cursor is None:
            break
    rows = [
        {
            "task": task,
            "samples": counts.total(),
            "passed": counts["validated"],
            "lost": counts.total() - counts["validated"] - counts["failed"],
        }
        for task, counts in found.items()
    ]
    return sorted(rows, key=lambda row: (row["passed"] / row["samples"], row["task"]))


async def download_batch_chart(request: Request) -> Response:
    """Return one chart as a downloadable file.

    Raises: HTTPException 404, if the chart doesn't exist or has no data.
    """
    batch, _, summary, items = await _load_details(request)
    name = request.path_params["picture"]
    pictures = _draw_charts(batch, summary, items["items"])
    if not pictures.get(name):
        raise HTTPException(404, "the chart doesn't exist or has no data")
    return build_chart_response(pictures[name], f"{batch['name']}-{name}", request.query_params)


async def _load_details(request: Request) -> tuple[Document, int, Document, Document]:
    """Return a batch, the line after which items are shown, the summary, and the shown items."""
    daemon: ConsoleDaemon = request.app.state.daemon
    batch = await daemon.ask(requests.batch(request.path_params["name"]))
    after = request.query_params.get("after", "0")
    summary = await daemon.ask(requests.summary(batch=batch["id"]))
    first = int(after) if after.isascii() and after.isdigit() else 0
    items = await daemon.ask(requests.batch_items(batch["id"], after=first, limit=MAX_GRID_ITEMS))
    return batch, first, summary, items


def _draw_charts(batch: Document, summary: Document, items: list[Document]) -> dict[str, Markup]:
    address = f"/attempts?batch={batch['id']}"
    rules = build_count_bars(summary["rules"], MAX_BARS, f"{address}&rule=")
    causes = build_count_bars(summary["causes"], MAX_BARS, f"{address}&cause=")
    return {
        "items": charts.draw_item_grid(map(_build_cell, items), title="One cell per item"),
        "rules": charts.draw_bar_chart(
            rules, title="Attempts by rule", of=summary["verdicts"].get("failed", 0)
        ),
        "causes": charts.draw_bar_chart(causes, title="Attempts by cause"),
    }


def _build_cell(item: Document) -> tuple[str, str, str]:
    verdict = item["verdict"] or "waiting"
    said = f"line {item['line']}: {verdict}" + (f", {item['rules'][0]}" if item["rules"] else "")
    return verdict, said, f"/attempts/{item['attempt_id']}" if item["attempt_id"] and item["verdict"] else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedItems:
    """The failed items of a batch that have the same rules and cause.

    `message` is the message of the first item. `labels` contains the labels that all compared items share.
    """

    rules: Sequence[str]
    cause: str
    items: Sequence[Document]
    message: str = ""
    labels: Sequence[str] = ()


def _group_failures(items: list[Document]) -> list[FailedItems]:
    """Return the failed items in groups with the same rules and cause, largest first, at most `MOST_BARS`."""
    groups: dict[tuple[tuple[str, ...], str], list[Document]] = {}
    for item in items:
        if item["verdict"] in {"failed", "error"} and item["attempt_id"]:
            groups.setdefault((tuple(item["rules"]), item["cause"] or "wasn't run"), []).append(item)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))[:MAX_BARS]
    return [FailedItems(rules=rules, cause=cause, items=found) for (rules, cause), found in ordered]


async def _explain_groups(daemon: ConsoleDaemon, groups: Sequence[FailedItems]) -> Sequence[FailedItems]:
    """Return the groups of failed items, each with an example message and the shared labels."""
    return [await _explain_group(daemon, group) for group in groups]


async def _explain_group(daemon: ConsoleDaemon, group: FailedItems) -> FailedItems:
    looked_at = [
        await daemon.ask(requests.attempt(item["attempt_id"]))
        for item in _sample_evenly(group.items, COMPARED_ITEMS)
    ]
    shared = set.intersection(*(set(each["labels"].items()) for each in looked_at))
    findings = (looked_at[0]["report"] or {}).get("findings", [])
    message = next((each["message"] for each in findings if each["severity"] == "error"), "")
    return replace(group, message=message, labels=[f"{name}={value}" for name, value in sorted(shared)])


def _sample_evenly(items: Sequence[Document], most: int) -> Sequence[Document]:
    """Return at most `most` items at equal distances, or all items if there are no more."""
    step = max((len(items) - 1) / max(most - 1, 1), 1)
    return [items[round(place * step)] for place in range(min(most, len(items)))]


async def follow_batch(request: Request) -> Response:
    """Send the progress of a batch and, when it ends, its actions and results."""
    daemon: ConsoleDaemon = request.app.state.daemon
    name = request.path_params["name"]

    async def produce(tell: Tell) -> None:
        last: list[Document] = []

        def note(event: StreamEvent) -> None:
            last[:] = [event.body]

        async def show() -> None:
            if last:
                counts = {key: number for key, number in last[0].items() if key != "state"}
                shown = {"state": last[0]["state"], "counts": counts, "name": name}
                await tell("progress", render_fragment("_batch_progress.html", batch=shown))

        await follow_events(daemon.events(requests.batch_events(name)), note, show)
        await tell("finished", render_fragment("_batch.html", **await _load_batch(request)))
        await tell("end", "")

    return LivePage(produce)


async def cancel_batch(request: Request) -> Response:
    """Cancel a batch."""
    name = request.path_params["name"]
    await request.app.state.daemon.ask(requests.cancel_batch(name))
    return RedirectResponse(f"/batches/{name}", status_code=303)


async def resume_batch(request: Request) -> Response:
    """Submit the missing lines of a batch, and redirect to the batch's page.

    Raises: RequestError ``invalid``, if the body isn't NDJSON or another user owns the batch.
    """
    if request.headers.get("content-type", "") != "application/x-ndjson":
        raise RequestError("invalid", "send a batch as application/x-ndjson lines")
    daemon: ConsoleDaemon = request.app.state.daemon
    # Batch names are per user: otherwise, the lines would go into another batch.
    batch = await _load_own_batch(daemon, request.path_params["name"])
    await daemon.ask(requests.send_batch(request.stream(), name=batch["name"]))
    return Response(status_code=204, headers={"Location": f"/batches/{batch['id']}"})


async def _load_own_batch(daemon: ConsoleDaemon, name: str) -> Document:
    """Return a batch that belongs to the console's user.

    Raises: RequestError ``invalid``, if another user owns the batch.
    """
    batch = await daemon.ask(requests.batch(name))
    if batch["peer"]["uid"] != os.geteuid():
        message = f"batch {batch['name']} belongs to another user; only its owner can send lines"
        raise RequestError("invalid", message)
    return batch


async def run_again(request: Request) -> Response:
    """Submit the failed lines as a new batch, and redirect to the new batch's page.

    Raises: RequestError ``invalid``, if another user owns the batch.
    """
    daemon: ConsoleDaemon = request.app.state.daemon
    batch = await _load_own_batch(daemon, request.path_params["name"])
    # A second click makes another batch: with the same name, it would continue the first one.
    name = f"{batch['name'][:NAME_CHARS]}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{token_hex(3)}"
    missing: list[int] = []
    lines = _iter_failed_lines(daemon, batch, missing)
    begun = await daemon.ask(requests.send_batch(lines, name=name, concurrency=batch["concurrency"]))
    query = f"?missing={','.join(map(str, missing[:MAX_MISSING]))}" if missing else ""
    return RedirectResponse(f"/batches/{begun['id']}{query}", status_code=303)


async def _iter_failed_lines(
    daemon: ConsoleDaemon, batch: Document, missing: list[int]
) -> AsyncIterator[bytes]:
    """Yield the stored submissions of items that didn't pass.

    The line numbers of items whose submission isn't stored are added to `missing`.
    """
    async for item in daemon.lines(requests.batch_results(batch["id"])):
        if item["verdict"] not in {"failed", "error"} or item["error"] is not None:
            continue
        attempt = item["attempt"] or {"artifacts": ()}
        sent = find_submission_file(attempt)
        with suppress(NotFound):  # its bundle was removed meanwhile
            if sent is not None:
                yield (
                    await daemon.request_bytes(requests.artifact(attempt["id"], sent["name"]))
                ).strip() + b"\n"
                continue
        missing.append(item["line"])


class ResultWriter(Protocol):
    """A writer of items in a file format with a beginning and an end."""

    def __enter__(self) -> Self:
        """Write the beginning of the file."""
        ...

    def add(self, result: Document) -> None:
        """Write one item."""
        ...


FORMULA_PREFIXES = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""Characters, with their fullwidth forms, that make spreadsheets interpret a cell as a formula."""


class CsvWriter:
    """A CSV writer with one row per item. Possible spreadsheet formulas get a leading apostrophe."""

    HEADS = ("line", "attempt_id", "verdict", "cause", "rules", "took_ms", "labels", "error")

    def __init__(self, file: io.StringIO) -> None:
        self._rows = csv.writer(file, quoting=csv.QUOTE_ALL)  # Some programs also split cells at `;`.

    def __enter__(self) -> Self:
        self._rows.writerow(self.HEADS)
        return self

    def add(self, result: Document) -> None:
        """Write one item as a row."""
        attempt = result["attempt"] or {"timings_ms": {"total": None}, "labels": {}}
        cells = (
            result["line"],
            result["attempt_id"],
            result["verdict"],
            result["cause"],
            " ".join(result["rules"]),
            attempt["timings_ms"]["total"],
            " ".join(f"{key}={value}" for key, value in sorted(attempt["labels"].items())),
            (result["error"] or {}).get("message"),
        )
        self._rows.writerow([_escape_formula(cell) for cell in cells])

    def __exit__(self, *_: object) -> None:
        """Do nothing, because CSV files have no end marker."""


def _escape_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA_PREFIXES else value


async def download_results(request: Request) -> Response:
    """Send the results of a batch one item at a time, as JUnit XML, SARIF or CSV.

    Raises: HTTPException 404, for another format.
    """
    daemon: ConsoleDaemon = request.app.state.daemon
    name, form = request.path_params["name"], request.path_params["form"]
    batch = await daemon.ask(requests.batch(name))
    rules = [rule for kind in await daemon.kinds() for rule in kind["rules"]]
    makers: dict[str, Callable[[io.StringIO], AbstractContextManager[ResultWriter]]] = {
        "xml": lambda file: JunitWriter(file, batch),
        "sarif": lambda file: SarifWriter(file, Path(f"{batch['name']}.jsonl"), rules),
        "csv": CsvWriter,
    }
    if form not in makers:
        raise HTTPException(404, "unknown format; use xml, sarif or csv")
    headers = {"Content-Disposition": f'attachment; filename="{batch["name"]}.{form}"'}
    items = daemon.lines(requests.batch_results(name))
    return StreamingResponse(
        _write_items(items, makers[form]), media_type="application/octet-stream", headers=headers
    )


async def _write_items(
    items: AsyncIterator[Document], make: Callable[[io.StringIO], AbstractContextManager[ResultWriter]]
) -> AsyncIterator[str]:
    file = io.StringIO()
    with make(file) as writer:
        async for item in items:
            writer.add(item)
            yield _take_buffered_text(file)
    yield _take_buffered_text(file)


def _take_buffered_text(file: io.StringIO) -> str:
    text = file.getvalue()
    file.seek(0)
    file.truncate()
    return text


ROUTES = [
    Route("/batches", list_batches),
    Route("/batches/{name}", show_batch),
    Route("/batches/{name}/details", show_details),
    Route("/batches/{name}/{picture}.svg", download_batch_chart),
    Route("/batches/{name}/live", follow_batch),
    Route("/batches/{name}/cancel", cancel_batch, methods=["POST"]),
    Route("/batches/{name}/resume", resume_batch, methods=["POST"]),
    Route("/batches/{name}/run-again", run_again, methods=["POST"]),
    Route("/batches/{name}/results.{form}", download_results),
]
