"""How many attempts one gateway gets through when everything around it is a cheap stub.

    python -m bench.cluster_load [--attempts N] [--nodes N] [--capacity N] [--gateways N] [--submit post]

A private RabbitMQ and PostgreSQL below .run/, gateways, and one process of stub nodes that answer at once
with verdicts made from a template, so that the gateway is the limit and not the test. Attempts come as a
batch, or one by one (`post`) from as many connections as nodes take at once. Prints attempts per second and
each attempt's processor time by part and by thread of the gateway, transactions, rows and write-ahead log of
PostgreSQL, bytes on the wire and in the bundle. With `--idle N` it sends nothing, and has N nodes beat every
5 s: what the nodes of a large cluster cost by themselves, per second. On a busy machine believe all but the
attempts per second.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from kombu import Connection, Consumer, Exchange, Queue

from assayd import __version__
from assayd_cluster.documents import HEARTBEAT_INTERVAL_S
from bench import ROUGH
from bench.cluster import (
    BROKER,
    DATABASE,
    ROOT,
    ask,
    children,
    cpu_s,
    first_pid,
    gateway,
    script,
    servers,
    threads_ms,
    wait_for,
)

sys.path.insert(0, str(ROOT / "tests"))

from support.cluster.stub_node import UnixConnection, verdict_of

BATCH_WARM_UP = 1 if ROUGH else 200
PAUSE_S = 0.05
IDLE_S = 20.0
STAMP_ID = "01JTC8ZK5V7777777777777777"
_JSON = "Content-Type: application/json\r\n"
_COUNTERS = (
    "SELECT xact_commit, tup_inserted, tup_updated, tup_deleted, pg_current_wal_lsn() - '0/0'::pg_lsn "
    "FROM pg_stat_database WHERE datname = current_database()"
)
COUNTERS = ("transactions", "rows_inserted", "rows_updated", "rows_deleted", "wal_bytes")


def line(number: int) -> bytes:
    """Return a submission; each is another one."""
    code = f"def extract(path: str) -> dict:\n    return {{'name': path, 'n': {number}}}\n"
    return json.dumps(
        {"kind": "extractor", "payload": {"code": code, "sample_paths": ["/data/a.csv"]}}
    ).encode()


class RawHttp:
    """HTTP on one connection to a Unix socket, as little of it as the gateway needs."""

    def __init__(self, path: str, token: str = "") -> None:
        self._path = path
        self.token = token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter
        self.sent = self.received = 0

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body of the answer."""
        if self._reader is None:
            self._reader, self._writer = await asyncio.open_unix_connection(self._path, limit=2**24)
        token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: g\r\n{_JSON}{token}".encode()
        head += f"Content-Length: {len(body)}\r\n\r\n".encode()
        self._writer.write(head + body)
        found = await self._reader.readuntil(b"\r\n\r\n")
        status = int(found[9:12])
        _, _, rest = found.lower().partition(b"content-length: ")
        answer = await self._reader.readexactly(int(rest.partition(b"\r")[0])) if rest else b""
        self.sent += len(head) + len(body)
        self.received += len(found) + len(answer)
        return status, answer


class Verdicts:
    """Verdicts from a template: what differs are the attempt, and the digests of what names it."""

    def __init__(self) -> None:
        self._template: dict[str, Any] = {}

    def of(self, attempt: str, claimed: dict[str, Any]) -> bytes:
        """Return the body of a verdict on a claimed attempt."""
        digest = hashlib.sha256(_canonical_input(claimed["document"])).hexdigest()
        if not self._template:
            self._template = verdict_of(attempt, claimed)
            files = {each["name"].partition("_")[0]: each for each in self._template["files"]}
            self._report, self._submission = files["validation"], files["submission"]
            self._document = json.loads(base64.b64decode(self._report["base64"]))
        report = {**self._document, "attempt_id": attempt, "input_digest": digest}
        _put(self._report, json.dumps(report, sort_keys=True, separators=(",", ":")).encode())
        _put(self._submission, claimed["document"].encode())
        self._template["attempt"] |= {"id": attempt, "input_digest": digest}
        return json.dumps(self._template).encode()


