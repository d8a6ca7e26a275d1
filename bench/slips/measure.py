"""Measures hints for bash, SQL, adapters and Fifth, and the findings about passes that are worth nothing.

    python -m bench.slips.measure [--socket SOCKET] [--half HALF]… [--set NAME]…
        [--show] [--show-unseen] [--real]

Prints, by table and half: is a finding at the line of the slip, is the remedy named, does the edit make the
submission pass; how many worthless passes are found; with --real, how many programs of strangers get a new
error or a warning. --show prints each entry of a seen half that falls short, and --show-unseen those of the
unseen ones too: use it only once the figures are final.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assayd.model.finding import Edit
from assayd_chains.providers.rules import apply_edits, remove_overlapping_edits
from assayd_client import Document, PlainClient
from assayd_client.errors import Refused
from bench.daemon import daemon
from bench.slips.sources import Source, real
from bench.slips.tables import HALVES, SLIPS, WORTHLESS, Entry, Worthless, slips, worthless

AT_ONCE = 3
WAIT_S = 120
REAL = ("extractors", "nodes", "modules", "bash", "sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a report says of one slip."""

    entry: Entry
    told: bool
    at_the_line: bool
    remedy_named: bool
    edit_works: bool
    words: str


def submit(client: PlainClient, kind: str, payload: object) -> Document:
    """Submit, and return the finished attempt."""
    return client.submit({"kind": kind, "payload": payload}, wait_s=WAIT_S)


def look(client: PlainClient, entry: Entry) -> Looked:
    """Submit a slip, read its report, and try its edits."""
    attempt = submit(client, entry.kind, entry.put(entry.text))
    found = attempt["report"]["findings"]
    told = [one for one in found if one["severity"] != "info"]
    here = [one for one in told if entry.table != "module" or one["file"] in {entry.file, None}]
    edits = [
        Edit(**hint["edit"])
        for hint in attempt["report"]["fix_hints"]
        if hint["edit"] and (entry.table != "module" or hint["file"] in {entry.file, None})
    ]
    words = " ".join(f"{one['message']} {one['suggestion']}" for one in told)
    touched = any(entry.lines & set(range(one.start_line, one.end_line + 1)) for one in edits)
    return Looked(
        entry=entry,
        told=bool(told),
        at_the_line=touched or any(one["line"] in entry.lines for one in here),
        remedy_named=any(remedy.lower() in words.lower() for remedy in entry.remedies),
        edit_works=bool(edits) and _works(client, entry, edits, told),
        words=f"{attempt['verdict']}: "
        + " | ".join(f"{one['rule']} {one['line']}: {one['message']} -> {one['suggestion']}" for one in told),
    )


def _works(client: PlainClient, entry: Entry, edits: Sequence[Edit], before: Sequence[Document]) -> bool:
    """Return whether the edits make the submission pass, without the findings that they are for."""
    changed = apply_edits(entry.text, remove_overlapping_edits(edits))
    if changed == entry.text:
        return False
    again = submit(client, entry.kind, entry.put(changed))
    left = [one["rule"] for one in again["report"]["findings"] if one["severity"] != "info"]
    return again["verdict"] == "validated" and len(left) < max(len(before), 1)


def judge(client: PlainClient, one: Worthless) -> tuple[Worthless, bool, str]:
    """Submit a worthless pass or a neighbour; return whether the report is right about it."""
    attempt = submit(client, one.kind, one.payload)
    found = [each for each in attempt["report"]["findings"] if each["category"] == "quality"]
    rules = [each["rule"] for each in found if each["severity"] != "info"]
    right = not rules if one.rule is None else bool(rules)
    words = " | ".join(f"{each['rule']}: {each['message']}" for each in attempt["report"]["findings"])
    return one, right and attempt["verdict"] == "validated", f"{attempt['verdict']}: {words}"


def print_slips(client: PlainClient, table: str, halves: Sequence[str], *, shown: Sequence[str]) -> None:
    """Measure one table, and print a line per half."""
    chosen = [one for one in slips(table) if one.half in halves]
    with ThreadPoolExecutor(AT_ONCE) as workers:
        looked = list(workers.map(lambda one: look(client, one), chosen))
    for half in halves:
        rows = [one for one in looked if one.entry.half == half]
        if rows:
            shares = ", ".join(
                f"{what} {sum(getattr(one, field) for one in rows)} ({_percent(rows, field)})"
                for what, field in (
                    ("line", "at_the_line"),
                    ("remedy", "remedy_named"),
                    ("working edit", "edit_works"),
                )
            )
            print(f"{table:8} {half:13} {len(rows):3} slips: {shares}", flush=True)
    for one in looked:
        if one.entry.half in shown and not (one.at_the_line and one.remedy_named and one.edit_works):
            marks = "".join(
                mark if good else "-"
                for mark, good in (
                    ("L", one.at_the_line),
                    ("R", one.remedy_named),
                    ("E", one.edit_works),
                )
            )
            print(
                f"  {marks} {one.entry.half} {one.entry.number} {one.entry.name} {sorted(one.entry.lines)}: "
                f"{one.words}"
            )


