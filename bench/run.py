"""Measures what an attempt costs, client to client over the socket, beside what the engine alone costs.

`make bench` runs it whole, `make bench QUICK=1` a shorter one. Writes bench/results/latest.json and a
dated copy; `bench/chart.py` makes docs/performance.md from it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import assayd
from bench.client import client_costs
from bench.daemon import Answer, Daemon, daemon, pool_filled
from bench.engine import ceiling, docker_run
from bench.figures import Footprint, footprint, machine, spread
from bench.load import Submission, beside, flood, one_by_one, open_loop

RESULTS = Path(__file__).parent / "results"
PATH = "/data/CLIENT-ABC/2024/Q1/report.csv"
SOURCE = """\
import re
from pathlib import PurePosixPath


def extract(path: str) -> dict:
    parts = PurePosixPath(path).parts
    client = re.sub("^CLIENT-", "", parts[-4])
    quarter = int(parts[-2][1:])
    return {
        "client_id": client,
        "year": int(parts[-3]),
        "quarter": quarter,
        "start_month": 3 * quarter - 2,
        "end_month": 3 * quarter,
    }
"""
BROKEN = "import subprocess\n" + SOURCE
FULL_GROWTH = 5000
REMEMBERED = 300
"""More attempts than those whose documents the daemon keeps in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything is measured."""

    docker_runs: int
    cold: int
    open_loop_s: float
    bursts: int
    paths: int
    static: int
    saturation_s: float
    growth: int
    growth_warm_up: int
    good: int
    idle_s: float


FULL = Size(
    docker_runs=40,
    cold=40,
    open_loop_s=60,
    bursts=12,
    paths=40,
    static=300,
    saturation_s=30,
    growth=FULL_GROWTH,
    growth_warm_up=300,
    good=60,
    idle_s=20,
)
QUICK = Size(
    docker_runs=10,
    cold=10,
    open_loop_s=15,
    bursts=3,
    paths=8,
    static=60,
    saturation_s=8,
    growth=120,
    growth_warm_up=80,
    good=12,
    idle_s=5,
)


def extractor(source: str = SOURCE, paths: int = 1) -> Submission:
    """Return a submission with this source and number of sample paths."""
    samples = [PATH.replace("2024", str(2000 + n)) for n in range(paths)]
    return {"kind": "extractor", "payload": {"code": source, "sample_paths": samples}}


def script(source: str) -> Submission:
    """Return a script, with the time that an extractor has for a path."""
    return {
        "kind": "script",
        "payload": {"code": source},
        "overrides": {"resources": {"unit_timeout_s": 5}},
    }


_HOSTILE: Mapping[str, Callable[[str], Submission]] = {"extractor": extractor, "script": script}


def hostile() -> dict[str, Submission]:
    """Return the hostile submissions by name; the folder that one lies in is its kind.

    The fork bomb is a script, since an extractor that forks is refused before it runs.
    """
    return {
        path.stem: _HOSTILE[path.parent.name](path.read_text(encoding="utf-8"))
        for path in sorted((Path(__file__).parent / "hostile").glob("*/*.py"))
    }


def warm_and_cold(size: Size, folder: Path) -> Iterator[tuple[str, object]]:
    """Measure (b), (c), (d), (e), (i) on a quiet daemon with its default settings."""
    with daemon(folder / "cold", POOL__ENABLED="false") as target:
        answers = asyncio.run(one_by_one(target, extractor(), size.cold, pause_s=0.2))
        yield "cold", _scenario(answers)
    with daemon(folder / "quiet") as target:
        yield "ready_s", round(target.ready_s, 3)
        _in_use(target)
        yield "idle_cpu_percent", _idle_cpu(target, size.idle_s)
        warm = asyncio.run(one_by_one(target, extractor(), size.cold, pause_s=1.0))
        yield "warm", _scenario(warm)
        for count in (5, 50):
            answers = asyncio.run(one_by_one(target, extractor(paths=count), size.paths, pause_s=1.0))
            yield f"paths{count}", _scenario(answers)
        rejected = asyncio.run(one_by_one(target, extractor(BROKEN), size.static))
        yield "static_reject", _scenario(rejected)
        yield "client", client_costs(target.socket, SOURCE)


def _in_use(target: Daemon) -> None:
    """Have the pool keep ready what a daemon keeps whose extractors are in use."""
    asyncio.run(one_by_one(target, extractor(), 1))
    asyncio.run(pool_filled(target))


def under_load(size: Size, folder: Path, half_of_ceiling: float) -> Iterator[tuple[str, object]]:
    """Measure (c) in open loop and from a full pool."""
    with daemon(folder / "open") as target:
        _in_use(target)
        loop = open_loop(target, extractor(), rate_per_s=half_of_ceiling, seconds=size.open_loop_s)
        yield "open_loop", {"rate_per_s": round(half_of_ceiling, 2), **_scenario(asyncio.run(loop))}
    with daemon(folder / "full", POOL__DEFAULT_TARGET="16") as target:
        answers: list[Answer] = []
        for _ in range(size.bursts):
            _in_use(target)
            answers += asyncio.run(one_by_one(target, extractor(), 16))
        yield "full_pool", _scenario(answers)


def saturation(size: Size, folder: Path) -> Iterator[tuple[str, object]]:
    """Measure (f): the daemon at its limit against the bare engine, in turns."""
    rates: dict[int, float] = {}
    with daemon(folder / "flood") as target:
        for concurrency in (4, 8):
            measured = flood(target, extractor(), concurrency=concurrency, seconds=size.saturation_s)
            result = asyncio.run(measured)
            rates[concurrency] = round(result.per_s, 3)
    yield "throughput_by_concurrency", rates
    yield "throughput_per_s", max(rates.values())


def growth(size: Size, folder: Path) -> Iterator[tuple[str, object]]:
    """Measure (g): what many attempts leave in memory, descriptors and on disk."""
    with daemon(folder / "growth") as target:
        asyncio.run(flood(target, extractor(BROKEN), concurrency=4, count=REMEMBERED))
        # The pool grows with the rate, so both looks are taken after a flood.
        asyncio.run(flood(target, extractor(), concurrency=4, count=size.growth_warm_up))
        idle_before = asyncio.run(pool_filled(target))
        before = footprint(target.pid)
        asyncio.run(flood(target, extractor(), concurrency=4, count=size.growth))
        idle_after = asyncio.run(pool_filled(target))
        after = footprint(target.pid)
        scale = FULL_GROWTH / size.growth
        yield (
            "growth",
            {
                "attempts": size.growth,
                "extrapolated_to": FULL_GROWTH if size.growth != FULL_GROWTH else None,
                "before": asdict(before),
                "after": asdict(after),
                "idle_containers": [idle_before, idle_after],
                "database_bytes": _size(target.state, "*.db*"),
                "bundles_bytes": _size(target.state / "artifacts", "**/*"),
            },
        )
        yield "rss_growth_mb", round((after.rss_bytes - before.rss_bytes) / 2**20 * scale, 2)
        # An idle container costs one, and how many are idle depends on the rate of the last minute.
        yield "fd_growth", (after.descriptors - idle_after) - (before.descriptors - idle_before)


def hostility(size: Size, folder: Path) -> Iterator[tuple[str, object]]:
    """Measure (h): a good job quiet, and beside hostile ones."""
    with daemon(folder / "hostile") as target:
        _in_use(target)
        quiet = asyncio.run(one_by_one(target, extractor(), size.good, pause_s=1.0))
        yield "good_quiet", _scenario(quiet)
        loud = asyncio.run(beside(target, extractor(), size.good, list(hostile().values()), pause_s=1.0))
        yield "good_beside_hostile", _scenario(loud)


def _scenario(answers: list[Answer]) -> dict[str, object]:
    """Summarise answers: latency at the client, the daemon's own steps, and how they ended."""
    steps = {
        step: spread([(a.timings_ms.get(step) or 0.0) / 1000 for a in answers]).p50_ms
        for step in ("queued", "static", "lease", "run", "report", "total")
    }
    ended: dict[str, int] = {}
    for answer in answers:
        name = f"{answer.verdict}/{answer.cause}"
        ended[name] = ended.get(name, 0) + 1
    warm = [answer.warm for answer in answers if answer.warm is not None]
    return {
        **asdict(spread([answer.took_s for answer in answers])),
        "warm_share": round(sum(warm) / len(warm), 4) if warm else None,
        "steps_p50_ms": steps,
        "ended": ended,
    }


