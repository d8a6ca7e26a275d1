"""Which thread or process an attempt's processor time goes to, from /proc; on the OCI engine.

    deploy/dev/oci.sh run python -m bench.accounting [--count 300] [--rounds 1]
        [--executors 0 2 …] [--beside CHECKOUT …]

With `--beside`, daemons of other checkouts are measured in turns with this one, so that two commits compare
on a busy machine. Each checkout needs its environment and its images (`make images-oci`). With several
numbers of executors, this checkout is measured in turns with each of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import ROUGH
from bench.daemon import Daemon, daemon, pool_filled
from bench.load import Submission, flood

HERE = Path(__file__).parents[1]
CONCURRENCY = 4
WARM_UP = 1 if ROUGH else 40
"""Attempts before anything is counted: templates, caches and the pool are ready after them."""
PARTS = (
    "event loop",
    "writer",
    "other threads",
    "executor loops",
    "executor threads",
    "analysis",
    "containers",
    "client",
)
EXECUTOR = b"assayd.wiring.executor_program"
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
_OWN, _REAPED = slice(11, 13), slice(13, 15)
"""Places of processor times in ``/proc/PID/stat``, after the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Processor time in milliseconds: by part, and by single thread of what lives on."""

    parts: Mapping[str, float]
    threads: Mapping[str, float]

    def since(self, before: Spent) -> Spent:
        """Return what was spent after an earlier look; threads that are new count in full."""
        parts = {name: spent - before.parts[name] for name, spent in self.parts.items()}
        threads = {name: spent - before.threads.get(name, 0.0) for name, spent in self.threads.items()}
        return Spent(parts=parts, threads=threads)


def look(pid: int) -> Spent:
    """Read what a daemon and its processes have spent so far; the client is this process."""
    threads = dict(_threads_of(pid))
    loop_ms = threads[f"event loop {pid}"]
    writer_ms = sum(ms for name, ms in threads.items() if name.startswith("store-writer"))
    parts = dict.fromkeys(PARTS, 0.0)
    parts |= {"event loop": loop_ms, "writer": writer_ms, "client": time.process_time() * 1000}
    parts["other threads"] = sum(threads.values()) - loop_ms - writer_ms
    for child in processes_below(pid):
        command = _content(child, "cmdline")
        if EXECUTOR in command:
            create_executor_reaper = dict(_threads_of(child))
            threads |= create_executor_reaper
            loop = create_executor_reaper.get(f"event loop {child}", 0.0)
            parts["executor loops"] += loop
            parts["executor threads"] += sum(create_executor_reaper.values()) - loop
            parts["containers"] += _ticks(child)[1]
            continue
        part = "analysis" if b"assayd.analysis.worker" in command else "containers"
        own, reaped = _ticks(child)
        parts[part] += own + reaped
        threads[f"{part} {child}"] = own
    return Spent(parts=parts, threads=threads)


def processes_below(pid: int) -> list[int]:
    """Return every living process that a process has started, directly or not."""
    found, generation = [], [pid]
    while generation:
        generation = [child for parent in generation for child in _children(parent)]
        found += generation
    return found


def pss_mb(pid: int) -> float:
    """Return the memory of a daemon and all its processes; what several share counts once, in parts."""
    kilobytes = 0
    for each in (pid, *processes_below(pid)):
        lines = _content(each, "smaps_rollup").splitlines()
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:"))
    return round(kilobytes / 1024, 1)


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    try:
        lists = [path.read_bytes() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return []
    return [int(child) for each in lists for child in each.split()]


def _threads_of(pid: int) -> Iterator[tuple[str, float]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            ran_ns = int((task / "schedstat").read_bytes().split()[0])
            name = (task / "comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):  # a pool's thread has ended
            continue
        number = int(task.name)
        yield f"{'event loop' if number == pid else name} {number}", ran_ns / 1e6


def _ticks(pid: int) -> tuple[float, float]:
    """Return the processor time of a process, and of those that it has reaped."""
    fields = _content(pid, "stat").rpartition(b") ")[2].split()
    own, reaped = (sum(map(int, fields[place])) * _TICK_MS for place in (_OWN, _REAPED))
    return own, reaped


def _content(pid: int, name: str) -> bytes:
    """Return a file of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def account(target: Daemon, submission: Submission, count: int) -> dict[str, float]:
    """Measure warm attempts; return milliseconds for each, by part, with their sum and the largest thread."""
    asyncio.run(_warm(target, submission))
    before = look(target.pid)
    result = asyncio.run(flood(target, submission, concurrency=CONCURRENCY, count=count))
    spent = look(target.pid).since(before)
    figures = {name.replace(" ", "_"): round(ms / count, 2) for name, ms in spent.parts.items()}
    figures["sum"] = round(sum(spent.parts.values()) / count, 2)
    figures["serial_ms"] = round(max(spent.threads.values()) / count, 2)
    figures["per_s"] = round(result.per_s, 1)
    return figures


