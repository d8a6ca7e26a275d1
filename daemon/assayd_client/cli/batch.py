"""Implements `assay batch`, which sends a file, shows the progress, and writes the results."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from assayd.errors import RequestError
from assayd_client import ClientError, DaemonUnreachable, Document, NotFound, PlainClient
from assayd_client.cli.ids import resolve_batch_id as find_batch
from assayd_client.cli.options import CANCELLED, EXIT_ERROR, FAILED, INTERRUPTED, VALIDATED, Json, open_client
from assayd_client.cli.submitting import LOOK_AGAIN_S, RetryTimer, iter_batch_results
from assayd_client.cli.terminal import (
    STYLE_BY_STATUS,
    StyledLine,
    build_line,
    format_duration,
    plain,
    print_json,
    print_result,
    shorten,
)
from assayd_client.cli.terminal import get_stdout as console
from assayd_client.cli.texts import fetch_stored_submission

MOST_SHOWN = 15
MOST_LINES = 8
MAX_QUOTED_LINES = 3
"""Maximum number of lines to quote with their error, for each error code."""


class BatchSummary:
    """The numbers of a batch's items by verdict, rule, cause and error."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._lines: defaultdict[str, list[int]] = defaultdict(list)
        self._reasons: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, item: Document) -> None:
        """Add an item to the counts of its verdict, rules, cause and error."""
        self.verdicts[item["verdict"] or "waiting"] += 1
        self.rules.update(item["rules"])
        if item["cause"] is not None:
            self.causes[item["cause"]] += 1
        if item["error"] is not None:
            code = item["error"]["code"]
            self.errors[code] += 1
            if len(self._lines[code]) < MOST_LINES:
                self._lines[code].append(item["line"])
            if len(self._reasons[code]) < MAX_QUOTED_LINES:
                field = f"{item['error']['field']}: " if item["error"].get("field") else ""
                said = item["error"]["message"].removeprefix(field)
                self._reasons[code].append(f"line {item['line']}: {field}{said}")

    def document(self, batch: Document) -> Document:
        """Return the batch and all counts as a JSON object."""
        return {
            "batch": batch,
            "verdicts": dict(self.verdicts),
            "rules": dict(self.rules.most_common()),
            "causes": dict(self.causes.most_common()),
            "malformed": dict(self.errors.most_common()),
        }

    @property
    def failure_causes(self) -> Counter[str]:
        """Return the causes of unsuccessful runs, which exclude `completed`."""
        return Counter({name: number for name, number in self.causes.items() if name != "completed"})

    def lines(self) -> Iterator[StyledLine]:
        """Yield the lines that show the summary to a user."""
        for head, counts in (
            ("Rules", self.rules),
            ("Causes", self.failure_causes),
            ("Lines that can't be submitted", self.errors),
        ):
            if counts:
                yield build_line("")
                yield build_line((head, "bold"))
                for name, number in counts.most_common(MOST_SHOWN):
                    places = self._format_lines(name) if counts is self.errors else ""
                    yield build_line(f"{number:>8} {plain(name)}{places}", hang=9)
                    reasons = self._reasons[name] if counts is self.errors else ()
                    yield from (build_line(f"{'':>11}{shorten(said, 300)}", hang=13) for said in reasons)
                if len(counts) > MOST_SHOWN:
                    yield build_line((f"         … and {len(counts) - MOST_SHOWN} more", "dim"))

    def _format_lines(self, code: str) -> str:
        """Return the line numbers to which an error applies, truncated if there are many."""
        lines = self._lines[code]
        more = ", …" if self.errors[code] > len(lines) else ""
        return f": line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutputs:
    """The files to which results are written in addition to the terminal."""

    folder: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    as_json: bool = False


def write_files(client: PlainClient, batch: Document, source: Path, outputs: BatchOutputs) -> BatchSummary:
    """Write the requested files and return the summary.

    Raises: RequestError ``file.unwritable``, if a file can't be written.
    """
    try:
        with ExitStack() as files:
            return _write_results(client, batch, source, outputs, files)
    except OSError as error:
        raise RequestError("file.unwritable", f"{error.filename}: {error.strerror}") from error


