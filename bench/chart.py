"""Writes docs/performance.md and its chart from bench/results/latest.json; nothing in them is typed."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from bench import PAGES, RESULTS
from bench.accounting import table
from bench.images import PREFIXES

Results = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is compared with."""

    needs: tuple[str, ...]
    text: str
    holds: Callable[[Results], bool]
    figure: Callable[[Results], str]


REFERENCE_MS = 266.0
"""`docker run` on the machine that goals are stated for: times scale with it, rates inversely."""


def _scale(results: Results) -> float:
    return results.get("docker_run_p50_ms", REFERENCE_MS) / REFERENCE_MS


def _at_most(key: str, limit: float, unit: str, text: str) -> Goal:
    """Return a goal of a time, scaled to the machine where its unit is one."""

    def allowed(results: Results) -> float:
        return limit * _scale(results) if unit in {"ms", "s"} else limit

    return Goal(
        needs=(key,),
        text=f"{text} ≤ {limit:g} {unit}",
        holds=lambda r: r[key] <= allowed(r),
        figure=lambda r: f"{r[key]:g} of {allowed(r):.3g} {unit}",
    )


def _at_least(key: str, limit: float, text: str) -> Goal:
    return Goal(
        needs=(key,),
        text=f"{text} ≥ {limit:g} per second",
        holds=lambda r: r[key] >= limit / _scale(r),
        figure=lambda r: f"{r[key]:g} of {limit / _scale(r):.3g} per second",
    )


def _divide_or_zero(
    above: str, below: str, holds: Callable[[float, float], bool], limit: float, text: str
) -> Goal:
    return Goal(
        needs=(above, below),
        text=text,
        holds=lambda r: holds(r[above] / r[below], limit),
        figure=lambda r: f"{r[above] / r[below]:.2f} ({r[above]:g} / {r[below]:g})",
    )


GOALS = (
    _at_least("oci_plain_throughput_per_s", 40, "throughput, OCI without templates"),
    _at_least("oci_throughput_per_s", 110, "throughput, OCI"),
    _divide_or_zero(
        "oci_throughput_per_s", "engine_ceiling_per_s", operator.ge, 20, "throughput, OCI / bare Docker ≥ 20"
    ),
    _at_most("oci_plain_cold_p50_ms", 60, "ms", "cold attempt, OCI without templates, p50"),
    _at_most("oci_cold_p50_ms", 20, "ms", "cold attempt, OCI, p50"),
    _at_most("oci_warm_p50_ms", 9, "ms", "warm attempt, OCI, p50"),
    _at_most("oci_warm_p99_ms", 25, "ms", "back to back from a full pool, OCI, p99"),
    _at_most("docker_warm_p50_ms", 15, "ms", "warm attempt, Docker, p50"),
    _at_most("static_reject_p50_ms", 4, "ms", "static rejection, p50"),
    _divide_or_zero(
        "science_warm_p50_ms", "script_warm_p50_ms", operator.le, 1.25,
        "warm script in the image science / in python, OCI, p50 ≤ 1.25",
    ),
    _at_most("oci_paths5_p50_ms", 20, "ms", "5 sample paths, warm, OCI, p50"),
    _at_most("oci_paths50_p50_ms", 120, "ms", "50 sample paths, warm, OCI, p50"),
    _divide_or_zero(
        "oci_good_beside_hostile_p95_ms", "oci_good_quiet_p95_ms", operator.le, 2,
        "valid job next to hostile ones / quiet, OCI, p95 ≤ 2",
    ),
    _at_most("oci_batch_2000_s", 22, "s", "batch of 2,000, OCI"),
    _at_most("oci_cpu_ms_per_attempt", 10, "ms", "processor time of the daemon per attempt, OCI"),
    _at_most(
        "oci_whole_cpu_ms_per_attempt", 16, "ms", "processor time of all processes per attempt, OCI"
    ),
    _at_most("oci_serial_ms", 3, "ms", "processor time of the busiest thread per attempt, OCI"),
    _at_most("oci_ready_s", 2, "s", "start to ready, OCI"),
    _at_most("oci_rest_pss_mb", 200, "MB", "memory of all processes at rest, OCI"),
    Goal(
        needs=("runner_start_cpu_ms", "bare_python_cpu_ms"),
        text="start of the runner beyond bare Python ≤ 8 ms of processor time",
        holds=lambda r: r["runner_start_cpu_ms"] - r["bare_python_cpu_ms"] <= 8,
        figure=lambda r: f"{r['runner_start_cpu_ms'] - r['bare_python_cpu_ms']:.1f} ms",
    ),
    _at_most("oci_rss_growth_mb", 20, "MB", "growth over 5,000 attempts, OCI"),
    _at_most("oci_fd_growth", 0, "descriptors", "growth over 5,000 attempts, OCI"),
    _at_most("oci_idle_cpu_percent", 1, "% of a core", "idle, OCI"),
    _at_most("cli_validate_cpu_ms", 150, "ms", "`assay validate`, processor time of the client"),
    _at_most("cli_list_cpu_ms", 120, "ms", "`assay list`, the same"),
    _at_most("cli_help_cpu_ms", 100, "ms", "`assay --help`, the same"),
)  # fmt: skip

