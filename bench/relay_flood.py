"""What attempts that flood the relay cost all others: `python -m bench.relay_flood`, with engine and images.

A host on loopback answers in chunks of one byte without end, or with informational answers, or takes such an
upload; some attempts read it over many connections. Beside them the API is asked steadily, and a stranger's
extractor is validated one attempt after the other. The same is measured before, without the flood, and beside
attempts (`spin`) that use as much processor and no network, which is what the machine itself makes of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from bench import ROUGH
from bench import daemon as bench_daemon
from bench.daemon import Daemon, daemon

HOST = "bench.test"
PAUSE_S = 1.0
UNDER_WAY_S = 1 if ROUGH else 4
"""Between two attempts of the stranger: the pool has time to make another container."""
CHUNKS = b"1\r\nA\r\n" * 5461
CONTINUES = b"HTTP/1.1 100 Continue\r\n\r\n" * 1300
STRANGER = {
    "kind": "extractor",
    "payload": {
        "code": "def extract(path: str) -> dict:\n    return {'name': path.rsplit('/', 1)[1]}\n",
        "sample_paths": ["/data/a/b.csv"],
    },
    "overrides": {"resources": {"unit_timeout_s": 1}},
}
GUEST = """
import os, socket, threading, time
PORT, WAY, CONNECTIONS, SECONDS = {port}, {way!r}, {connections}, {seconds}
END = time.monotonic() + SECONDS

def flood():
    while WAY == "spin" and time.monotonic() < END:
        sum(range(1000))
    while time.monotonic() < END:
        try:
            place = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
            s = socket.create_connection((place[0], int(place[1])), timeout=SECONDS)
            verb, more = ("POST", "Transfer-Encoding: chunked\\r\\n") if WAY == "up" else ("GET", "")
            s.sendall(f"{{verb}} http://bench.test:{{PORT}}/{{WAY}} HTTP/1.1\\r\\n"
                      f"Host: bench.test:{{PORT}}\\r\\n{{more}}\\r\\n".encode())
            while time.monotonic() < END:
                if WAY == "up":
                    s.sendall(b"1\\r\\nA\\r\\n" * 5461)
                elif not s.recv(65536):
                    break
            s.close()
        except OSError:
            time.sleep(0.2)

threads = [threading.Thread(target=flood) for _ in range(CONNECTIONS)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
PROFILE = """
extends = "script"
[resources]
max_processes = 64
[bounds]
max_processes = [1, 64]
[network]
mode = "allowlist"
hosts = ["bench.test"]
ports = [{port}]
connect_timeout_s = 5
"""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer without end, in the way that the path asks for."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/up " in head:
            while await reader.read(1 << 16):
                pass
            return
        many = CONTINUES if b"/continue " in head else CHUNKS
        if many is CHUNKS:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(many)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()


def host(told: Pipe) -> None:
    """Serve until the process is ended."""

    async def forever() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


def run_daemon() -> int:
    """Run the daemon with a relay for which the host on loopback is public."""
    from assayd.daemon import run
    from assayd.egress import Relay
    from assayd.settings import load_settings
    from assayd.wiring import execution

    execution.Relay = partial(  # type: ignore[misc,assignment]
        Relay, look_up=lambda host, port: ("127.0.0.1",), public=lambda address: address == "127.0.0.1"
    )
    return run(load_settings())


async def asked(target: Daemon, seconds: float) -> list[float]:
    """Request a page of the list repeatedly; return the time of each answer."""
    took = []
    async with target.connection() as connection:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            status, _ = await connection.request("GET", "/v1/attempts?limit=1")
            took.append(time.perf_counter() - began)
            assert status == 200, status
            await asyncio.sleep(0.02)
    return took


async def validated(target: Daemon, seconds: float) -> tuple[list[float], list[float], dict[str, int]]:
    """Have the stranger's extractor validated again and again.

    Gives what it took, the same without the wait for a container, and the verdicts.
    """
    took: list[float] = []
    worked: list[float] = []
    verdicts: dict[str, int] = {}
    async with target.connection() as connection:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            answer = await connection.submit(STRANGER)
            took.append(answer.took_s)
            worked.append(answer.took_s - (answer.timings_ms["lease"] or 0.0) / 1000)
            name = answer.verdict + (f"/{answer.cause}" if answer.verdict != "validated" else "")
            verdicts[name] = verdicts.get(name, 0) + 1
            await asyncio.sleep(PAUSE_S)
    return took, worked, verdicts


async def beside(target: Daemon, seconds: float) -> dict[str, object]:
    """Measure API and stranger at the same time."""
    api, (took, worked, verdicts) = await asyncio.gather(asked(target, seconds), validated(target, seconds))
    return {
        "api_p50_ms": _ms(statistics.median(api)),
        "api_p99_ms": _ms(statistics.quantiles(api, n=100)[98]),
        "api_max_ms": _ms(max(api)),
        "attempt_p50_ms": _ms(statistics.median(took)),
        "attempt_max_ms": _ms(max(took)),
        "attempt_without_lease_p50_ms": _ms(statistics.median(worked)),
        "attempt_without_lease_max_ms": _ms(max(worked)),
        "attempts": len(took),
        "verdicts": verdicts,
    }


async def measure(target: Daemon, port: int, chosen: argparse.Namespace) -> dict[str, object]:
    """Measure without a flood, and with each kind of flood."""
    await bench_daemon.pool_filled(target)
    found: dict[str, object] = {"quiet": await beside(target, chosen.seconds)}
    for way in chosen.ways.split(","):
        code = GUEST.format(
            port=port, way=way, connections=chosen.connections, seconds=int(chosen.seconds) + UNDER_WAY_S + 2
        )
        submission: dict[str, object] = {"kind": "script", "policy": "flood", "payload": {"code": code}}
        async with asyncio.TaskGroup() as group:
            floods = [group.create_task(_flood(target, submission)) for _ in range(chosen.attempts)]
            await asyncio.sleep(UNDER_WAY_S)
            found[way] = await beside(target, chosen.seconds)
        found[f"{way}_ends"] = [task.result() for task in floods]
    return found


async def _flood(target: Daemon, submission: dict[str, object]) -> str:
    async with target.connection() as connection:
        answer = await connection.submit(submission)
        return f"{answer.verdict}/{answer.cause} {answer.took_s:.1f} s"


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--ways", default="spin,chunks,continue,up", help="which floods")
    parser.add_argument("--daemon", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.daemon:
        return run_daemon()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=host, args=(theirs,), daemon=True)
    process.start()
    port = ours.recv()
    with tempfile.TemporaryDirectory(prefix="assayd-flood-") as folder:
        policies = Path(folder) / "policies"
        policies.mkdir()
        (policies / "flood.toml").write_text(PROFILE.format(port=port))
        settings = {"POLICY_FOLDERS": json.dumps([str(policies)]), "CONCURRENCY": "8"}
        program = (sys.executable, "-m", "bench.relay_flood", "--daemon")
        with daemon(Path(folder) / "d", program=program, **settings) as target:
            print(json.dumps(asyncio.run(measure(target, port, chosen)), indent=1))
    process.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