def _write_results(
    client: PlainClient, batch: Document, source: Path, outputs: BatchOutputs, files: ExitStack
) -> BatchSummary:
    from assayd_client.cli.reports import JunitWriter, SarifWriter

    summary, folder = BatchSummary(), outputs.folder
    adders: list[Callable[[Document], None]] = [summary.add]
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        lines = _open_output(folder / "results.jsonl", files)
        adders.append(lambda result: print(json.dumps(result, ensure_ascii=False), file=lines))
    if outputs.junit is not None:
        adders.append(files.enter_context(JunitWriter(_open_output(outputs.junit, files), batch)).add)
    if outputs.sarif is not None:
        rules = [rule for kind in client.kinds()["kinds"] for rule in kind["rules"]]
        adders.append(files.enter_context(SarifWriter(_open_output(outputs.sarif, files), source, rules)).add)
    for result in iter_batch_results(client, batch["id"]):
        for add in adders:
            add(result)
    if folder is not None:
        text = json.dumps(summary.document(batch), indent=1)
        (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    return summary


def _open_output(path: Path, files: ExitStack) -> TextIO:
    return files.enter_context(path.open("w", encoding="utf-8"))


OVER = ("finished", "cancelled")
RATE_WINDOW_S = 30.0
"""The number of seconds over which the rate is measured, so that the rate follows current changes."""


class ThroughputMeter:
    """A meter of the number of items that finished per second, over the last `RATE_WINDOW_S` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, at_s: float, done: int) -> None:
        """Record the number of finished items at a point in time."""
        self._seen.append((at_s, done))
        while len(self._seen) > 2 and self._seen[1][0] < at_s - RATE_WINDOW_S:
            self._seen.popleft()

    @property
    def items_per_second(self) -> float:
        """Return the number of items finished per second, or 0 if it isn't known yet."""
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        return (last - first) / (ended - began) if ended > began else 0.0

    def remaining(self, waiting: int) -> str:
        """Return the estimated time for the `waiting` items, e.g. ``2:05``, or ``-:--`` if it isn't known."""
        if not waiting:
            return "0:00"
        if not self.items_per_second:
            return "-:--"
        seconds = round(waiting / self.items_per_second)
        hours, rest = divmod(seconds, 3600)
        return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def follow_batch(client: PlainClient, batch: Document) -> Document:
    """Follow a batch until it ends, and return the finished batch.

    Raises: ClientError, if the daemon stays unreachable.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} · {task.fields[told]}"),
        console=Console(stderr=True, highlight=False),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(plain(batch["name"]), total=batch["counts"]["total"], told="")
        rate, patience = ThroughputMeter(), RetryTimer()
        while True:
            try:
                for event in client.batch_events(batch["id"]):
                    counts = event.body
                    rate.note(time.monotonic(), counts["total"] - counts["waiting"])
                    bar.update(
                        task,
                        total=counts["total"],
                        completed=_count_done(counts),
                        told=format_progress(counts, rate),
                    )
                    patience.answered()
                batch = client.batch(batch["id"])
                patience.answered()
            except ClientError as problem:
                away = isinstance(problem, DaemonUnreachable)
                bar.update(
                    task, told="the daemon is unreachable" if away else f"waiting: {plain(problem.message)}"
                )
                patience.wait(problem)
            else:
                if batch["state"] in OVER and not batch["counts"]["running"]:
                    return batch
                time.sleep(LOOK_AGAIN_S)


def format_progress(counts: Document, rate: ThroughputMeter) -> str:
    """Return the text for the progress bar: unsuccessful items, rate and remaining time."""
    failed = counts["failed"] + counts["error"] + counts["cancelled"]
    return f"{failed} failed · {rate.items_per_second:.1f}/s · {rate.remaining(counts['waiting'])} left"


def _count_done(counts: Document) -> int:
    done: int = counts["total"] - counts["waiting"]
    return done


STDIN = Path("-")
"""The path that represents standard input."""
PIECE_BYTES = 64 * 2**10
BATCH_COLUMNS = ("name", "state", "done", "total", "validated", "failed", "error", "created")


def generate_name(file: Path) -> str:
    """Return a name for a batch, generated from the name of its file and the time."""
    from secrets import token_hex

    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip(".-_")[:40] or "batch"
    return f"{stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(2)}"


def require_new_batch(client: PlainClient, name: str, file: Path) -> None:
    """Ensure that the batch doesn't exist yet. Raises: RequestError ``batch.exists``, with the remedy."""
    try:
        client.batch(name)
    except NotFound:
        return
    message = f"batch {name} already exists; continue it: assay batch resume {name} {file}"
    raise RequestError("batch.exists", message)


def send_and_report(
    client: PlainClient,
    name: str,
    file: Path,
    outputs: BatchOutputs,
    **wanted: Any,
) -> int:
    """Send a file, follow the batch, write and print the results, and return the exit code.

    `wanted` contains the options `concurrency`, `dedupe` and `webhook` of the client's `send_batch`. After
    a keyboard interrupt, the batch continues to run, and the command to resume it is printed.
    """
    _require_nonempty_file(file)

    def send() -> Document:
        batch = client.send_batch(_read_chunks(file), name=name, **wanted)
        _print_notes(batch)
        return batch

    return follow_and_report(client, send, file, outputs, hint=_format_resume_hint(name, file))


def follow_and_report(
    client: PlainClient, begin: Callable[[], Document], file: Path, outputs: BatchOutputs, *, hint: str
) -> int:
    """Begin a batch, follow it until it ends, write and print the results, and return the exit code.

    A keyboard interrupt, or an unreachable daemon, prints `hint` and leaves the batch running.
    """
    try:
        batch = follow_batch(client, begin())
        summary = _summarize_items(client, batch, file, outputs)
    except KeyboardInterrupt:
        print(hint, file=sys.stderr)
        return INTERRUPTED
    except ClientError as problem:
        if problem.retryable:
            print(hint, file=sys.stderr)
        raise
    if outputs.as_json:
        print_json(summary.document(batch))
    else:
        console().lines((*iter_status_lines(batch), *summary.lines(), *_iter_next_step_lines(batch)))
    return exit_code(batch["counts"])


def exit_code(counts: Document) -> int:
    """Return a batch's exit code. Internal errors take precedence over cancelled, then failed items."""
    if counts["error"]:
        return EXIT_ERROR
    if counts["cancelled"]:
        return CANCELLED
    return FAILED if counts["failed"] else VALIDATED


def iter_status_lines(batch: Document) -> Iterator[StyledLine]:
    """Yield the lines that show the progress of a batch."""
    counts = batch["counts"]
    done = f"{counts['total'] - counts['waiting']} of {counts['total']} done"
    yield build_line((plain(batch["name"]), "bold"), f"  {batch['state']}, {done}{_format_duration(batch)}")
    for verdict in ("validated", "failed", "error", "cancelled"):
        if counts[verdict]:
            bad = counts["malformed"] if verdict == "error" else 0
            malformed = f" ({bad} of them can't be submitted)" if bad else ""
            yield build_line((f"{counts[verdict]:>8} {verdict}", STYLE_BY_STATUS[verdict]), malformed)
    if counts["waiting"]:
        yield build_line(f"{counts['waiting']:>8} waiting ({counts['running']} of them running)")
    if batch["state"] == "open":
        yield build_line(
            ("Not all lines have arrived; send the rest with: assay batch resume NAME FILE.jsonl", "yellow")
        )


def _format_duration(batch: Document) -> str:
    if batch["finished_at"] is None:
        return ""
    began, ended = (datetime.fromisoformat(batch[name]) for name in ("created_at", "finished_at"))
    return f" in {format_duration((ended - began).total_seconds() * 1000)}"


def _iter_next_step_lines(batch: Document) -> Iterator[StyledLine]:
    """Yield the commands that list and rerun the items that weren't validated, if a batch has any."""
    counts = batch["counts"]
    if counts["total"] > counts["validated"]:
        yield build_line("")
        yield build_line(
            f"Show the lines that weren't validated: assay batch results {plain(batch['name'])} --failed",
            hang=None,
        )
        again = f"assay batch results {plain(batch['name'])} --failed --lines | assay batch run -"
        yield build_line(f"Run these lines again: {again}", hang=None)
    if counts["error"] > counts["malformed"]:
        yield build_line(
            f"Run the internal errors again: assay batch retry {plain(batch['name'])}", hang=None
        )


def build_batch_row(batch: Document) -> Sequence[str]:
    """Return a batch's table row: name, state, done, total, verdicts and creation time."""
    counts = batch["counts"]
    numbers = (counts["total"] - counts["waiting"], counts["total"])
    verdicts = (counts["validated"], counts["failed"], counts["error"])
    return [batch["name"], batch["state"], *map(str, (*numbers, *verdicts)), batch["created_at"][:19] + "Z"]


def _require_nonempty_file(file: Path) -> None:
    """Ensure that the input isn't empty before a batch is opened. A pipe isn't checked."""
    if file == STDIN:
        return
    try:
        size = file.stat().st_size
        if not file.is_fifo():
            file.open("rb").close()
    except OSError as error:
        raise RequestError("file.unreadable", f"{file}: {error.strerror}") from error
    if file.is_file() and not size:
        raise RequestError("batch.empty", f"{file} has no lines")


def _read_chunks(file: Path) -> Iterator[bytes]:
    try:
        with nullcontext(sys.stdin.buffer) if file == STDIN else file.open("rb") as opened:
            while piece := opened.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise RequestError("file.unreadable", f"{file}: {error.strerror}") from error


def _print_notes(batch: Document) -> None:
    received = batch["received"]
    if not received["lines"]:
        raise RequestError("batch.empty", f"the file has no lines; batch {batch['name']} is empty")
    if received["conflicting"]:
        lines = ", ".join(map(str, received["conflicting"][:10]))
        print(
            "assay: these lines were already submitted with another policy, overrides or labels, "
            f"which are kept: {lines}",
            file=sys.stderr,
        )


def _format_resume_hint(name: str, file: Path) -> str:
    return (
        f"assay: batch {name} continues in the daemon; follow it with: assay batch resume {name} {file}\n"
        f"assay: or stop it with: assay batch cancel {name}"
    )


def _summarize_items(client: PlainClient, batch: Document, file: Path, outputs: BatchOutputs) -> BatchSummary:
    """Read all items once, write the requested files, and return the summary."""
    if outputs.folder or outputs.junit or outputs.sarif:
        return write_files(client, batch, file, outputs)
    summary, after, patience = BatchSummary(), 0, RetryTimer()
    while True:
        try:
            page = client.batch_items(batch["id"], after=after, limit=1000)
        except ClientError as problem:
            patience.wait(problem)
            continue
        patience.answered()
        for item in page["items"]:
            summary.add(item)
        if page["next_after"] is None:
            return summary
        after = page["next_after"]


batch_app = typer.Typer(help="Validate many submissions, one per line of a file.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Batch: name, id, unique id prefix, or `last`.")]
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.jsonl", help="File with one submission per line, as JSON; - is standard input."
    ),
]
Concurrency = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Run at most this many attempts at once.")
]
Webhook = Annotated[
    str | None, typer.Option(metavar="URL", help="Send a webhook message to this URL when the batch ends.")
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write results.jsonl and summary.json into this folder.")
]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a JUnit report.")]
Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the findings as SARIF.")]


