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

ROOT = Path(__file__).parents[1]
Results = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is compared with."""

    text: str
    holds: Callable[[Results], bool]
    figure: Callable[[Results], str]


def _at_most(key: str, limit: float, unit: str, text: str) -> Goal:
    return Goal(
        text=f"{text} ≤ {limit:g} {unit}",
        holds=lambda r: r[key] <= limit,
        figure=lambda r: f"{r[key]:g} {unit}",
    )


def _ratio(above: str, below: str, holds: Callable[[float, float], bool], limit: float, text: str) -> Goal:
    return Goal(
        text=text,
        holds=lambda r: holds(r[above] / r[below], limit),
        figure=lambda r: f"{r[above] / r[below]:.2f} ({r[above]:g} / {r[below]:g})",
    )


GOALS = (
    Goal(
        text="warm share in open loop ≥ 99 %",
        holds=lambda r: r["warm_share"] >= 0.99,
        figure=lambda r: f"{r['warm_share']:.1%}",
    ),
    _at_most("warm_p50_ms", 12, "ms", "warm attempt in open loop, p50"),
    _ratio("docker_run_p50_ms", "warm_p50_ms", operator.ge, 20, "`docker run` / warm attempt ≥ 20"),
    _at_most("warm_p99_ms", 40, "ms", "back to back from a full pool, p99"),
    _at_most("static_reject_p50_ms", 5, "ms", "static rejection, p50"),
    _at_most("paths5_p50_ms", 25, "ms", "extractor with 5 sample paths, warm, p50"),
    _ratio("throughput_per_s", "engine_ceiling_per_s", operator.ge, 0.9, "throughput / bare engine ≥ 0.9"),
    _at_most("rss_growth_mb", 20, "MB", "growth over 5,000 attempts"),
    _at_most("fd_growth", 0, "descriptors", "growth over 5,000 attempts"),
    _ratio(
        "good_beside_hostile_p95_ms", "good_quiet_p95_ms", operator.le, 10,
        "good job beside hostile ones / quiet, p95 ≤ 10",
    ),
    _at_most("idle_cpu_percent", 1, "% of a core", "idle CPU"),
    _at_most("cli_validate_cpu_ms", 150, "ms", "`assay validate`, processor time of the client"),
    _at_most("cli_list_cpu_ms", 120, "ms", "`assay list`, the same"),
    _at_most("cli_help_cpu_ms", 100, "ms", "`assay --help`, the same"),
)  # fmt: skip

BARS = (
    ("docker_run_p50_ms", "docker run --rm"),
    ("cold_p50_ms", "cold attempt"),
    ("paths50_p50_ms", "warm, 50 paths"),
    ("paths5_p50_ms", "warm, 5 paths"),
    ("warm_p50_ms", "warm, open loop"),
    ("static_reject_p50_ms", "static rejection"),
)


def draw(results: Results, target: Path) -> None:
    """Draw the medians on a logarithmic scale."""
    figure, axes = plt.subplots(figsize=(8, 3.2))
    values = [results[key] for key, _ in BARS]
    bars = axes.barh([label for _, label in BARS], values, color="#3b6ea5")
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
    )
    figures = "\n".join(
        f"| `{key}` | {value} |"
        for key, value in document.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    steps = _steps(document["scenarios"])
    return f"""# Performance

Made by `make bench` from [bench/results/latest.json](../bench/results/latest.json); do not edit.
Measured {document["date"]} with assayd {document["assayd"]}{" (quick run)" if document["quick"] else ""} on
{json.dumps(machine)}.

Latencies are client to client over the Unix socket, with the bundle written and the verdict durable.
Percentiles are nearest-rank. Ratios compare figures of the same run; absolute times depend on the machine.

![Median latencies](performance.svg)

## Goals

| goal | measured | |
| --- | --- | --- |
{rows}

## Where the time goes

p50 of the daemon's own steps, in milliseconds.

{steps}

## What stands behind them

{(ROOT / "bench/notes.md").read_text(encoding="utf-8")}
## All figures

| key | value |
| --- | --- |
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


def main() -> None:
    """Write page and chart."""
    document = json.loads((ROOT / "bench/results/latest.json").read_text(encoding="utf-8"))
    results = {k: float(v) for k, v in document.items() if isinstance(v, int | float)}
    draw(results, ROOT / "docs/performance.svg")
    (ROOT / "docs/performance.md").write_text(page(document, results), encoding="utf-8")


if __name__ == "__main__":
    main()