async def _warm(target: Daemon, submission: Submission) -> None:
    result = await flood(target, submission, concurrency=CONCURRENCY, count=WARM_UP)
    verdicts = {answer.verdict for answer in result.answers}
    if verdicts != {"validated"}:
        raise RuntimeError(f"attempts ended as {verdicts}; see the daemon's log")
    await pool_filled(target)


def accounts(
    folder: Path,
    submissions: Mapping[str, Submission],
    count: int,
    checkout: Path = HERE,
    *,
    executors: int = 0,
) -> dict[str, dict[str, float]]:
    """Measure submissions on a daemon of a checkout: a table by submission, and the memory at rest."""
    python = checkout / ".venv" / "bin" / "python"
    command = (str(python) if python.exists() else sys.executable, "-m", "bench.named_threads", "assayd")
    images = os.environ.get("ASSAYD_ENGINE__IMAGES_DIR") if checkout == HERE else None
    settings = {"ENGINE__KIND": "oci", "ENGINE__IMAGES_DIR": images or str(checkout / ".run" / "images")}
    if executors:  # Older checkouts don't know the setting.
        settings["EXECUTORS"] = str(executors)
    with daemon(folder, program=command, cwd=checkout, **settings) as target:
        tables = {"at rest": {"pss_mb": pss_mb(target.pid), "ready_s": round(target.ready_s, 2)}}
        for name, submission in submissions.items():
            tables[name] = account(target, submission, count)
    return tables


def table(tables: Mapping[str, Mapping[str, float]]) -> str:
    """Return the parts of each submission as a table."""
    names = list(dict.fromkeys(name for figures in tables.values() for name in figures))
    lines = [f"| | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for title, figures in tables.items():
        cells = " | ".join(f"{figures[name]:g}" if name in figures else "" for name in names)
        lines.append(f"| {title} | {cells} |")
    return "\n".join(lines)


def medians(rounds: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the median of each figure over several rounds."""
    return {
        title: {name: round(statistics.median(one[title][name] for one in rounds), 2) for name in figures}
        for title, figures in rounds[0].items()
    }


def main() -> None:
    """Measure this checkout, in turns with others."""
    from bench.run import ACCOUNTED

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="attempts of each kind and round")
    parser.add_argument("--rounds", type=int, default=1, help="how often the checkouts take turns")
    parser.add_argument("--beside", type=Path, nargs="*", default=[], help="other checkouts to compare with")
    parser.add_argument(
        "--executors", type=int, nargs="*", default=[0], help="numbers of executors to compare (default: 0)"
    )
    parser.add_argument(
        "--only", nargs="*", choices=sorted(ACCOUNTED), help="kinds to measure (default: all)"
    )
    arguments = parser.parse_args()
    chosen = {name: ACCOUNTED[name] for name in arguments.only or ACCOUNTED}
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {}
    measured = [(path.resolve(), 0) for path in arguments.beside]
    measured += [(HERE, executors) for executors in arguments.executors]
    for number in range(arguments.rounds):
        for checkout, executors in measured:
            with tempfile.TemporaryDirectory(prefix="assayd-accounting-") as folder:
                found = accounts(Path(folder), chosen, arguments.count, checkout, executors=executors)
            name = f"{checkout.name}, {executors} executors"
            rounds.setdefault(name, []).append(found)
            load = f"load {os.getloadavg()[0]:.1f}"
            print(f"round {number + 1}, {name}, {load}: {json.dumps(found)}", file=sys.stderr, flush=True)
    for name, found_there in rounds.items():
        print(f"\n{name}, milliseconds of processor time for each attempt\n")
        print(table(medians(found_there)))


if __name__ == "__main__":
    main()