@batch_app.command("run")
def run_batch(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    file: File,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name the batch. Default: a generated name.")
    ] = None,
    concurrency: Concurrency = None,
    dedupe: Annotated[
        bool, typer.Option("--dedupe", help="Run lines with the same input, policy and image only once.")
    ] = False,
    webhook: Webhook = None,
    out: Out = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: Json = False,
) -> None:
    """Submit a file as a new batch, wait for it, and show the result."""
    with open_client(context) as client:
        chosen = name or generate_name(file)
        require_new_batch(client, chosen, file)
        outputs = BatchOutputs(folder=out, junit=junit, sarif=sarif, as_json=as_json)
        code = send_and_report(
            client, chosen, file, outputs, concurrency=concurrency, dedupe=dedupe or None, webhook=webhook
        )
    raise typer.Exit(code)


@batch_app.command("resume")
def resume_batch(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    name: Name,
    file: File,
    concurrency: Concurrency = None,
    webhook: Webhook = None,
    out: Out = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: Json = False,
) -> None:
    """Resume a batch: submit the missing lines of its file, wait, and show the result."""
    with open_client(context) as client:
        name = client.batch(find_batch(client, name))["name"]
        outputs = BatchOutputs(folder=out, junit=junit, sarif=sarif, as_json=as_json)
        code = send_and_report(client, name, file, outputs, concurrency=concurrency, webhook=webhook)
    raise typer.Exit(code)


