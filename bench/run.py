"""Measures what an attempt costs, client to client over the socket, on each engine beside what lies below it.

`make bench` runs it whole, `make bench QUICK=1` a shorter one. Writes bench/results/latest.json and a
dated copy; `bench/chart.py` makes docs/performance.md from it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import assayd
from bench import RESULTS
from bench.accounting import accounts
from bench.client import client_costs
from bench.daemon import Answer, Daemon, daemon, pool_filled
from bench.engine import ceiling, docker_run
from bench.figures import Footprint, flat, footprint, machine, spread
from bench.floors import peers, runtime_ceiling, start_cpu
from bench.images import PREFIXES, on_images
from bench.load import Submission, beside, flood, one_by_one, open_loop, run_batch

IMAGES = Path(os.environ.get("ASSAYD_ENGINE__IMAGES_DIR", Path(__file__).parents[1] / ".run/images"))
Engine = Mapping[str, str]
"""Settings that choose an engine, as `daemon` takes them."""
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
BATCH = 2000
ENGINES: Mapping[str, Mapping[str, str]] = {
    "docker_": {"ENGINE__KIND": "docker"},
    "oci_": {"ENGINE__KIND": "oci"},
    "oci_plain_": {"ENGINE__KIND": "oci", "ENGINE__TEMPLATES": "off"},
}
"""Settings by the prefix of figures: the OCI engine as it runs by default, and without templates."""
PREFIXED = (*ENGINES, *PREFIXES)
"""Prefixes of figures that are kept: of engines, and of images."""
IDLE_DESCRIPTORS: Mapping[str, int] = {"docker": 1, "oci": 4}
"""What an idle container holds: one stream; three pipes and its process."""
DELETED_S = 61.0
"""For how long a file system remembers what was deleted, and a second more."""
REMEMBERED = 300
"""More attempts than those whose documents the daemon keeps in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything is measured."""

    docker_runs: int
    peers: int
    cold: int
    open_loop_s: float
    bursts: int
    paths: int
    static: int
    saturation_s: float
    growth: int
    growth_oci: int
    growth_warm_up: int
    good: int
    idle_s: float
    pause_s: float
    starts: int
    batch: int
    accounted: int


FULL = Size(
    docker_runs=12,
    peers=40,
    cold=40,
    open_loop_s=60,
    bursts=12,
    paths=40,
    static=300,
    saturation_s=30,
    growth=FULL_GROWTH,
    growth_oci=FULL_GROWTH,
    growth_warm_up=300,
    good=60,
    idle_s=20,
    pause_s=1.0,
    starts=60,
    batch=BATCH,
    accounted=300,
)
QUICK = Size(
    docker_runs=5,
    peers=10,
    cold=8,
    open_loop_s=8,
    bursts=2,
    paths=5,
    static=60,
    saturation_s=5,
    growth=60,
    growth_oci=500,
    growth_warm_up=40,
    good=8,
    idle_s=3,
    pause_s=0.4,
    starts=20,
    batch=400,
    accounted=100,
)
SMALLEST = Size(
    docker_runs=1,
    peers=1,
    cold=1,
    open_loop_s=1,
    bursts=1,
    paths=1,
    static=2,
    saturation_s=1,
    growth=2,
    growth_oci=8,
    growth_warm_up=4,
    good=1,
    idle_s=0.5,
    pause_s=0.1,
    starts=1,
    batch=8,
    accounted=2,
)
"""Shows that everything still runs; its figures say nothing."""


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


ACCOUNTED: Mapping[str, Submission] = {
    "extractor": extractor(),
    "script": {"kind": "script", "payload": {"code": "print(sum(range(1000)))\n"}},
    "node": {
        "kind": "code",
        "payload": {"code": "x: int\nresult: int = x + 1\n", "inputs": {"x": 1}},
    },
    "50 paths": extractor(paths=50),
}
"""Submissions whose processor time is accounted for."""

_HOSTILE: Mapping[str, Callable[[str], Submission]] = {"extractor": extractor, "script": script}


def hostile() -> dict[str, Submission]:
    """Return the hostile submissions by name; the folder that one lies in is its kind.

    The fork bomb is a script, since an extractor that forks is refused before it runs.
    """
    return {
        path.stem: _HOSTILE[path.parent.name](path.read_text(encoding="utf-8"))
        for path in sorted((Path(__file__).parent / "hostile").glob("*/*.py"))
    }


def warm_and_cold(size: Size, folder: Path, engine: Engine) -> Iterator[tuple[str, object]]:
    """Measure (b), (c), (d), (e), (i) on a quiet daemon with its default settings."""
    with daemon(folder / "cold", POOL__ENABLED="false", **engine) as target:
        answers = asyncio.run(one_by_one(target, extractor(), size.cold, pause_s=0.2))
        yield "cold", summary(answers)
    with daemon(folder / "quiet", **engine) as target:
        yield "ready_s", round(target.ready_s, 3)
        _in_use(target)
        yield "idle_cpu_percent", _idle_cpu(target, size.idle_s)
        warm = asyncio.run(one_by_one(target, extractor(), size.cold, pause_s=size.pause_s))
        yield "warm", summary(warm)
        for count in (5, 50):
            answers = asyncio.run(
                one_by_one(target, extractor(paths=count), size.paths, pause_s=size.pause_s)
            )
            yield f"paths{count}", summary(answers)
        rejected = asyncio.run(one_by_one(target, extractor(BROKEN), size.static))
        yield "static_reject", summary(rejected)
        if engine is ENGINES["oci_"]:  # whatever the engine is, the client does the same
            yield "client", client_costs(target.socket, SOURCE)


def _in_use(target: Daemon) -> None:
    """Have the pool keep ready what a daemon keeps whose extractors are in use."""
    asyncio.run(one_by_one(target, extractor(), 1))
    asyncio.run(pool_filled(target))


def under_load(
    size: Size, folder: Path, engine: Engine, half_of_ceiling: float
) -> Iterator[tuple[str, object]]:
    """Measure (c) in open loop and from a full pool."""
    with daemon(folder / "open", **engine) as target:
        _in_use(target)
        loop = open_loop(target, extractor(), rate_per_s=half_of_ceiling, seconds=size.open_loop_s)
        yield "open_loop", {"rate_per_s": round(half_of_ceiling, 2), **summary(asyncio.run(loop))}
    with daemon(folder / "full", POOL__DEFAULT_TARGET="16", **engine) as target:
        answers: list[Answer] = []
        for _ in range(size.bursts):
            _in_use(target)
            answers += asyncio.run(one_by_one(target, extractor(), 16))
        yield "full_pool", summary(answers)


def saturation(size: Size, folder: Path, engine: Engine) -> Iterator[tuple[str, object]]:
    """Measure (f): the daemon at its limit against the bare engine, in turns."""
    rates: dict[int, float] = {}
    cpu_s, count = 0.0, 0
    with daemon(folder / "flood", **engine) as target:
        asyncio.run(one_by_one(target, extractor(), 1))
        for concurrency in (4, 8):
            measured = flood(target, extractor(), concurrency=concurrency, seconds=size.saturation_s)
            before = footprint(target.pid).cpu_s
            result = asyncio.run(measured)
            rates[concurrency] = round(result.per_s, 3)
            cpu_s, count = cpu_s + footprint(target.pid).cpu_s - before, count + len(result.answers)
    yield "cpu_ms_per_attempt", round(cpu_s / max(count, 1) * 1000, 3)
    yield "throughput_by_concurrency", rates
    yield "throughput_per_s", max(rates.values())


def growth(size: Size, folder: Path, engine: Engine) -> Iterator[tuple[str, object]]:
    """Measure (g): what many attempts leave in memory, descriptors and on disk."""
    count = size.growth if engine["ENGINE__KIND"] == "docker" else size.growth_oci
    with daemon(folder / "growth", **engine) as target:
        asyncio.run(flood(target, extractor(BROKEN), concurrency=4, count=REMEMBERED))
        # The pool grows with the rate, so both looks are taken after a flood.
        asyncio.run(flood(target, extractor(), concurrency=4, count=size.growth_warm_up))
        idle_before = asyncio.run(pool_filled(target))
        before = footprint(target.pid)
        asyncio.run(flood(target, extractor(), concurrency=4, count=count))
        idle_after = asyncio.run(pool_filled(target))
        after = footprint(target.pid)
        scale = FULL_GROWTH / count
        yield (
            "growth",
            {
                "attempts": count,
                "extrapolated_to": FULL_GROWTH if count != FULL_GROWTH else None,
                "before": asdict(before),
                "after": asdict(after),
                "idle_containers": [idle_before, idle_after],
                "database_bytes": _size(target.state, "*.db*"),
                "bundles_bytes": _size(target.state / "artifacts", "**/*"),
            },
        )
        yield "rss_growth_mb", round((after.rss_bytes - before.rss_bytes) / 2**20 * scale, 2)
        # How many containers are idle depends on the rate of the last minute.
        each = IDLE_DESCRIPTORS[engine["ENGINE__KIND"]]
        more = after.descriptors - before.descriptors
        yield "fd_growth", more - each * (idle_after - idle_before)


def hostility(size: Size, folder: Path, engine: Engine) -> Iterator[tuple[str, object]]:
    """Measure (h): a good job quiet, and beside hostile ones."""
    with daemon(folder / "hostile", **engine) as target:
        _in_use(target)
        quiet = asyncio.run(one_by_one(target, extractor(), size.good, pause_s=size.pause_s))
        yield "good_quiet", summary(quiet)
        loud = asyncio.run(
            beside(target, extractor(), size.good, list(hostile().values()), pause_s=size.pause_s)
        )
        yield "good_beside_hostile", summary(loud)


def batch(size: Size, folder: Path, engine: Engine) -> Iterator[tuple[str, object]]:
    """Measure a batch of 2,000 lines, from the first sent to the last verdict; a shorter one is scaled."""
    with daemon(folder / "batch", **engine) as target:
        took_s = asyncio.run(run_batch(target, lambda n: extractor(f"{SOURCE}# {n}\n"), size.batch))
        yield "batch", {"lines": size.batch, "took_s": round(took_s, 3)}
        yield "batch_2000_s", round(took_s * BATCH / size.batch, 3)


def summary(answers: list[Answer]) -> dict[str, object]:
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


def floors(size: Size, images: Path) -> Iterator[tuple[str, object]]:
    """Measure what lies below the daemon: Docker alone, the OCI runtime alone, starts, and peers."""
    rates = asyncio.run(ceiling((2, 4), size.saturation_s / 2))
    yield "engine_ceiling_by_concurrency", {n: round(rate, 3) for n, rate in rates.items()}
    yield "engine_ceiling_per_s", round(max(rates.values()), 3)
    yield "runtime_ceiling_per_s", runtime_ceiling(images, concurrency=2, seconds=size.saturation_s / 2)
    yield from start_cpu(images, size.starts)
    for name, took in peers(images, SOURCE, PATH, size.peers):
        yield f"peer_{name}", asdict(spread(took))


def on_engine(size: Size, folder: Path, prefix: str, ceiling_per_s: float) -> Iterator[tuple[str, object]]:
    """Run every scenario on one engine."""
    engine = ENGINES[prefix]
    yield from warm_and_cold(size, folder, engine)
    yield from saturation(size, folder, engine)
    yield from under_load(size, folder, engine, ceiling_per_s / 2)
    yield from hostility(size, folder, engine)
    if prefix != "docker_" or size is FULL:
        yield from batch(size, folder, engine)
    if prefix == "oci_":
        yield "accounting", accounts(folder / "accounting", ACCOUNTED, size.accounted)
    yield from growth(size, folder, engine)


def measure(size: Size, folder: Path, images: Path) -> dict[str, object]:
    """Run everything, telling each figure as it comes; what is of an engine is named with its prefix.

    `docker run`, by which goals are scaled, is looked at before, between and after the engines' parts: at one
    moment it may be half as long again as at another.
    """
    results: dict[str, object] = {}
    runs: list[float] = []

    def note(name: str, value: object) -> None:
        results[name] = value
        print(f"{name}: {json.dumps(value)}", flush=True)

    def look_at_docker() -> None:
        runs.extend(docker_run("assayd/python", SOURCE, PATH, size.docker_runs))

    look_at_docker()
    for name, value in floors(size, images):
        note(name, value)
    bare = results["engine_ceiling_per_s"]
    for prefix in ("oci_",) if size is SMALLEST else ENGINES:
        if prefix == "oci_" and size is not SMALLEST:
            _forget_deleted()
        half = float(bare) if isinstance(bare, float) else 1.0
        for name, value in on_engine(size, folder / prefix, prefix, half):
            note(prefix + name, value)
        look_at_docker()
    for name, value in on_images(images, folder / "images", size.cold, summary):
        note(name, value)
    look_at_docker()
    note("docker_run", {**asdict(spread(runs)), "by_moment_p50_ms": by_moment(runs, size.docker_runs)})
    return results


def _forget_deleted() -> None:
    """Wait until the file system gives out again what Docker's containers have left behind.

    ext4 without a journal looks at each inode that was deleted within the last minute before it makes a file
    (``recently_deleted`` in fs/ext4/ialloc.c; five minutes where that is not on the disk yet).
    """
    os.sync()
    time.sleep(DELETED_S)


def by_moment(took_s: list[float], each: int) -> list[float]:
    """Return the medians of as many in a row."""
    return [spread(took_s[start : start + each]).p50_ms for start in range(0, len(took_s), each)]


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    shorter = parser.add_mutually_exclusive_group()
    shorter.add_argument("--quick", action="store_true", help="a shorter run, under ten minutes")
    shorter.add_argument("--smallest", action="store_true", help="only show that everything runs")
    arguments = parser.parse_args()
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder:
        size = SMALLEST if arguments.smallest else QUICK if arguments.quick else FULL
        results = measure(size, Path(folder), IMAGES)
    document = {
        "figures": flat(results, PREFIXED),
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
    print(json.dumps(flat(results, PREFIXED), indent=2))


if __name__ == "__main__":
    sys.exit(main())
