"""A hundred clients of one user do their worst over every route while another user validates.

    deploy/dev/oci.sh run python tests/crowd.py [--rounds 3] [--seconds 20] [--clients 100] [--only ACT]

As root, on the OCI engine. Each round times the other user first quiet and then crowded, so that what else
the machine does counts for both. Prints latencies and memory; the exit code is 1 if a goal was missed.
The crowd's own processor time isn't the daemon's: its process is nice.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import random
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).parent))

from support.daemons.daemon_process import DaemonProcess

CROWD_UID = 65534
OTHER_UID = 65533
MOST_RATIO = 2.0
"""How much slower the other user's validations may be at the 95th percentile."""
MOST_HEALTH_S = 0.1
MOST_MEMORY_MB = 512
QUIET = 150
"""Validations that are timed before the crowd comes, in each round."""
PR_SET_PDEATHSIG = 1
GOOD = {
    "kind": "code",
    "policy": "code",
    "payload": {"code": "a: int\nresult: int = a + 1", "inputs": {"a": 1}},
}
SLEEPS = {"kind": "script", "policy": "script", "payload": {"code": "import time\ntime.sleep(5)"}}
SLOW_S = 0.05
HOLD_S = 3.0


@dataclass
class Client:
    """One client of the crowd, which repeats random actions on its own connection."""

    path: str
    routes: list[tuple[str, str]]
    chance: random.Random
    done: Counter[str]
    only: str | None = None

    async def live(self) -> None:
        """Perform one action after the other."""
        acts: list[Callable[[], Awaitable[None]]] = [
            self.pipeline,
            self.pipeline_a_few,
            self.send_slowly,
            self.send_large,
            self.send_values,
            self.send_tiny_chunks,
            self.ask_all,
            self.ask_and_go,
            self.read_nothing,
            self.be_idle,
            self.submit,
        ]
        while True:
            act = self.chance.choice([each for each in acts if self.only in {None, each.__name__}])
            self.done[act.__name__] += 1
            try:
                async with asyncio.timeout(2 * HOLD_S):
                    await act()
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                self.done[f"{act.__name__} ended by the daemon"] += 1
                await asyncio.sleep(0.01)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path)

    async def _send(self, *pieces: bytes, pause_s: float = 0, reads: bool = True) -> None:
        reader, writer = await self._open()
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)
            if reads:
                await reader.read(2**16)
        finally:
            writer.transport.abort()

    def _head(self, more: bytes = b"") -> bytes:
        method, path = self.chance.choice(self.routes)
        return f"{method} {path} HTTP/1.1\r\nHost: a\r\n".encode() + more + b"\r\n"

    async def pipeline(self) -> None:
        await self._send(b"GET / HTTP/1.1\r\n\r\n" * 11_600)

    async def pipeline_a_few(self) -> None:
        await self._send(self._head() * 16)

    async def send_slowly(self) -> None:
        await self._send(*(bytes([each]) for each in self._head()[:60]), pause_s=SLOW_S)

    async def send_large(self) -> None:
        body = json.dumps({**GOOD, "payload": {"code": "x" * 900_000, "inputs": {}}}).encode()
        await self._post(body)

    async def send_values(self) -> None:
        await self._post(b'{"kind":"code","payload":{"code":"a","inputs":{"a":[' + b"1," * 190_000 + b"1]}}}")

    async def _post(self, body: bytes) -> None:
        await self._send(
            b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body), body
        )

    async def send_tiny_chunks(self) -> None:
        head = b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        await self._send(head, b"1\r\nx\r\n" * 30_000, b"0\r\n\r\n")

    async def ask_all(self) -> None:
        for method, path in self.chance.sample(self.routes, len(self.routes)):
            await self._send(f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())

    async def ask_and_go(self) -> None:
        for _ in range(10):
            await self._send(self._head(), reads=False)

    async def read_nothing(self) -> None:
        await self._send(b"GET /v1/events HTTP/1.1\r\nHost: a\r\n\r\n", pause_s=HOLD_S, reads=False)

    async def be_idle(self) -> None:
        await self._send(b"", pause_s=HOLD_S, reads=False)

    async def submit(self) -> None:
        await self._post(json.dumps(self.chance.choice((GOOD, SLEEPS))).encode())