@batch_app.command("retry")
def retry_batch(
    context: typer.Context,
    name: Name,
    out: Out = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: Json = False,
) -> None:
    """Rerun the items that ended with an internal error, wait for them to finish, and show the batch."""
    outputs = BatchOutputs(folder=out, junit=junit, sarif=sarif, as_json=as_json)
    with open_client(context) as client:
        name = client.batch(find_batch(client, name))["name"]
        begin = partial(client.retry_batch_errors, name)
        code = follow_and_report(
            client, begin, Path(name), outputs, hint=_format_resume_hint(name, Path("FILE"))
        )
    raise typer.Exit(code)


@batch_app.command("status")
def show_batch(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show the progress of a batch."""
    with open_client(context) as client:
        batch = client.batch(find_batch(client, name))
    if as_json:
        print_json(batch)
    else:
        console().lines(iter_status_lines(batch))


@batch_app.command("list")
def list_batches(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many batches.")] = 20,
    as_json: Json = False,
) -> None:
    """List batches, newest first."""
    with open_client(context) as client:
        page = client.batches(limit=limit)
    print_result(page, BATCH_COLUMNS, map(build_batch_row, page["batches"]), as_json=as_json)


@batch_app.command("results")
def print_results(
    context: typer.Context,
    name: Name,
    failed: Annotated[
        bool, typer.Option("--failed", help="Print only lines that weren't validated.")
    ] = False,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="Print the submitted lines instead, as input for `assay batch run -`."),
    ] = False,
) -> None:
    """For each line of the file, print a JSON object with its attempt and report."""
    with open_client(context) as client:
        for result in client.batch_results(find_batch(client, name)):
            if failed and result["verdict"] == "validated":
                continue
            shown = _get_submission(client, result) if lines else result
            if shown is not None:
                sys.stdout.write(json.dumps(shown, ensure_ascii=sys.stdout.isatty()) + "\n")


def _get_submission(client: PlainClient, result: Document) -> Document | None:
    """Return the submission of a line. If it isn't stored, print a note and return None."""
    found = fetch_stored_submission(client, result["attempt"]) if result["attempt"] else None
    if found is None:
        print(f"assay: line {result['line']} can't be printed: its submission isn't stored", file=sys.stderr)
    return found


@batch_app.command("attestation")
def print_attestation(context: typer.Context, name: Name) -> None:
    """Print the signed statement of a finished batch, for `assay verify`."""
    with open_client(context) as client:
        print(client.batch_attestation(find_batch(client, name)).decode())


@batch_app.command("cancel")
def cancel_batch(context: typer.Context, name: Name) -> None:
    """Cancel a batch: start no further attempts, and stop the running ones."""
    with open_client(context) as client:
        client.cancel_batch(find_batch(client, name))
