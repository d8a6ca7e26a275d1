"""Percentiles, the machine that they were measured on, and which of all figures goals are stated in."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
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


_FLOORS = ("engine_ceiling_per_s", "runtime_ceiling_per_s", "runner_start_cpu_ms", "bare_python_cpu_ms")
_PARTS = {
    "cold_p50_ms": ("cold", "p50_ms"),
    "warm_p50_ms": ("open_loop", "p50_ms"),
    "warm_p95_ms": ("open_loop", "p95_ms"),
    "warm_p99_ms": ("full_pool", "p99_ms"),
    "warm_share": ("open_loop", "warm_share"),
    "paths5_p50_ms": ("paths5", "p50_ms"),
    "paths50_p50_ms": ("paths50", "p50_ms"),
    "good_quiet_p95_ms": ("good_quiet", "p95_ms"),
    "good_beside_hostile_p95_ms": ("good_beside_hostile", "p95_ms"),
}
"""Figures of an engine by the scenario, and what of it, that they are."""
_WHOLE = (
    "throughput_per_s", "cpu_ms_per_attempt", "batch_2000_s", "rss_growth_mb", "fd_growth", "ready_s",
    "idle_cpu_percent", "baseline_mb",
)  # fmt: skip


def flat(results: Mapping[str, object], prefixes: Iterable[str]) -> dict[str, object]:
    """Return the figures that goals are stated in, by the names kept, of these engines and images."""

    def of(scenario: str, figure: str) -> object:
        values = results.get(scenario)
        return values.get(figure) if isinstance(values, dict) else None

    found = {name: results.get(name) for name in _FLOORS}
    found["docker_run_p50_ms"] = of("docker_run", "p50_ms")
    # It starts no container: measured on the engine that runs by default where there is no Docker.
    found["static_reject_p50_ms"] = of("oci_static_reject", "p50_ms")
    for name in ("cli_validate_cpu_ms", "cli_list_cpu_ms", "cli_help_cpu_ms"):
        found[name] = of("oci_client", name)
    found |= _accounted(results.get("oci_accounting"))
    for name in (name for name in results if name.startswith("peer_")):
        found[f"{name}_p50_ms"] = of(name, "p50_ms")
    for prefix in prefixes:
        found |= {prefix + name: of(prefix + scenario, part) for name, (scenario, part) in _PARTS.items()}
        found |= {prefix + name: results[prefix + name] for name in _WHOLE if prefix + name in results}
    return {name: value for name, value in found.items() if value is not None}


def _accounted(tables: object) -> dict[str, object]:
    """Return the figures of `bench.accounting` that goals are stated in."""
    if not isinstance(tables, Mapping):
        return {}
    return {
        "oci_whole_cpu_ms_per_attempt": tables["extractor"]["sum"],
        "oci_serial_ms": tables["extractor"]["serial_ms"],
        "oci_rest_pss_mb": tables["at rest"]["pss_mb"],
    }
