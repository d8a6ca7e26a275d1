"""`assay batch`: send a file, show how it gets on, write down what it came to. Flat in memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from assayd.errors import RequestError
from assayd_client import Document, NotFound, PlainClient
from assayd_client.cli.amounts import duration
from assayd_client.cli.batch_files import BatchOutputs, write_files
from assayd_client.cli.batch_progress import follow
from assayd_client.cli.exits import CANCELLED, FAILED, INTERRUPTED, TROUBLE, VALIDATED
from assayd_client.cli.listing import STYLES
from assayd_client.cli.screen import StyledLine, line
from assayd_client.cli.summary import Summary
from assayd_client.cli.terminal import out, plain, print_json

STDIN = Path("-")
"""Stands for standard input."""
PIECE_BYTES = 64 * 2**10
BATCH_HEADS = ("name", "state", "done", "total", "validated", "failed", "error", "created")


def make_up_name(file: Path) -> str:
    """Name a batch after its file and the time."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip(".-_")[:40] or "batch"
    return f"{stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(2)}"


def require_new(client: PlainClient, name: str, file: Path) -> None:
    """See that there is no such batch yet. Raises: RequestError ``batch.exists``, with what to do instead."""
    try:
        client.batch(name)
    except NotFound:
        return
    message = f"there is a batch {name} already; go on with it: assay batch resume {name} {file}"
    raise RequestError("batch.exists", message)


def send_and_follow(
    client: PlainClient,
    name: str,
    file: Path,
    outputs: BatchOutputs,
    **wanted: Any,
) -> int:
    """Send a file, follow the batch to its end, write and show the results; return the exit code.

    `wanted` are concurrency, dedupe and webhook, as the client's `send_batch` takes them.
    An interrupt from the keyboard leaves the batch running, and says how to go on.
    """
    _require_lines(file)
    try:
        batch = client.send_batch(_pieces(file), name=name, **wanted)
        _remark_on(batch)
        batch = follow(client, batch)
    except KeyboardInterrupt:
        print(_how_to_go_on(name, file), file=sys.stderr)
        return INTERRUPTED
    summary = _finish(client, batch, file, outputs)
    if outputs.as_json:
        print_json(summary.document(batch))
    else:
        out().lines((*status_lines(batch), *summary.lines(), *_next_step(batch)))
    return exit_code(batch["counts"])


def exit_code(counts: Document) -> int:
    """Return the exit code of a batch: our trouble first, then what was stopped, then what failed."""
    if counts["error"]:
        return TROUBLE
    if counts["cancelled"]:
        return CANCELLED
    return FAILED if counts["failed"] else VALIDATED


def status_lines(batch: Document) -> Iterator[StyledLine]:
    """Return the lines that show how far a batch is."""
    counts = batch["counts"]
    done = f"{counts['total'] - counts['waiting']} of {counts['total']} done"
    yield line((plain(batch["name"]), "bold"), f"  {batch['state']}, {done}{_took(batch)}")
    for verdict in ("validated", "failed", "error", "cancelled"):
        if counts[verdict]:
            bad = counts["malformed"] if verdict == "error" else 0
            malformed = f" ({bad} of them lines that cannot be submitted)" if bad else ""
            yield line((f"{counts[verdict]:>8} {verdict}", STYLES[verdict]), malformed)
    if counts["waiting"]:
        yield line(f"{counts['waiting']:>8} waiting ({counts['running']} of them under way)")
    if batch["state"] == "open":
        yield line(("Not all lines have come; send them with: assay batch resume NAME FILE.jsonl", "yellow"))


def _took(batch: Document) -> str:
    if batch["finished_at"] is None:
        return ""
    began, ended = (datetime.fromisoformat(batch[name]) for name in ("created_at", "finished_at"))
    return f" in {duration((ended - began).total_seconds() * 1000)}"


def _next_step(batch: Document) -> Iterator[StyledLine]:
    """Name the command that lists what is not validated, if there is any."""
    if batch["counts"]["total"] > batch["counts"]["validated"]:
        yield line("")
        yield line(
            f"Lines that are not validated: assay batch results {plain(batch['name'])} --failed", hang=None
        )


def batch_row(batch: Document) -> Sequence[str]:
    """Return the cells of one batch."""
    counts = batch["counts"]
    numbers = (counts["total"] - counts["waiting"], counts["total"])
    verdicts = (counts["validated"], counts["failed"], counts["error"])
    return [batch["name"], batch["state"], *map(str, (*numbers, *verdicts)), batch["created_at"][:19] + "Z"]


def _require_lines(file: Path) -> None:
    """See that there is something to send, before a batch is opened for it; a pipe is left alone."""
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


def _pieces(file: Path) -> Iterator[bytes]:
    try:
        with nullcontext(sys.stdin.buffer) if file == STDIN else file.open("rb") as opened:
            while piece := opened.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise RequestError("file.unreadable", f"{file}: {error.strerror}") from error


def _remark_on(batch: Document) -> None:
    received = batch["received"]
    if not received["lines"]:
        raise RequestError("batch.empty", f"the file has no lines; batch {batch['name']} is empty")
    if received["conflicting"]:
        lines = ", ".join(map(str, received["conflicting"][:10]))
        print(
            f"assay: known with another policy, overrides or labels, which they keep: lines {lines}",
            file=sys.stderr,
        )


def _how_to_go_on(name: str, file: Path) -> str:
    return (
        f"assay: batch {name} goes on without you; follow it with: assay batch resume {name} {file}\n"
        f"assay: or stop it with: assay batch cancel {name}"
    )


def _finish(client: PlainClient, batch: Document, file: Path, outputs: BatchOutputs) -> Summary:
    """Go through the items once, for the summary and whatever files are wanted."""
    if outputs.folder or outputs.junit or outputs.sarif:
        return write_files(client, batch, file, outputs)
    summary, after = Summary(), 0
    while True:
        page = client.batch_items(batch["id"], after=after, limit=1000)
        for item in page["items"]:
            summary.add(item)
        if page["next_after"] is None:
            return summary
        after = page["next_after"]
