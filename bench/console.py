"""How long the console's pages take to their first paint with many attempts on record; what one costs.

    python -m bench.console [ATTEMPTS [IDLE_S]]        # default: 100,000 and 30; needs Chromium

The store is filled by hand; the daemon is real and keeps no containers. Writes bench/results/console.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import RESULTS, ROOT

sys.path.insert(0, str(ROOT / "tests"))

import httpx
from playwright.sync_api import sync_playwright
from sqlalchemy import create_engine, insert

from assayd.store import tables
from assayd_client import PlainClient
from support.daemons.console import CHROMIUM, Console, console_on

PAGES = ("/now", "/attempts", "/attempts?verdict=failed", "/batches", "/repairs", "/submit", "/trends")
LATE = ("/trends/pictures?back=30d",)
LOOKS = 5
SERVED = 20
IDLE_S = 30
MOST = 100_000
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def fill(database: Path, count: int) -> None:
    """Put finished attempts into a store, the last of them of now."""
    now, kinds = int(time.time() * 1e6), ("extractor", "code", "script")
    digest = "0" * 64
    engine = create_engine(f"sqlite:///{database}")
    with engine.begin() as connection:
        connection.execute(insert(tables.submissions), [{"digest": digest, "document": b"{}"}])
        for first in range(0, count, 5000):
            numbers = range(first, min(first + 5000, count))
            connection.execute(
                insert(tables.attempts), [_attempt(n, now, count, digest, kinds) for n in numbers]
            )
            connection.execute(insert(tables.verdicts), [_verdict(n, now, count) for n in numbers])
    engine.dispose()


def _created(number: int, now: int, count: int) -> int:
    return now - (count - number) * 5_000_000


def _id(number: int) -> str:
    return f"01{number:024d}"


def _attempt(number: int, now: int, count: int, digest: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": _id(number),
        "submission": digest,
        "kind": kinds[number % 3],
        "policy": kinds[number % 3],
        "input_digest": digest,
        "created_at": _created(number, now, count),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "pid": 1,
        "attempt_number": 1,
        "labels": '{"category": "reports"}',
    }


def _verdict(number: int, now: int, count: int) -> dict[str, Any]:
    failed = number % 7 == 0
    return {
        "attempt_id": _id(number),
        "run_number": 1,
        "verdict": "failed" if failed else "validated",
        "cause": "exited_nonzero" if failed else "completed",
        "started_at": _created(number, now, count) + 1000,
        "finished_at": _created(number, now, count) + 20_000 + number % 9000,
        "timings": '{"total": 0.02}',
        "artifacts": "[]",
        "rules": '["sandbox.raised"]' if failed else "[]",
    }


def measure(socket: Path, pid: int, idle_s: float) -> dict[str, Any]:
    """Return milliseconds to the first paint by page, and the daemon's share of a core by open page."""
    found: dict[str, Any] = {"processor_ms": {}, "first_paint_ms": {}, "late_ms": {}}
    with console_on(socket) as console, sync_playwright() as playwright:
        for path in PAGES:
            found["processor_ms"][path] = _served_ms(console, path, pid)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
        page = browser.new_page()
        page.goto(console.link)
        page.wait_for_url("**/now")
        for path in PAGES:
            paints = []
            for _ in range(LOOKS):
                page.goto(console.url + path)
                while (painted := page.evaluate(PAINT)) is None:
                    page.wait_for_timeout(10)
                paints.append(painted)
            found["first_paint_ms"][path] = round(statistics.median(paints), 1)
        for path in LATE:
            began = time.monotonic()
            page.goto(console.url + path)
            found["late_ms"][path] = round((time.monotonic() - began) * 1000, 1)
        for path in ("about:blank", f"{console.url}/now", f"{console.url}/attempts"):
            page.goto(path)
            before = _processor_s(pid)
            page.wait_for_timeout(idle_s * 1000)
            name = path.removeprefix(console.url)
            found[f"idle_{name}_percent"] = round((_processor_s(pid) - before) / idle_s * 100, 2)
        browser.close()
    return found


def _served_ms(console: Console, path: str, pid: int) -> float:
    """Return the processor time of a page in daemon and console together, asked for without a browser."""
    with httpx.Client(base_url=console.url) as client:
        client.post("/login", content=console.sessions.offer(), headers={"Origin": console.url})
        client.get(path)
        before = _processor_s(pid) + time.process_time()
        for _ in range(SERVED):
            client.get(path)
        return round((_processor_s(pid) + time.process_time() - before) / SERVED * 1000, 1)


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(count: int = MOST, idle_s: float = IDLE_S) -> None:
    """Fill, start, measure, write."""
    with tempfile.TemporaryDirectory(prefix="assayd-console-") as folder:
        home = Path(folder)
        settings = {
            "ASSAYD_SOCKET": str(home / "s"),
            "ASSAYD_STATE_DIR": str(home / "state"),
            "ASSAYD_POOL__DEFAULT_TARGET": "0",
            "ASSAYD_ANALYSIS__WORKERS": "1",
        }
        from support.stores.empty_database import lay_database

        (home / "state").mkdir(mode=0o700)
        lay_database(home / "state")
        fill(home / "state/assayd.db", count)
        with subprocess.Popen(
            [Path(sys.executable).parent / "assayd"], env={**os.environ, **settings}
        ) as daemon:
            try:
                _wait(home / "s")
                found = {
                    "attempts": count,
                    "load": os.getloadavg()[0],
                    **measure(home / "s", daemon.pid, idle_s),
                }
            finally:
                daemon.terminate()
    (RESULTS / "console.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def _wait(socket: Path) -> None:
    for _ in range(600):
        if socket.exists():
            PlainClient(socket).metrics()
            return
        time.sleep(0.1)
    raise SystemExit("the daemon does not start")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
