"""Tables: aligned and coloured on a terminal, separated by tabs when piped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from assayd.cli.report import duration
from assayd.cli.terminal import out, plain
from assayd.client import Document, StreamEvent

STYLES = {
    "validated": "green",
    "failed": "red",
    "error": "bold red",
    "cancelled": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


def print_table(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows; without heads and colours when piped, so that a script can read them."""
    clean = [[plain(cell).replace("\n", " ").replace("\t", " ") for cell in row] for row in rows]
    if not console.is_terminal:
        for row in clean:
            print("\t".join(row))
        return
    # What is copied stands first, and is never cut.
    first, *others = heads
    table = Table(Column(first, no_wrap=True, min_width=_widest(clean)), box=None, pad_edge=False)
    table.header_style = "dim"
    for head in others:
        table.add_column(head, overflow="fold")
    for row in clean:
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
    console.print(table, soft_wrap=False)


def _widest(rows: Sequence[Sequence[str]]) -> int:
    return max((cell_len(row[0]) for row in rows), default=0)


def attempt_row(attempt: Document) -> list[str]:
    """Return the cells of one attempt."""
    total = attempt["timings_ms"]["total"]
    return [
        attempt["id"],
        attempt["kind"],
        attempt["verdict"] or attempt["state"],
        attempt["created_at"][:19] + "Z",
        "" if total is None else duration(total),
        " ".join(f"{key}={value}" for key, value in sorted(attempt["labels"].items())),
    ]


ATTEMPT_HEADS = ("id", "kind", "verdict", "created", "took", "labels")


def policy_row(policy: Document) -> list[str]:
    """Return the cells of one profile."""
    resources = policy["resources"]
    return [
        policy["name"],
        f"{resources['timeout_s']:g}s",
        f"{resources['unit_timeout_s']:g}s",
        f"{resources['memory_mb']:g}MB",
        str(resources["max_processes"]),
        policy["description"],
    ]


POLICY_HEADS = ("name", "timeout", "unit", "memory", "processes", "")


def flatten(document: Mapping[str, object], within: str = "") -> list[tuple[str, str]]:
    """Return dotted names and values of a nested document."""
    rows: list[tuple[str, str]] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            rows += flatten(value, f"{within}{key}.")
        elif isinstance(value, list):
            rows.append((within + key, ", ".join(map(str, value))))
        else:
            rows.append((within + key, _shown(value)))
    return rows


def _shown(value: object) -> str:
    """Show a value as a policy file writes it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_row(check: Document) -> list[str]:
    """Return the cells of one check of the daemon's health."""
    return [check["status"], check["check"], check["detail"], check["remedy"]]


CHECK_HEADS = ("", "check", "seen", "remedy")


def event_line(event: StreamEvent) -> Text:
    """Show one event in one line."""
    body = " ".join(f"{key}={value}" for key, value in event.body.items())
    line = plain(body.rstrip("\n")).replace("\n", "⏎")
    return Text.assemble((event.at[11:23], "dim"), f" {event.kind:<8} {line}")


def print_events(events: Iterable[StreamEvent], *, as_json: bool, with_id: bool) -> None:
    """Print events as they come: a line each, or a JSON object each; `with_id` names their attempts."""
    console = out()
    for event in events:
        named = {"attempt_id": event.attempt_id} if with_id else {}
        if as_json:
            document = {"id": event.id, **named, "kind": event.kind, "at": event.at, "body": event.body}
            print(json.dumps(document), flush=True)
        else:
            name = f"{plain(event.attempt_id or ''):<26} " if with_id else ""
            console.print(Text.assemble((name, "bold"), event_line(event)))
