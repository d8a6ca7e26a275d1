"""What a run used, against what it was given: the figures behind the bars of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assayd_client import Document
from assayd_console.shown import size, took

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """One figure of a run. `share` is of the limit, at most 1."""

    name: str
    shown: str
    limit: str
    share: float

    @property
    def near(self) -> bool:
        """Return whether it came close to its limit."""
        return self.share >= 0.9


def used(attempt: Document) -> Iterator[Used]:
    """Return what an attempt's run used; nothing for one that was not run."""
    run, report = attempt["execution"], attempt["report"]
    if run is None or report is None:
        return
    limits, counted = report["effective_limits"], run["resource_usage"]
    time_ms, memory = limits["timeout_s"] * 1000, limits["memory_mb"] * MIB
    yield _used("time", run["execution_time_ms"], time_ms, took)
    yield _used("processor", run["cpu_ms"], time_ms, took)
    slowest = max(
        (case["duration_ms"] for case in (report["runtime_results"] or {}).get("cases", ())), default=0
    )
    yield _used("slowest unit", slowest, limits["unit_timeout_s"] * 1000, took)
    if run["peak_memory_bytes"] is not None:
        yield _used("memory", run["peak_memory_bytes"], memory, size)
    yield _used("standard output", run["stdout_bytes"], limits["output_read_bytes"], size)
    yield _used("standard error", run["stderr_bytes"], limits["output_read_bytes"], size)
    yield _used("disk", counted["work_bytes_used"], limits["work_bytes"], size)
    yield _used("files", counted["work_files_used"], limits["work_files"], "{:,.0f}".format)


def _used(name: str, amount: float, limit: float, write: Callable[[float], str]) -> Used:
    share = min(amount / limit, 1.0) if limit else 0.0
    return Used(name=name, shown=write(amount), limit=write(limit), share=share)