MEANINGS: Mapping[str, str] = {
    "docker_run_p50_ms": "`docker run --rm` of Python by the engine's library: goals in times scale with it",
    "engine_ceiling_per_s": "containers of bare Python that Docker alone starts and removes",
    "runtime_ceiling_per_s": "the same by crun itself",
    "bare_python_cpu_ms": "processor time of the image's Python without a program",
    "runner_start_cpu_ms": "processor time of the runner until it is ready",
    "cold_p50_ms": "an attempt without a warm container",
    "warm_p50_ms": "an attempt with a warm container, sent at half the engine's maximum rate (open loop)",
    "warm_p95_ms": "the same, 95th percentile",
    "warm_p99_ms": "attempts back to back from a pool of 16, 99th percentile",
    "warm_share": "share of the open loop with a warm container",
    "static_reject_p50_ms": "an attempt that the static stages refuse, without a container",
    "paths5_p50_ms": "an extractor on 5 sample paths",
    "paths50_p50_ms": "the same on 50",
    "good_quiet_p95_ms": "a valid extractor sent occasionally, alone",
    "good_beside_hostile_p95_ms": "the same while a program keeps sending hostile submissions",
    "throughput_per_s": "attempts finished per second with 4 or 8 clients, the higher rate",
    "cpu_ms_per_attempt": "processor time of the daemon's own process for each of them",
    "whole_cpu_ms_per_attempt": "the same of all processes: daemon, analysis, containers, client",
    "serial_ms": "the same of the single thread or process that uses most",
    "rest_pss_mb": "memory (PSS) of the daemon and all its processes once it is ready",
    "batch_2000_s": "a batch of 2,000 different lines, from the first byte to the last verdict",
    "rss_growth_mb": "growth of the daemon's memory over 5,000 attempts",
    "fd_growth": "growth of its descriptors, without those of idle containers",
    "ready_s": "start of the daemon until it is ready, its isolation check included",
    "baseline_mb": "memory of a container before submitted code runs",
    "idle_cpu_percent": "processor time of an idle daemon, of one core",
    "cli_validate_cpu_ms": "processor time of `assay validate`",
    "cli_list_cpu_ms": "of `assay list`",
    "cli_help_cpu_ms": "of `assay --help`",
}
"""What figures are, without the prefix of their engine."""


def meaning(key: str) -> str:
    """Return what a figure is."""
    if key in MEANINGS:
        return MEANINGS[key]
    if key.startswith("peer_"):
        return "the same function run once by a peer"
    for prefix in ("docker_", "oci_plain_", "oci_", *PREFIXES):
        if key.startswith(prefix):
            return MEANINGS.get(key.removeprefix(prefix), "")
    return ""


BARS = (
    ("docker_run_p50_ms", "docker run --rm"),
    ("docker_cold_p50_ms", "cold, Docker"),
    ("oci_plain_cold_p50_ms", "cold, OCI without templates"),
    ("oci_cold_p50_ms", "cold, OCI"),
    ("oci_paths50_p50_ms", "50 paths, OCI"),
    ("docker_warm_p50_ms", "warm, Docker"),
    ("oci_warm_p50_ms", "warm, OCI"),
    ("static_reject_p50_ms", "static rejection"),
)


