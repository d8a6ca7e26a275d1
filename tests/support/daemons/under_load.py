"""Writes docs/operating/under-load.md from the figures of tests/day.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HEAD = """\
# Under load

This page shows how the daemon handled long batches on one machine. `make day` repeats the measurements and
writes this page. The times come from that machine, which is small and may have been busy with other work.
On every machine, no result may be lost, duplicated, wrong or left behind.
"""
DAY = """
## A day in a minute

A batch of {items:,} lines of all kinds runs; {with_container} of them need a container. Meanwhile, the daemon
is killed twice (`kill -9`), the container engine is restarted once, and a second client submits an attempt
every second, each after the previous result ({attempts} in total).

| | |
| --- | --- |
"""
LINES = """
## {items:,} lines

`assay batch run` with all its outputs runs static rejections and validations of all kinds, {with_container}
runs in containers, and malformed lines in between. The table shows the peak resident memory of each process
so far:

| lines done | daemon | client |
| --- | --- | --- |
"""


def write_page(results: Path, page: Path) -> None:
    """Write the page from the available results."""
    parts = [HEAD]
    for name, section in (("day", _day), ("lines", _lines)):
        file = results / f"{name}.json"
        if file.exists():
            parts.append(section(json.loads(file.read_text())))
    page.write_text("".join(parts))


def _day(found: Mapping[str, Any]) -> str:
    head = DAY.format(**found, attempts=found["interactive"]["count"])
    return head + "".join(f"| {name} | {value} |\n" for name, value in _day_rows(found)) + _machine(found)


def _day_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "total time", f"{found['took_s']:g} s"
    yield "verdicts of the batch", _counts(found["verdicts"])
    yield "errors among them, by code", _counts(found["errors"])
    yield "verdicts of the second client's attempts", _counts(found["interactive_verdicts"])
    yield "lost runs that ran again", str(found["run_again"])
    yield "lost, duplicated, wrong or left behind", str(found["problems"])
    for outage in found["outages"]:
        yield f"{outage['what']}, until the daemon accepted work again", f"{outage['took_s']:g} s"
    calm, whole = found["interactive_without_outages"], found["interactive"]
    for name, spread in (("all", whole), *((("without an outage", calm),) if calm else ())):
        shown = f"{spread['p50_ms'] / 1000:.2f} s / {spread['p95_ms'] / 1000:.2f} s"
        yield f"second client's attempts, p50 / p95, {name} ({spread['count']})", shown
    yield "peak memory of daemon / client", f"{found['daemon_peak_mb']:g} MB / {found['client_peak_mb']:g} MB"


def _lines(found: Mapping[str, Any]) -> str:
    rows = "".join(
        f"| {seen['done']:,}{', results written' if 'results' in seen else ''} "
        f"| {seen['daemon_peak_mb']:g} MB | {seen['client_peak_mb']:g} MB |\n"
        for seen in found["memory"]
    )
    end = f"\nVerdicts: {_counts(found['verdicts'])}."
    end += f" Lost, duplicated, wrong or left behind: {found['problems']}.\n"
    return LINES.format(**found) + rows + end + _machine(found)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


def _machine(found: Mapping[str, Any]) -> str:
    machine = found["machine"]
    average = found.get("load_average")
    load = "" if average is None else f"; load average {average:g}, including our own load"
    return (
        f"\nMeasured {found['measured_at']}: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gib']:g} GiB, kernel {machine['kernel']}, Python {machine['python']}{load}.\n"
    )
