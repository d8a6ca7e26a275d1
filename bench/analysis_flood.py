"""How long a stranger waits while one user's submissions are slow to read: `python -m bench.analysis_flood`.

    python -m bench.analysis_flood [--shape NAME] [--attempts N] [--seconds S]

Needs root, an engine and images. Six module submissions of one user, whose files are of a shape of
`bench.scaling` that takes longest to read, are sent again and again. Beside them another user's extractor is
validated, one attempt after the other. The same is measured before, without them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.daemon import Connection, Daemon, daemon, pool_filled
from bench.relay_flood import STRANGER
from bench.scaling import PYTHON

ATTACKER, OTHER = 65534, 65533
FILES, FILE_BYTES = 10, 100_000
PAUSE_S = 0.5
UNDER_WAY_S = 2.0


def crafted(shape: str) -> dict[str, object]:
    """Return a module whose adapter and tests are all of a shape."""
    text = next(one.text for one in PYTHON if one.name == shape)(FILE_BYTES)
    names = ["adapter.py", *(f"test_{number}.py" for number in range(1, FILES))]
    return {"kind": "module", "payload": {"manifest": {}, "files": dict.fromkeys(names, text)}}


@asynccontextmanager
async def connection_of(target: Daemon, uid: int) -> AsyncIterator[Connection]:
    """Open a connection as another user: the kernel tells who connected, not who writes."""
    end = socket.socket(socket.AF_UNIX)
    os.seteuid(uid)
    try:
        end.connect(str(target.socket))
    finally:
        os.seteuid(0)
    reader, writer = await asyncio.open_unix_connection(sock=end, limit=64 * 2**20)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def measured(target: Daemon, seconds: float) -> dict[str, object]:
    """Have the stranger's extractor validated again and again."""
    took: list[float] = []
    read: list[float] = []
    verdicts: Counter[str] = Counter()
    async with connection_of(target, OTHER) as connection:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            answer = await connection.submit(STRANGER)
            took.append(answer.took_s)
            read.append((answer.timings_ms["static"] or 0.0) / 1000)
            verdicts[answer.verdict] += 1
            await asyncio.sleep(PAUSE_S)
    return {
        "attempt_p50_ms": _ms(statistics.median(took)),
        "attempt_max_ms": _ms(max(took)),
        "static_p50_ms": _ms(statistics.median(read)),
        "static_max_ms": _ms(max(read)),
        "verdicts": dict(verdicts),
    }


async def flood(target: Daemon, submission: dict[str, object], seconds: float, ends: Counter[str]) -> None:
    """Send a submission as soon as the one before has ended."""
    async with connection_of(target, ATTACKER) as connection:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            status, body = await connection.request(
                "POST", "/v1/attempts?wait_s=300", json.dumps(submission).encode()
            )
            assert status == 200, body[:500]
            attempt = json.loads(body)
            rules = sorted({finding["rule"] for finding in attempt["report"]["findings"]})
            ends[f"{attempt['verdict']} {', '.join(rules[:3])}"] += 1


async def measure(target: Daemon, chosen: argparse.Namespace) -> dict[str, object]:
    """Measure without and with what is slow to read."""
    await pool_filled(target)
    quiet = await measured(target, chosen.seconds)
    ends: Counter[str] = Counter()
    submission = crafted(chosen.shape)
    async with asyncio.TaskGroup() as group:
        for _ in range(chosen.attempts):
            group.create_task(flood(target, submission, chosen.seconds + UNDER_WAY_S, ends))
        await asyncio.sleep(UNDER_WAY_S)
        beside = await measured(target, chosen.seconds)
    return {"quiet": quiet, "beside": beside, "ends": dict(ends), "shape": chosen.shape}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shape", default="attributes of one line", choices=[one.name for one in PYTHON])
    parser.add_argument("--attempts", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assayd-analysis-") as folder:
        Path(folder).chmod(0o755)
        with daemon(Path(folder) / "d", SOCKET_MODE="0666") as target:
            print(json.dumps(asyncio.run(measure(target, chosen)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