def draw(results: Results, target: Path) -> None:
    """Draw the medians on a logarithmic scale."""
    figure, axes = plt.subplots(figsize=(8, 3.2))
    measured = [(results[key], label) for key, label in BARS if key in results]
    values = [value for value, _ in measured]
    bars = axes.barh([label for _, label in measured], values, color="#3b6ea5")
    axes.bar_label(bars, labels=[f" {value:.1f} ms" for value in values])
    axes.set_xscale("log")
    axes.set_xlim(right=max(values) * 3)
    axes.set_xlabel("p50, milliseconds, client to client over the socket")
    axes.invert_yaxis()
    figure.tight_layout()
    mpl.rcParams["svg.hashsalt"] = "assayd"
    figure.savefig(target, metadata={"Date": None})


def page(document: Mapping[str, object], results: Results) -> str:
    """Write the page."""
    machine = document["machine"]
    rows = "\n".join(
        f"| {goal.text} | {goal.figure(results)} | {'met' if goal.holds(results) else '**missed**'} |"
        for goal in GOALS
        if results.keys() >= set(goal.needs)
    )
    figures = "\n".join(f"| `{key}` | {value} | {meaning(key)} |" for key, value in results.items())
    steps = _steps(document["scenarios"])
    accounted = _accounted(document["scenarios"])
    return f"""# Performance

Made by `make bench` from [bench/results/latest.json](../bench/results/latest.json); do not edit.
Measured {document["date"]} with assayd {document["assayd"]}{" (quick run)" if document["quick"] else ""} on
{json.dumps(machine)}.

Latencies are measured at the client over the Unix socket, with the bundle written and the verdict durable.
Percentiles are nearest-rank. Ratios compare figures of the same run. Goals assume a machine on which
`docker run` takes 266 ms, and are scaled to this one. `docker run` is measured before, between and after the
engines (5 samples each time, 12 in a full run); the median counts.

![Median latencies](performance.svg)

## Goals

| goal | measured | |
| --- | --- | --- |
{rows}

## Where the time goes

p50 of the daemon's own steps, in milliseconds.

{steps}
{accounted}
[Profiling notes](../bench/notes.md) explain where the rest of the time goes.

## All figures

`docker_`, `oci_` and `oci_plain_` name the engine: Docker, the OCI engine with its defaults, and the OCI
engine without templates. `script_` and `science_` are a script in the image `python`, and in `science` if
it is built (`make images-oci IMAGES=science`), on the OCI engine.

| key | value | what it is |
| --- | --- | --- |
{figures}
"""


def _steps(scenarios: object) -> str:
    """Return a table of steps by scenario."""
    if not isinstance(scenarios, Mapping):
        return ""
    names = ("queued", "static", "lease", "run", "report", "total")
    lines = [f"| scenario | n | warm | {' | '.join(names)} | client p50 | p95 | p99 |", "| --- " * 12 + "|"]
    for name, values in scenarios.items():
        if isinstance(values, Mapping) and "steps_p50_ms" in values:
            steps = " | ".join(f"{values['steps_p50_ms'][step]:g}" for step in names)
            warm = "–" if values["warm_share"] is None else f"{values['warm_share']:.0%}"
            ends = f"{values['p50_ms']:g} | {values['p95_ms']:g} | {values['p99_ms']:g}"
            lines.append(f"| {name} | {values['count']} | {warm} | {steps} | {ends} |")
    return "\n".join(lines)


def _accounted(scenarios: object) -> str:
    """Return the table of processor times by thread and process, where they were measured."""
    tables = scenarios.get("oci_accounting") if isinstance(scenarios, Mapping) else None
    if tables is None:
        return ""
    return f"""
## Processor time by thread

Milliseconds for each warm attempt on the OCI engine, four at a time, from `/proc`
(`python -m bench.accounting`). `serial_ms` is the single thread or process that uses most: it bounds
 the rate on a machine of any size.

{table(tables)}
"""


def main() -> None:
    """Write page and chart."""
    document = json.loads((RESULTS / "latest.json").read_text(encoding="utf-8"))
    results = {key: float(value) for key, value in document["figures"].items()}
    draw(results, PAGES / "performance.svg")
    (PAGES / "performance.md").write_text(page(document, results), encoding="utf-8")


if __name__ == "__main__":
    main()
