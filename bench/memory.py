"""How much memory the daemon takes under texts made to be large once they are read: `python -m bench.memory`.

    python -m bench.memory [NAME …]

Needs engine and images. Each attack is sent several times over, to a daemon of the benchmark's own; printed
are the resident memory before, its peak, and how long the API took to say that it lives meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench import ROUGH
from bench.daemon import Daemon, daemon, pool_filled

MIB = 2**20
GOAL_MIB = 400
TIMES = 1 if ROUGH else 4
"""How often each attack is sent, at once."""
ECHO = "x: object\nresult: object = x\n"
PLAIN = "x: object\nresult: int = 1\n"


def node(inputs: str, code: str = PLAIN) -> bytes:
    """Return the body of a code node with these inputs."""
    head = json.dumps({"kind": "code", "payload": {"code": code}})
    return (head[:-2] + ', "inputs": {"x": ' + inputs + "}}}").encode()


def filled(piece: Callable[[int], str], count: int) -> str:
    """Return a JSON array of so many pieces."""
    return "[" + ",".join(map(piece, range(count))) + "]"


def attacks() -> Iterator[tuple[str, bytes]]:
    """Return each attack's name and body."""
    yield "arrays of nothing, refused", node(filled(lambda _: "[]", 5 * MIB))
    yield "arrays of nothing", node(filled(lambda _: "[]", 199_900))
    yield "objects", node(filled(lambda n: f'{{"k{n}":{n},"l":"{n}x","m":{n}.5,"n":null}}', 190_000))
    yield "objects, given back", node(filled(lambda n: f'{{"k{n}":{n},"l":"{n}x"}}', 190_000), ECHO)
    yield "short texts", node(filled(lambda n: f'"{n:x}"', 990_000))
    yield "short texts, given back", node(filled(lambda n: f'"{n:x}"', 800_000), ECHO)
    yield "integers", node(filled(lambda n: str(10**9 + n), 990_000))
    yield "keys", node("{" + ",".join(f'"k{n}":{n}' for n in range(600_000)) + "}")
    yield "a wide text", node('"😀' + "a" * (11 * MIB) + '"')
    yield "a wide text, escaped", node('"😀' + "\\n" * (5 * MIB) + '"')
    yield "a wide text, refused", node('"😀' + "a" * (15 * MIB) + '"')
    yield "a wide text, given back", node('"😀' + "a" * (7 * MIB) + '"', ECHO)
    yield (
        "a file of a script",
        json.dumps(
            {"kind": "script", "payload": {"code": "pass", "stdin": "é" * (7 * MIB)}}, ensure_ascii=False
        ).encode(),
    )


async def _send(target: Daemon, body: bytes) -> str:
    async with target.connection() as connection:
        status, answer = await connection.request("POST", "/v1/attempts?wait_s=300", body)
        document = json.loads(answer)
        return document["error"]["code"] if status >= 400 else document["verdict"] or document["state"]


async def _unending(target: Daemon) -> str:
    """Hold many bodies that never end."""
    writers = []
    for _ in range(24):
        _, writer = await asyncio.open_unix_connection(str(target.socket))
        head = f"POST /v1/attempts HTTP/1.1\r\nhost: a\r\ncontent-length: {16 * MIB}\r\n\r\n"
        writer.write(head.encode() + b" " * (15 * MIB))
        writers.append(writer)
    await asyncio.sleep(5)
    for writer in writers:
        writer.close()
    return "held"


async def _latencies(target: Daemon, over: asyncio.Event) -> float:
    """Return the longest that the API took to answer until something is over."""
    longest = 0.0
    async with target.connection() as connection:
        while not over.is_set():
            began = time.perf_counter()
            await connection.request("GET", "/healthz")
            longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(0.05)
    return longest


def _resident(target: Daemon, name: str) -> float:
    lines = Path(f"/proc/{target.pid}/status").read_text(encoding="ascii").splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(found) / 1024


async def _attack(target: Daemon, name: str, act: Callable[[], Awaitable[str]], times: int) -> float:
    """Print what an attack comes to; give the peak."""
    Path(f"/proc/{target.pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before, over, began = _resident(target, "VmRSS"), asyncio.Event(), time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(_latencies(target, over))
        ends = await asyncio.gather(*(act() for _ in range(times)))
        over.set()
    peak, took_s = _resident(target, "VmHWM"), time.perf_counter() - began
    said = ", ".join(sorted(set(ends)))
    print(f"{name:26} {before:6.0f} {peak:6.0f} {watching.result():7.2f} {took_s:7.1f}  {said}", flush=True)
    return peak


async def _all(target: Daemon, names: list[str]) -> float:
    await pool_filled(target)
    print(f"{'attack':26} {'before':>6} {'peak':>6} {'api s':>7} {'took s':>7}  ends")
    peaks = []
    for name, body in attacks():
        if not names or name in names:
            peaks.append(await _attack(target, name, lambda body=body: _send(target, body), TIMES))
    if not names or "bodies that never end" in names:
        peaks.append(await _attack(target, "bodies that never end", lambda: _unending(target), 1))
    return max(peaks)


def main() -> None:
    """Print a row per attack, and say whether the goal is met."""
    with tempfile.TemporaryDirectory(prefix="assay-memory-") as folder, daemon(Path(folder)) as target:
        peak = asyncio.run(_all(target, sys.argv[1:]))
    print(f"peak {peak:.0f} MiB; goal {GOAL_MIB}")


if __name__ == "__main__":
    main()
