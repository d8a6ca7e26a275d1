"""Starts a daemon of the benchmark's own, and sends it submissions as any local program would."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import ROUGH

PROGRAM = (sys.executable, "-m", "assayd")
READY_TIMEOUT_S = 120.0
SETTLED_S = 0.1 if ROUGH else 3.0
IDLE = b"assayd_idle_containers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished attempt, and how long its client waited for it."""

    took_s: float
    verdict: str
    cause: str | None
    warm: bool | None
    timings_ms: dict[str, float | None]


class Connection:
    """One kept-alive HTTP connection over the Unix socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def submit(self, submission: dict[str, object]) -> Answer:
        """Submit, wait for the finished attempt, and read the whole answer."""
        body = json.dumps(submission).encode()
        began = time.perf_counter()
        status, answer = await self.request("POST", "/v1/attempts?wait_s=120", body)
        took_s = time.perf_counter() - began
        if status != 200:
            raise RuntimeError(f"the daemon answered {status}: {answer[:500]!r}")
        attempt = json.loads(answer)
        return Answer(
            took_s=took_s,
            verdict=attempt["verdict"],
            cause=(attempt["execution"] or {}).get("cause"),
            warm=attempt["warm"],
            timings_ms=attempt["timings_ms"],
        )

    async def request(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send one request and give status and body."""
        head = (
            f"{method} {target} HTTP/1.1\r\nhost: assayd\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), await self._reader.readexactly(int(headers["content-length"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A running daemon of ours."""

    pid: int
    socket: Path
    state: Path
    ready_s: float

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Open a connection for the body."""
        reader, writer = await asyncio.open_unix_connection(str(self.socket), limit=64 * 2**20)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()


@contextmanager
def daemon(
    folder: Path, *, program: Sequence[str] = PROGRAM, cwd: Path | None = None, **settings: str
) -> Iterator[Daemon]:
    """Run a daemon in a folder while the body runs; end it as an operator would.

    Args:
        folder: holds socket, state and log.
        program: what is run.
        cwd: the directory that it runs in (default: this one).
        settings: environment variables, without their prefix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    socket, state = folder / "a.sock", folder / "state"
    # An installed daemon finds its modules compiled.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {
        **inherited,
        "ASSAYD_SOCKET": str(socket),
        "ASSAYD_STATE_DIR": str(state),
        **{f"ASSAYD_{name}": value for name, value in settings.items()},
    }
    began = time.perf_counter()
    with (folder / "daemon.log").open("ab") as log:
        process = subprocess.Popen(
            program,
            cwd=cwd,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            asyncio.run(_until_ready(process, socket))
            ready_s = time.perf_counter() - began
            yield Daemon(pid=process.pid, socket=socket, state=state, ready_s=ready_s)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _until_ready(process: subprocess.Popen[bytes], socket: Path) -> None:
    end = time.perf_counter() + READY_TIMEOUT_S
    while time.perf_counter() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {process.returncode}; see {socket.parent}/daemon.log")
        try:
            reader, writer = await asyncio.open_unix_connection(str(socket))
        except OSError:
            await asyncio.sleep(0.02)
            continue
        status, _ = await Connection(reader, writer).request("GET", "/readyz")
        writer.close()
        if status == 200:
            return
        await asyncio.sleep(0.02)
    raise RuntimeError(f"the daemon was not ready within {READY_TIMEOUT_S} s")


async def pool_filled(target: Daemon) -> int:
    """Wait until no container has come or gone for a while: no kind lacks any. Give how many are idle."""
    seen, since = b"", time.perf_counter()
    async with target.connection() as connection:
        while time.perf_counter() - since < SETTLED_S:
            _, metrics = await connection.request("GET", "/metrics")
            containers = b"\n".join(
                line for line in metrics.splitlines() if line.startswith((IDLE, b"assayd_containers"))
            )
            if containers != seen:
                seen, since = containers, time.perf_counter()
            await asyncio.sleep(0.2)
    idle = [line for line in seen.splitlines() if line.startswith(IDLE)]
    return int(sum(float(line.rpartition(b" ")[2]) for line in idle))