def _canonical_input(document: str) -> bytes:
    read = json.loads(document)
    wanted = {"kind": read["kind"], "payload": read["payload"]}
    return json.dumps(wanted, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _put(file: dict[str, Any], content: bytes) -> None:
    file |= {
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "base64": base64.b64encode(content).decode(),
    }


class Nodes:
    """Stub nodes: a thread that takes messages, and connections that claim and bring verdicts."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told
        self._verdicts = Verdicts()
        self._loop: asyncio.AbstractEventLoop
        self._waiting: asyncio.Queue[Any]
        self._done: list[Any] = []
        self._connections: list[RawHttp] = []
        self.refused = 0

    async def run(self) -> None:
        """Answer until the process is ended."""
        self._loop, self._waiting = asyncio.get_running_loop(), asyncio.Queue()
        nodes, sockets = self._told["nodes"], self._told["sockets"]
        capacity = self._told["capacity"]
        threading.Thread(target=self._take, args=(capacity * len(nodes),), daemon=True).start()
        async with asyncio.TaskGroup() as tasks:
            idle = list(self._told["idle"])
            for place in range(0, len(idle), 100):
                tasks.create_task(self._beat_in_turn(idle[place : place + 100]))
            for number, (name, token) in enumerate(nodes.items()):
                path = sockets[number % len(sockets)]
                tasks.create_task(self._beat(RawHttp(path, token), name))
                for _ in range(capacity):
                    connection = RawHttp(path, token)
                    self._connections.append(connection)
                    tasks.create_task(self._work(connection, name))

    async def _beat(self, connection: RawHttp, name: str) -> None:
        said = {"capacity": self._told["capacity"], "ready": True, "version": __version__}
        body = json.dumps({**said, "profiles": self._told["profiles"]}).encode()
        while True:
            await connection.ask("PUT", f"/v1/nodes/{name}", body)
            sent, received = (
                sum(getattr(c, what) for c in self._connections) for what in ("sent", "received")
            )
            print(json.dumps({"sent": sent, "received": received, "refused": self.refused}), flush=True)
            await asyncio.sleep(2)

    async def _beat_in_turn(self, names: Sequence[str]) -> None:
        """Beat for many idle nodes, each every `HEARTBEAT_INTERVAL_S`, evenly spread."""
        connection = RawHttp(self._told["sockets"][0])  # a gateway has no 1,000 by default
        said = {"capacity": 16, "ready": True, "version": __version__, "runs": [STAMP_ID] * 16}
        body = json.dumps({**said, "profiles": self._told["profiles"]}).encode()
        began, number = time.monotonic(), 0
        while True:
            for name in names:
                await asyncio.sleep(began + number * HEARTBEAT_INTERVAL_S / len(names) - time.monotonic())
                connection.token = self._told["idle"][name]
                await connection.ask("PUT", f"/v1/nodes/{name}", body)
                number += 1

    async def _work(self, connection: RawHttp, name: str) -> None:
        while True:
            said, message = await self._waiting.get()
            body = json.dumps({"attempt": said["attempt"], "ticket": said["ticket"]}).encode()
            status, answer = await connection.ask("POST", f"/v1/nodes/{name}/runs", body)
            if status == 200:
                claimed = json.loads(answer)
                verdict = self._verdicts.of(said["attempt"], claimed)
                path = f"/v1/nodes/{name}/runs/{said['attempt']}/{claimed['run']}/verdict"
                status, answer = await connection.ask("PUT", path, verdict)
            if status != 200:
                self.refused += 1
                print(f"refused: {status} {answer[:200]!r}", file=sys.stderr, flush=True)
            self._done.append(message)

    def _take(self, prefetch: int) -> None:
        exchange = Exchange("assayd", type="direct", no_declare=True)
        queue = Queue("assayd.attempts", exchange, no_declare=True)

        def take(body: Any, message: Any) -> None:
            self._loop.call_soon_threadsafe(self._waiting.put_nowait, (body[1], message))

        with Connection(self._told["broker"]) as connection:
            channel = connection.channel()
            with Consumer(channel, [queue], callbacks=[take], accept=["json"], prefetch_count=prefetch):
                while True:
                    done, self._done = self._done, []
                    for message in done:
                        message.ack()
                    try:
                        connection.drain_events(timeout=PAUSE_S / 5)
                    except TimeoutError:
                        continue


@contextmanager
def stub_nodes(
    sockets: Sequence[Path], count: int, capacity: int, idle: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of stub nodes while the body runs."""
    connection = UnixConnection(sockets[0])
    policies = ask(connection, "GET", "/v1/policies")["policies"]
    tokens = {}
    for name in [*(f"load-{n}" for n in range(count)), *(f"idle-{n}" for n in range(idle))]:
        wanted = {"name": name, "tenant": "nodes", "scopes": ["node"], "node": name}
        tokens[name] = ask(connection, "POST", "/v1/tokens", wanted)["token"]
    told = {
        "nodes": {name: token for name, token in tokens.items() if name.startswith("load")},
        "idle": {name: token for name, token in tokens.items() if name.startswith("idle")},
        "sockets": [str(socket) for socket in sockets],
        "capacity": capacity,
        "profiles": {each["name"]: each["digest"] for each in policies},
        "broker": script("rabbitmq.sh", "url", BROKER, "node"),
    }
    command = [sys.executable, "-m", "bench.cluster_load", "--stub"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
        for socket in sockets:
            wait_for(socket, "/readyz")
        yield process
    finally:
        process.kill()
        process.wait()


def send_batch(socket: Path, name: str, first: int, attempts: int) -> float:
    """Send a batch, and return how many seconds it took to its last verdict."""
    connection = UnixConnection(socket)
    body = b"\n".join(line(first + number) for number in range(attempts)) + b"\n"
    began = time.monotonic()
    connection.request("POST", f"/v1/batches?name={name}", body, {"Content-Type": "application/x-ndjson"})
    answer = connection.getresponse()
    batch = json.loads(answer.read())
    assert answer.status < 400, batch
    while True:
        batch = ask(connection, "GET", f"/v1/batches/{batch['id']}")
        if batch["state"] == "finished":
            assert batch["counts"]["validated"] == attempts, batch["counts"]
            return time.monotonic() - began
        time.sleep(PAUSE_S)


def send_posts(sockets: Sequence[Path], first: int, attempts: int, clients: int) -> float:
    """Send attempts one by one, each client after its last verdict; return how many seconds it took."""

    async def client(connection: RawHttp, numbers: Iterator[int]) -> None:
        for number in numbers:
            status, answer = await connection.ask("POST", "/v1/attempts?wait_s=60", line(number))
            assert status == 200, answer

    async def run() -> None:
        numbers = iter(range(first, first + attempts))
        connections = [RawHttp(str(sockets[number % len(sockets)])) for number in range(clients)]
        async with asyncio.TaskGroup() as tasks:
            for connection in connections:
                tasks.create_task(client(connection, numbers))

    began = time.monotonic()
    asyncio.run(run())
    return time.monotonic() - began


def counters() -> dict[str, int]:
    """Return what PostgreSQL has counted for the database so far."""
    url = script("postgres.sh", "url", DATABASE, "owner", "assayd").replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        time.sleep(1.1)  # sessions send what they counted once a second
        row = connection.execute(_COUNTERS).fetchone()
        assert row is not None
        return dict(zip(COUNTERS, map(int, row), strict=True))


def wire(stub: subprocess.Popen[bytes]) -> dict[str, int]:
    """Return the newest counts of bytes between nodes and gateways."""
    assert stub.stdout is not None
    os.set_blocking(stub.stdout.fileno(), True)
    time.sleep(2.1)
    newest = b""
    while b"\n" not in newest or newest.rstrip(b"\n") == b"":
        newest = os.read(stub.stdout.fileno(), 2**20)
    return dict(json.loads(newest.strip().splitlines()[-1]))


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return what was seen."""
    with TemporaryDirectory() as name, servers(), ExitStack() as stack:
        bundles = Path(name, "bundles")
        folders = [Path(name, str(number)) for number in range(chosen.gateways)]
        pids = [stack.enter_context(gateway(folder, bundles)).pid for folder in folders]
        sockets = [folder / "gateway.sock" for folder in folders]
        for socket in sockets:
            wait_for(socket, "/healthz")
        stub = stack.enter_context(stub_nodes(sockets, chosen.nodes, chosen.capacity, chosen.idle))
        unique = f"{time.time():.0f}"

        def send(first: int, attempts: int) -> float:
            if chosen.submit == "post":
                return send_posts(sockets, first, attempts, chosen.nodes * chosen.capacity)
            return send_batch(sockets[0], f"load-{unique}-{first}", first, attempts)

        if not chosen.idle:
            send(int(unique) * 10**6, BATCH_WARM_UP)
        beam, postmaster = int((BROKER / "pid").read_text()), first_pid()
        parts = {
            "gateway": lambda: cpu_s(*pids),
            "postgresql": lambda: cpu_s(postmaster, *children(postmaster)),
            "rabbitmq": lambda: cpu_s(beam),
            "stub_nodes": lambda: cpu_s(stub.pid),
            "load": time.process_time,
        }
        if chosen.idle:
            return idle_cost(parts, chosen.idle)
        database, bytes_before = counters(), wire(stub)
        before, threads = {part: used() for part, used in parts.items()}, threads_ms(pids)
        took_s = send(int(unique) * 10**6 + BATCH_WARM_UP, chosen.attempts)
        cpu = {part: (used() - before[part]) * 1000 / chosen.attempts for part, used in parts.items()}
        used = threads_ms(pids) - threads
        after, bytes_after = counters(), wire(stub)
        stored = sorted(bundles.rglob("*.tar"), key=lambda path: path.stat().st_mtime)
        return {
            "attempts_per_s": round(chosen.attempts / took_s, 1),
            "gateway_busy": round(cpu["gateway"] * chosen.attempts / 1000 / took_s, 2),
            "cpu_ms": {part: round(ms, 2) for part, ms in cpu.items()},
            "gateway_threads_ms": {each: round(ms / chosen.attempts, 2) for each, ms in used.most_common(8)},
            "database": {
                each: round((after[each] - database[each]) / chosen.attempts, 2) for each in COUNTERS
            },
            "node_bytes": {
                way: round((bytes_after[way] - bytes_before[way]) / chosen.attempts)
                for way in ("sent", "received")
            },
            "bundle_bytes": stored[-1].stat().st_size if stored else None,
            "refused": bytes_after["refused"],
            "load_average": round(os.getloadavg()[0], 1),
        }


def idle_cost(parts: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Return what each second takes while nodes only beat."""
    time.sleep(2 * HEARTBEAT_INTERVAL_S)
    database, before, began = counters(), {part: used() for part, used in parts.items()}, time.monotonic()
    time.sleep(IDLE_S)
    cpu, lasted = {part: used() - before[part] for part, used in parts.items()}, time.monotonic() - began
    after = counters()
    return {
        "idle_nodes": nodes,
        "cpu_ms_per_s": {part: round(s * 1000 / lasted, 1) for part, s in cpu.items()},
        "database_per_s": {each: round((after[each] - database[each]) / lasted, 1) for each in COUNTERS},
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--attempts", type=int, default=3000)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--capacity", type=int, default=16)
    parser.add_argument("--gateways", type=int, default=1)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--submit", choices=("batch", "post"), default="batch")
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.stub:
        asyncio.run(Nodes(json.loads(sys.stdin.readline())).run())
        return
    print(json.dumps(measure(chosen), indent=1))


if __name__ == "__main__":
    main()