def ask(path: str, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
    """Send one request on a new connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(path)
        head = f"{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: connection.recv(2**16), b""))
    return int(answer.split(b" ", 2)[1]), answer.partition(b"\r\n\r\n")[2]


def wait_until_idle(path: str) -> None:
    """Wait until nothing is queued or runs, so that a measurement starts on an idle daemon."""
    while True:
        lines = ask(path, "GET", "/metrics")[1].splitlines()
        under_way = [line for line in lines if line.startswith(b"assayd_attempts_under_way{")]
        if under_way and all(line.endswith(b" 0.0") for line in under_way):
            return
        time.sleep(0.2)


@dataclass
class Seen:
    """The measurements of another user."""

    validations: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Milliseconds of each validation by stage, as the daemon reports them."""
    waited: list[float] = field(default_factory=list)
    """Of each answer about the daemon's health: how long this process and the daemon had no processor."""
    slowest: str = ""
    wrong: Counter[str] = field(default_factory=Counter)

    def look(self, path: str, pid: int) -> None:
        """Validate once, and ask for the daemon's health once."""
        began = time.monotonic()
        status, answer = ask(path, "POST", "/v1/attempts?wait_s=60", json.dumps(GOOD).encode())
        took = time.monotonic() - began
        attempt = json.loads(answer) if status == 200 else {}
        if took > max(self.validations, default=0):
            self.slowest = f"{took:.2f} s, of which {attempt.get('timings_ms')} ms"
        self.validations.append(took)
        for stage, took_ms in (attempt.get("timings_ms") or {}).items():
            self.stages[stage].append(took_ms)
        verdict = attempt.get("verdict")
        if verdict != "validated":
            self.wrong[f"{status} {verdict}"] += 1
        began, before = time.monotonic(), without_processor_s(pid)
        status, _ = ask(path, "GET", "/healthz")
        self.health.append(time.monotonic() - began)
        self.waited.append(without_processor_s(pid) - before)
        if status != 200:
            self.wrong[f"health {status}"] += 1


def percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def without_processor_s(pid: int) -> float:
    """Return how long this process and the daemon's event loop were ready to run and had no processor.

    Source: the kernel's Documentation/scheduler/sched-stats.rst, second field of schedstat.
    """
    files = (Path("/proc/self/schedstat"), Path(f"/proc/{pid}/task/{pid}/schedstat"))
    return sum(int(each.read_text().split()[1]) for each in files) / 1e9


def processor_s(pid: int, *, loop: bool) -> float:
    """Return the processor time of the daemon, or of its event loop only."""
    file = Path(f"/proc/{pid}/task/{pid}/stat" if loop else f"/proc/{pid}/stat")
    user, system = file.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    (line,) = (
        each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


@contextmanager
def crowded(path: str, how: argparse.Namespace, routes: list[tuple[str, str]]) -> Iterator[None]:
    """Run the crowd in a process of its own user while the body runs."""
    pid = os.fork()
    if not pid:
        be_nice(how.nice)
        os.setgid(CROWD_UID)
        os.setuid(CROWD_UID)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        asyncio.run(crowd(path, how, routes))
        os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def be_nice(nice: int) -> None:
    """Lower the priority of this process, also among sessions if the kernel groups processes by session."""
    os.nice(nice)
    os.setsid()
    with suppress(FileNotFoundError):  # sched(7), the autogroup feature
        Path("/proc/self/autogroup").write_text(str(nice))


@contextmanager
def other_user() -> Iterator[None]:
    """Act as the other user while the body runs."""
    os.setegid(OTHER_UID)
    os.seteuid(OTHER_UID)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


async def crowd(path: str, how: argparse.Namespace, routes: list[tuple[str, str]]) -> None:
    done: Counter[str] = Counter()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: (show(done), os._exit(0)))
    async with asyncio.TaskGroup() as group:
        for number in range(how.clients):
            group.create_task(Client(path, routes, random.Random(how.seed + number), done, how.only).live())


def show(done: Counter[str]) -> None:
    for name, count in sorted(done.items()):
        print(f"  {name.replace('_', ' '):40} {count:8}")
    sys.stdout.flush()


def all_routes(path: str) -> list[tuple[str, str]]:
    """Return every route of the reference, with ids that don't exist or that exist once."""
    reference = json.loads(ask(path, "GET", "/openapi.json")[1])
    named = [(method.upper(), target) for target, methods in reference["paths"].items() for method in methods]
    return [(method, target.replace("{", "").replace("}", "")) for method, target in named]


def measure(daemon: DaemonProcess, how: argparse.Namespace) -> int:
    path = str(daemon.socket)
    pid = daemon.process.pid if daemon.process else 0
    routes = all_routes(path)
    quiet, busy, memory = Seen(), Seen(), [memory_mb(pid)]
    used = Counter[bool]()
    for _ in range(how.rounds):
        wait_until_idle(path)
        with other_user():
            for _ in range(QUIET):
                quiet.look(path, pid)
        before = {loop: processor_s(pid, loop=loop) for loop in (True, False)}
        with crowded(path, how, routes), other_user():
            end = time.monotonic() + how.seconds
            while time.monotonic() < end:
                busy.look(path, pid)
                memory.append(memory_mb(pid))
        for loop, spent in before.items():
            used[loop] += processor_s(pid, loop=loop) - spent
    of_all = how.rounds * how.seconds / 100
    print(f"processor     event loop {used[True] / of_all:.0f} %, daemon {used[False] / of_all:.0f} %")
    return report(quiet, busy, memory)


def report(quiet: Seen, busy: Seen, memory: list[float]) -> int:
    before, beside = percentile(quiet.validations, 95), percentile(busy.validations, 95)
    health = percentile(busy.health, 95)
    print(f"validations   quiet {len(quiet.validations)}, crowded {len(busy.validations)}")
    for percent in (50, 95):
        alone, among = percentile(quiet.validations, percent), percentile(busy.validations, percent)
        print(f"validate p{percent}  quiet {alone * 1000:.0f} ms, crowded {among * 1000:.0f} ms")
    for stage, took in busy.stages.items():
        alone, among = percentile(quiet.stages[stage], 50), percentile(took, 50)
        print(f"  {stage:12}quiet {alone:.0f} ms, crowded {among:.0f} ms, p95 {percentile(took, 95):.0f} ms")
    print(f"slowest       {busy.slowest}")
    calm = percentile(quiet.health, 95)
    own = percentile([took - waited for took, waited in zip(busy.health, busy.waited, strict=True)], 95)
    print(f"/healthz p95  quiet {calm * 1000:.0f} ms, crowded {health * 1000:.0f} ms")
    print(f"              crowded {own * 1000:.0f} ms but for waits for a processor")
    print(f"memory        quiet {memory[0]:.0f} MB, most {max(memory):.0f} MB")
    missed = [f"{count} answers were {what}" for what, count in (quiet.wrong + busy.wrong).items()]
    if beside > MOST_RATIO * before:
        missed.append(f"validate p95 is {beside / before:.1f} times the quiet one")
    if health > MOST_HEALTH_S:
        missed.append("/healthz is slower than 100 ms")
    if max(memory) > MOST_MEMORY_MB:
        missed.append(f"the daemon took more than {MOST_MEMORY_MB} MB")
    for each in missed:
        print(f"MISSED: {each}")
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nice", type=int, default=19, help="Niceness of the crowd; less on a busy machine.")
    parser.add_argument(
        "--only", help="The one act that all clients do, as pipeline or submit. Default: all."
    )
    chosen = parser.parse_args()
    daemon = DaemonProcess("oci", settings={"LOG__LEVEL": "info", "ANALYSIS__WORKERS": "3"})  # as shipped
    try:
        daemon.start()
        daemon.home.chmod(0o755)
        daemon.socket.chmod(0o666)
        return measure(daemon, chosen)
    finally:
        with suppress(ProcessLookupError):
            daemon.dispose()


if __name__ == "__main__":
    sys.exit(main())