def _percent(rows: Sequence[Looked], field: str) -> str:
    return f"{100 * sum(getattr(one, field) for one in rows) / len(rows):.0f} %"


def print_worthless(client: PlainClient, table: str, halves: Sequence[str], *, show: bool) -> None:
    """Measure the worthless passes of a table: a line per half, or one for a table held back as a whole."""
    held = table != WORTHLESS[0]
    chosen = [one for one in worthless(table) if held or ("seen" if one.seen else "unseen") in halves]
    with ThreadPoolExecutor(AT_ONCE) as workers:
        judged = list(workers.map(lambda one: judge(client, one), chosen))
    halves = (
        {"all": judged}
        if held
        else {
            "seen": [each for each in judged if each[0].seen],
            "unseen": [each for each in judged if not each[0].seen],
        }
    )
    for name, rows in halves.items():
        due = [right for one, right, _ in rows if one.rule]
        fine = [right for one, right, _ in rows if not one.rule]
        if rows:
            print(
                f"{table} {name:6} found {sum(due)} of {len(due)}; alarms {fine.count(False)} of {len(fine)}",
                flush=True,
            )
    for one, right, words in judged:
        if show and (held or one.seen) and not right:
            print(f"  {one.kind}/{one.number} {one.name} ({one.rule}): {words}")


def print_real(client: PlainClient, which: str, *, show: bool) -> tuple[int, int]:
    """Submit the programs of strangers; return how many are validated, and how many have an alarm."""
    with ThreadPoolExecutor(AT_ONCE) as workers:
        rows = list(workers.map(lambda one: _told(client, one), real(which)))
    validated = [rules for _, verdict, rules in rows if verdict == "validated"]
    alarms = sum(any(rule.startswith("quality.") for rule in rules) for rules in validated)
    warned = Counter(rule for rules in validated for rule in set(rules))
    print(
        f"real {which:10} {len(rows)}: validated {len(validated)}, "
        f"with a warning {sum(map(bool, validated))}, "
        f"about quality {alarms}: "
        f"{dict(warned)}",
        flush=True,
    )
    for name, verdict, rules in rows:
        if show:
            print(f"  {name}: {verdict} {' '.join(rules)}")
    return len(validated), alarms


def _told(client: PlainClient, source: Source) -> tuple[str, str, list[str]]:
    try:
        attempt = submit(client, source.kind, source.put(source.text))
    except Refused:
        return source.name, "refused", []
    rules = [one["rule"] for one in attempt["report"]["findings"] if one["severity"] != "info"]
    return source.name, attempt["verdict"], rules


@contextmanager
def connected(socket: Path | None) -> Iterator[PlainClient]:
    """Connect to a daemon that runs, or to one that runs as long as the body."""
    if socket is not None:
        with PlainClient(socket) as client:
            yield client
        return
    with (
        tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder,
        daemon(Path(folder) / "daemon") as target,
        PlainClient(target.socket) as client,
    ):
        yield client


def main(arguments: Sequence[str]) -> None:
    """Measure what is asked for, and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path)
    parser.add_argument("--half", action="append", choices=HALVES)
    parser.add_argument("--set", action="append", choices=(*SLIPS, *WORTHLESS, *(f"real-{n}" for n in REAL)))
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--show-unseen", action="store_true")
    parser.add_argument("--real", action="store_true")
    given = parser.parse_args(arguments)
    chosen = given.set or (*SLIPS, *WORTHLESS, *(f"real-{one}" for one in REAL if given.real))
    halves = given.half or HALVES
    shown = HALVES if given.show_unseen else ("seen", "second-seen") if given.show else ()
    real_ones: list[tuple[int, int]] = []
    with connected(given.socket) as client:
        for name in chosen:
            if name in WORTHLESS:
                print_worthless(client, name, halves, show=given.show)
            elif name.startswith("real-"):
                real_ones.append(print_real(client, name.removeprefix("real-"), show=given.show))
            else:
                print_slips(client, name, halves, shown=shown)
    if real_ones:
        validated, alarms = map(sum, zip(*real_ones, strict=True))
        share = alarms / max(validated, 1)
        print(f"real in all: {alarms} of {validated} with a finding about quality, {share:.1%} (goal 3 %)")


if __name__ == "__main__":
    main(sys.argv[1:])
