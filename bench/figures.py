"""Percentiles, and the machine that they were measured on."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Latencies of one scenario, in milliseconds."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    mean_ms: float
    max_ms: float


def spread(seconds: Sequence[float]) -> Spread:
    """Summarise latencies. Percentiles are nearest-rank: values that were really measured."""
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        place = max(0, min(len(ordered) - 1, round(share * len(ordered) + 0.5) - 1))
        return round(ordered[place] * 1000, 3)

    return Spread(
        count=len(ordered),
        p50_ms=rank(0.50),
        p95_ms=rank(0.95),
        p99_ms=rank(0.99),
        mean_ms=round(statistics.fmean(ordered) * 1000, 3),
        max_ms=round(ordered[-1] * 1000, 3),
    )


def machine() -> dict[str, object]:
    """Say what this was measured on."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory_kb = next(int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kb / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a process tree holds: resident memory of the daemon itself, its descriptors, its CPU time."""

    rss_bytes: int
    descriptors: int
    cpu_s: float


def footprint(pid: int) -> Footprint:
    """Read the footprint of one process from /proc."""
    status = {key: value for key, _, value in (line.partition(":") for line in _lines(f"/proc/{pid}/status"))}
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return Footprint(
        rss_bytes=int(status["VmRSS"].split()[0]) * 1024,
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
    )
