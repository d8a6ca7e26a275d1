"""A day in a minute: a batch of all kinds, daemon killed, engine restarted, and somebody who waits beside it.

    python tests/day.py day      two kills of the daemon, one restart of the engine; bench/results/day.json
    python tests/day.py lines    memory at 1,000, 5,000 and 10,000 lines; bench/results/lines.json

Either writes docs/operating/under-load.md anew, and the daemon's log to .run/day.log. Exit code 1 when
anything was lost, duplicated, wrong or left behind.
The engine has to be the private one of this checkout: no other is ours to restart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import PAGES, RESULTS
from bench.figures import machine, spread

from assayd.clock import UlidGenerator
from assayd_client import AsyncClient, ClientError, DaemonUnreachable
from support.daemons.daemon_process import DaemonProcess
from support.daemons.long_batch import BatchClient, Line, mixed, peak_kb
from support.daemons.under_load import write_page
from support.texts import extractors

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / ".run/day.log"
PAGE = PAGES / "operating/under-load.md"
ENGINE = ROOT / "deploy/dev/engine.sh"
LOOK_EVERY_S = 0.2
AGAIN_S = 1.0
BATCH_WITHIN_S = 1200.0

Problems = list[str]


@dataclass
class Interactive:
    """A client that submits an attempt every second, after the previous answer, and never gives up."""

    daemon: DaemonProcess
    every_s: float = 1.0
    took_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=lambda: asyncio.run(self._keep_sending()))
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()

    async def _keep_sending(self) -> None:
        ids = UlidGenerator()
        async with AsyncClient(self.daemon.socket) as client:
            while not self.stop.is_set():
                began = time.monotonic()
                await self._attempt(client, ids.new(), began)
                await asyncio.sleep(began + self.every_s - time.monotonic())

    async def _attempt(self, client: AsyncClient, attempt_id: str, began: float) -> None:
        submission = extractors.extractor(extractors.GOOD)
        verdict = None
        while verdict is None:
            try:
                verdict = (await client.submit(submission, attempt_id=attempt_id, wait_s=60)).verdict
            except DaemonUnreachable:
                await asyncio.sleep(AGAIN_S)
            except ClientError as refusal:
                if not refusal.retryable:
                    raise
                await asyncio.sleep(AGAIN_S)
        self.took_s[attempt_id] = (began, time.monotonic() - began)
        self.verdicts[verdict] += 1


@dataclass
class Watch:
    """The observations of the daemon, across restarts."""

    daemon: DaemonProcess
    batch: str
    peak_kb: int = 0
    outages: list[tuple[str, float, float]] = field(default_factory=list)

    def done(self) -> int:
        """Return the number of items with a verdict; also records the daemon's memory use."""
        if self.daemon.process is not None:
            self.peak_kb = max(self.peak_kb, peak_kb(self.daemon.process.pid))
        with suppress(ClientError, DaemonUnreachable), self.daemon.client() as client:
            counts = client.batch(self.batch)["counts"]
            return int(counts["total"] - counts["waiting"])
        return 0

    def until(self, reached: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + BATCH_WITHIN_S
        while not reached():
            if time.monotonic() > end or not self.daemon.alive:
                raise SystemExit(f"{what}: not in time\n{self.daemon.log.tail()}")
            time.sleep(LOOK_EVERY_S)

    @contextmanager
    def outage(self, what: str) -> Iterator[None]:
        self.done()
        began = time.monotonic()
        yield
        self.outages.append((what, began, time.monotonic()))
        print(f"{what}: {time.monotonic() - began:.1f} s", flush=True)

    def kill_daemon(self) -> None:
        with self.outage("daemon killed"):
            self.daemon.kill()
            self.daemon.start()

    def restart_engine(self) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
        self.daemon.log.forget()
        with self.outage("engine restarted"):
            for verb in ("stop", "start"):
                subprocess.run([ENGINE, verb], check=True, env=environ, capture_output=True, timeout=120)
            self.until(self._serves, "the daemon serves again")

    def _serves(self) -> bool:
        with self.daemon.http() as http:
            return http.get("/readyz").status_code == 200


def a_day(items: int, containers: int) -> tuple[dict[str, object], Problems]:
    """Run the batch with faults at a quarter, a half and three quarters; return the record."""
    lines = mixed(items, containers=containers, malformed=max(1, items // 100))
    daemon = DaemonProcess(os.environ["DOCKER_HOST"], settings={"LOG__LEVEL": "info"})
    daemon.start()
    try:
        watch, somebody = Watch(daemon, "day"), Interactive(daemon)
        began = time.monotonic()
        with somebody.going_on(), BatchClient(daemon, lines, "day") as client:
            deeds = (watch.kill_daemon, watch.restart_engine, watch.kill_daemon)
            for share, deed in enumerate(deeds, start=1):
                watch.until(lambda share=share: watch.done() >= share * items // 4, "the batch")
                deed()
            watch.until(lambda: watch.done() >= 0 and client.ended, "the batch's end")
            code, said = client.end()
        took_s = time.monotonic() - began
        results = list(client.results())
        problems = [] if code == 3 else [f"the client ended with {code}: {said}"]
        problems += wrong(lines, results)
        problems += leftovers(daemon, watch)
        return record(watch, somebody, client, lines, results, took_s), problems
    finally:
        LOG.write_text("\n".join(daemon.log.lines))
        daemon.dispose()


def wrong(lines: list[Line], results: list[dict[str, object]]) -> Problems:
    """Compare the results with the expected verdicts; internal errors are counted separately."""
    told = [each["line"] for each in results]
    found = [] if told == list(range(1, len(lines) + 1)) else ["not one result for each line"]
    found += [
        f"line {each['line']}: {each['verdict']} instead of {line.verdict}"
        for line, each in zip(lines, results, strict=False)
        if each["verdict"] not in {line.verdict, "error"}
    ]
    twice = Counter(each["attempt_id"] for each in results if each["attempt_id"])
    return found + [f"{attempt}: {count} lines" for attempt, count in twice.items() if count > 1]


def leftovers(daemon: DaemonProcess, watch: Watch) -> Problems:
    """Stop the daemon and list its leftovers: containers, processes, folders, socket, open attempts."""
    watch.done()
    workers = daemon.workers()
    found = [] if daemon.stop() == 0 else ["the daemon did not stop well"]
    found += [f"process {pid} outlives the daemon" for pid in workers if Path(f"/proc/{pid}").exists()]
    found += [f"container {each.engine_id[:12]} is left" for each in daemon.containers()]
    found += [f"{path} is left" for path in daemon.state.rglob(".tmp-*")]
    found += [f"{daemon.socket} is left"] if daemon.socket.exists() else []
    verdicts = daemon.rows("SELECT attempt_id, bundle FROM verdicts")
    attempts = {row["id"] for row in daemon.rows("SELECT id FROM attempts")}
    found += [f"{each}: no verdict" for each in attempts - {row["attempt_id"] for row in verdicts}]
    artifacts = daemon.state / "artifacts"
    bundles = {str(path.parent.relative_to(artifacts)) for path in artifacts.rglob("manifest.json")}
    return found + [f"bundle {each}: nobody's" for each in bundles ^ {row["bundle"] for row in verdicts}]


def record(
    watch: Watch,
    somebody: Interactive,
    client: BatchClient,
    lines: list[Line],
    results: list[dict[str, object]],
    took_s: float,
) -> dict[str, object]:
    """Return the measurements as a document."""
    calm = [
        took
        for sent, took in somebody.took_s.values()
        if not any(sent < end and sent + took > began for _, began, end in watch.outages)
    ]
    errors = Counter(
        str(((each.get("attempt") or {}).get("error") or each["error"])["code"])  # type: ignore[union-attr,index]
        for each in results
        if each["verdict"] == "error"
    )
    again = watch.daemon.rows("SELECT count(*) AS n FROM runs WHERE run_number = 2")[0]["n"]
    return {
        "items": len(lines),
        "with_container": sum(line.needs_container for line in lines),
        "took_s": round(took_s, 1),
        "verdicts": dict(Counter(str(each["verdict"]) for each in results)),
        "errors": dict(errors),
        "run_again": again,
        "outages": [{"what": what, "took_s": round(end - began, 1)} for what, began, end in watch.outages],
        "daemon_peak_mb": round(watch.peak_kb / 1024, 1),
        "client_peak_mb": round(client.peak_kb / 1024, 1),
        "interactive_verdicts": dict(somebody.verdicts),
        "interactive": asdict(spread([took for _, took in somebody.took_s.values()])),
        "interactive_without_outages": asdict(spread(calm)) if calm else None,  # a short day has none
    }


def long_batch(marks: tuple[int, ...], containers: int) -> tuple[dict[str, object], Problems]:
    """Run a long batch; return the memory use of daemon and client at each mark."""
    lines = mixed(marks[-1], containers=containers, malformed=max(1, marks[-1] // 100))
    daemon = DaemonProcess(os.environ["DOCKER_HOST"], settings={"LOG__LEVEL": "info"})
    daemon.start()
    try:
        watch, seen = Watch(daemon, "lines"), []
        began = time.monotonic()
        with BatchClient(daemon, lines, "lines") as client:
            for mark in marks:
                watch.until(lambda mark=mark: watch.done() >= mark, f"{mark} lines")
                seen.append(memory(mark, watch, client, began))
            client_ended = client.end()
        seen.append({**memory(marks[-1], watch, client, began), "results": "written"})
        watch.done()
        seen[-1]["daemon_peak_mb"] = round(watch.peak_kb / 1024, 1)
        results = list(client.results())
        problems = [] if client_ended[0] == 3 else [f"the client ended with {client_ended}"]
        problems += wrong(lines, results) + leftovers(daemon, watch)
        verdicts = dict(Counter(str(each["verdict"]) for each in results))
        found = {"items": len(lines), "with_container": containers, "verdicts": verdicts, "memory": seen}
        return found, problems
    finally:
        LOG.write_text("\n".join(daemon.log.lines))
        daemon.dispose()


def memory(mark: int, watch: Watch, client: BatchClient, began: float) -> dict[str, object]:
    return {
        "done": mark,
        "after_s": round(time.monotonic() - began, 1),
        "daemon_peak_mb": round(watch.peak_kb / 1024, 1),
        "client_peak_mb": round(client.peak_kb / 1024, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Try the daemon with long batches; write it down.")
    parser.add_argument("what", choices=("day", "lines"))
    parser.add_argument("--items", type=int, help="lines of the batch (default: 2,000 or 10,000)")
    chosen = parser.parse_args()
    if chosen.what == "day":
        items = chosen.items or 2000
        found, problems = a_day(items, containers=max(1, items // 10))
    else:
        items = chosen.items or 10_000
        marks = (max(1, items // 10), max(1, items // 2), items)
        found, problems = long_batch(marks, containers=min(50, max(1, items // 10)))
    found |= {"problems": len(problems), "measured_at": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    found["load_average"] = round(os.getloadavg()[1], 1)
    print(json.dumps(found, indent=1))
    print("\n".join(problems))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{chosen.what}.json").write_text(json.dumps(found, indent=1) + "\n")
    write_page(RESULTS, PAGE)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
