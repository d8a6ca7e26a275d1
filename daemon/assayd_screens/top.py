"""Implements `assay top`, which shows the daemon's current work and refreshes it every few seconds."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from assayd_client import Document, PlainClient
from assayd_client.cli.sample import MetricsSample, SampleSpan, build_sample_span, parse_metrics
from assayd_client.cli.terminal import STYLE_BY_STATUS, format_duration, plain

MOST_SHOWN = 40
NAME_WIDTH_CELLS = 11
SHOWN_STATES = ("running", "leasing", "checking", "judging")
VERDICT_NAMES = ("validated", "failed", "error", "cancelled")
CONTAINER_STATES = ("idle", "starting", "leased", "removing", "stuck")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorFrame:
    """The data for one frame of the display."""

    at: datetime
    span: SampleSpan
    since_start: bool
    attempts: Sequence[Document]


class MetricsReader:
    """A reader of a daemon's metrics. Each display covers the time since the previous reading."""

    def __init__(
        self,
        client: PlainClient,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._now = now or (lambda: datetime.now(UTC))
        self._before: MetricsSample | None = None

    def read_frame(self) -> MonitorFrame:
        """Fetch metrics and attempts, and return the data for the next display."""
        sample, at = parse_metrics(self._client.metrics().decode(), self._clock()), self._now()
        pages = [self._client.attempts(state=state, limit=MOST_SHOWN) for state in SHOWN_STATES]
        started = sample.total("assayd_process_start_time_seconds")
        frame = MonitorFrame(
            at=at,
            span=build_sample_span(sample, self._before, at.timestamp() - started if started else 0.0),
            since_start=self._before is None,
            attempts=[attempt for page in pages for attempt in page["attempts"]][:MOST_SHOWN],
        )
        self._before = sample
        return frame


def run_display_loop(
    client: PlainClient, console: Console, *, interval_s: float, wait: Callable[[float], bool]
) -> None:
    """Show the daemon's state repeatedly until `wait` returns True.

    The function `wait` is called with the seconds to wait.
    """
    looking = MetricsReader(client)
    with Live(render_frame(looking.read_frame()), console=console, screen=True, auto_refresh=False) as live:
        while not wait(interval_s):
            live.update(render_frame(looking.read_frame()), refresh=True)


@contextmanager
def disable_key_echo(file: TextIO) -> Iterator[Callable[[float], bool]]:
    """Disable the echo of keys, and yield a function that waits or returns True early on the key `q`."""
    descriptor = file.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield partial(_wait_for_quit_key, descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


def _wait_for_quit_key(descriptor: int, seconds: float) -> bool:
    due = time.monotonic() + seconds
    while (left := due - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0] and os.read(descriptor, 64)[:1] in {b"", b"q", b"Q"}:
            return True
    return False


def render_frame(frame: MonitorFrame) -> RenderableType:
    """Return one frame of the display as a Rich renderable."""
    return Group(*_iter_frame_lines(frame), Text(), _build_attempts_table(frame))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A line of facts with a name, which a narrow terminal wraps only between facts."""

    name: str
    facts: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width if console.is_terminal else sys.maxsize
        row = Text(f"{self.name:<{NAME_WIDTH_CELLS}}", "dim", end="")
        for place, fact in enumerate(self.facts):
            separator = " · " if place else ""
            if place and row.cell_len + len(separator) + fact.cell_len > width:
                yield Text.assemble(row)
                row, separator = Text(" " * NAME_WIDTH_CELLS), ""
            row = Text.assemble(row, separator, fact)
        yield row


def _iter_frame_lines(frame: MonitorFrame) -> Iterator[Facts]:
    now, seen = frame.span.now, frame.span
    ready = now.total("assayd_ready") > 0
    version = next((dict(key)["version"] for key in now.values.get("assayd_build_info", {})), "")
    period = "since the start" if frame.since_start else f"of {seen.seconds:.1f} s"
    serving = ("serving", "green") if ready else ("not ready; `assay doctor` shows the reason", "bold red")
    yield Facts(
        name="assayd",
        facts=[
            Text(plain(version)),
            Text(*serving),
            Text(f"{frame.at:%H:%M:%S} UTC"),
            Text(f"rates {period}"),
        ],
    )
    waiting = f"{now.total('assayd_queue_depth'):,.0f}", _format_size(now.total("assayd_queue_bytes"))
    steps = ("queued", "lease", "run", "total")
    yield Facts(name="attempts", facts=list(_iter_rates_text(seen)))
    yield Facts(name="waiting", facts=[Text(each) for each in waiting])
    yield Facts(
        name="under way",
        facts=list(_iter_counts_text(now.sum_by_label("assayd_attempts_under_way", "state"), SHOWN_STATES)),
    )
    yield Facts(name="latency", facts=[Text(_format_latency(seen, step)) for step in steps])
    containers = _iter_counts_text(now.sum_by_label("assayd_containers", "state"), CONTAINER_STATES)
    yield Facts(name="containers", facts=[*containers, *_iter_warm_share_text(now)])
    yield Facts(name="engine", facts=list(_iter_engine_text(seen)))
    yield Facts(name="daemon", facts=list(_iter_daemon_text(seen)))


def _iter_rates_text(seen: SampleSpan) -> Iterator[Text]:
    rates = seen.compute_rates_by_label("assayd_attempts_total", "verdict")
    yield Text(f"{sum(rates.values()):.1f}/s")
    for verdict in VERDICT_NAMES:
        yield Text(f"{rates.get(verdict, 0.0):.1f} ").append(verdict, STYLE_BY_STATUS[verdict])


def _iter_counts_text(counts: dict[str, float], names: Sequence[str]) -> Iterator[Text]:
    for name in names:
        stuck = name == "stuck" and counts.get(name)
        yield Text(f"{counts.get(name, 0.0):.0f} {name}", "bold red" if stuck else "")


def _format_latency(seen: SampleSpan, step: str) -> str:
    half, most = (
        seen.estimate_quantile_s(q, "assayd_attempt_duration_seconds", stage=step) for q in (0.5, 0.95)
    )
    if half is None or most is None:
        return f"{step} –"
    return f"{step} p50 {format_duration(half * 1000)} p95 {format_duration(most * 1000)}"


def _iter_warm_share_text(now: MetricsSample) -> Iterator[Text]:
    leases = now.sum_by_label("assayd_leases_total", "start")
    if handed_out := sum(leases.values()):
        yield Text(f"{leases.get('warm', 0.0) / handed_out:.0%} of leases warm")


def _iter_engine_text(seen: SampleSpan) -> Iterator[Text]:
    errors = seen.compute_rate("assayd_engine_errors_total")
    create = seen.estimate_quantile_s(0.95, "assayd_engine_call_duration_seconds", call="start")
    yield Text(f"{seen.compute_rate('assayd_engine_call_duration_seconds_count'):.1f} calls/s")
    yield Text(f"{errors:.1f} errors/s", "red" if errors else "")
    if create is not None:
        yield Text(f"start p95 {format_duration(create * 1000)}")


def _iter_daemon_text(seen: SampleSpan) -> Iterator[Text]:
    now = seen.now
    free, size = now.total("assayd_disk_free_bytes"), now.total("assayd_disk_size_bytes")
    yield Text(f"{_format_size(now.total('assayd_process_resident_memory_bytes'))} memory")
    yield Text(f"{seen.compute_rate('assayd_process_cpu_seconds_total'):.0%} of a processor")
    yield Text(f"{_format_size(free)} of {_format_size(size)} free on disk")


def _format_size(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def _build_attempts_table(frame: MonitorFrame) -> RenderableType:
    if not frame.attempts:
        return Text("no attempt is running", "dim")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("id", "kind", "state", "age", "uid", "labels"):
        table.add_column(head, no_wrap=True)
    for attempt in frame.attempts:
        age_s = (frame.at - datetime.fromisoformat(attempt["created_at"])).total_seconds()
        labels = " ".join(f"{key}={value}" for key, value in sorted(attempt["labels"].items()))
        cells = (
            attempt["id"],
            attempt["kind"],
            attempt["state"],
            f"{max(age_s, 0):.0f}s",
            str(attempt["peer"]["uid"]),
        )
        table.add_row(*(Text(plain(cell)) for cell in (*cells, labels)))
    return table