def _idle_cpu(target: Daemon, seconds: float) -> float:
    before: Footprint = footprint(target.pid)
    time.sleep(seconds)
    return round((footprint(target.pid).cpu_s - before.cpu_s) / seconds * 100, 3)


def _size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def measure(size: Size, folder: Path) -> dict[str, object]:
    """Run every scenario, telling each figure as it comes."""
    results: dict[str, object] = {}

    def note(name: str, value: object) -> None:
        results[name] = value
        print(f"{name}: {json.dumps(value)}", flush=True)

    took = docker_run("assayd/python", SOURCE, PATH, size.docker_runs)
    note("docker_run", asdict(spread(took)))
    rates = asyncio.run(ceiling((2, 4), size.saturation_s / 2))
    note("engine_ceiling_by_concurrency", {n: round(rate, 3) for n, rate in rates.items()})
    note("engine_ceiling_per_s", round(max(rates.values()), 3))
    for scenario in (warm_and_cold(size, folder), saturation(size, folder)):
        for name, value in scenario:
            note(name, value)
    for scenario in (
        under_load(size, folder, max(rates.values()) / 2),
        hostility(size, folder),
        growth(size, folder),
    ):
        for name, value in scenario:
            note(name, value)
    return results


def flat(results: dict[str, object]) -> dict[str, object]:
    """Return the figures that goals are stated in, under the names that are kept."""

    def of(scenario: str, figure: str) -> object:
        values = results[scenario]
        return values[figure] if isinstance(values, dict) else None

    keys = {
        "docker_run_p50_ms": of("docker_run", "p50_ms"),
        "cold_p50_ms": of("cold", "p50_ms"),
        "warm_p50_ms": of("open_loop", "p50_ms"),
        "warm_p95_ms": of("open_loop", "p95_ms"),
        "warm_p99_ms": of("full_pool", "p99_ms"),
        "warm_share": of("open_loop", "warm_share"),
        "static_reject_p50_ms": of("static_reject", "p50_ms"),
        "paths5_p50_ms": of("paths5", "p50_ms"),
        "paths50_p50_ms": of("paths50", "p50_ms"),
        "good_quiet_p95_ms": of("good_quiet", "p95_ms"),
        "good_beside_hostile_p95_ms": of("good_beside_hostile", "p95_ms"),
        "cli_validate_cpu_ms": of("client", "cli_validate_cpu_ms"),
        "cli_list_cpu_ms": of("client", "cli_list_cpu_ms"),
        "cli_help_cpu_ms": of("client", "cli_help_cpu_ms"),
    }
    names = (
        "throughput_per_s",
        "engine_ceiling_per_s",
        "rss_growth_mb",
        "fd_growth",
        "ready_s",
        "idle_cpu_percent",
    )
    return keys | {name: results[name] for name in names}


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a shorter run, under four minutes")
    arguments = parser.parse_args()
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder:
        results = measure(QUICK if arguments.quick else FULL, Path(folder))
    document = {
        **flat(results),
        "date": began.isoformat(timespec="seconds"),
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 1),
        "quick": arguments.quick,
        "assayd": assayd.__version__,
        "machine": machine(),
        "scenarios": results,
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(document, indent=2) + "\n"
    (RESULTS / "latest.json").write_text(text, encoding="utf-8")
    (RESULTS / f"{began:%Y%m%dT%H%M%SZ}.json").write_text(text, encoding="utf-8")
    print(json.dumps(flat(results), indent=2))


if __name__ == "__main__":
    sys.exit(main())
