"""How many attempts gateways get through where nodes answer at once, and what each part takes for one.

    python -m bench.cluster [--nodes 1 2 3] [--gateways N] [--attempts N] [--clients N]

A private RabbitMQ and PostgreSQL below .run/, gateways, nodes that run nothing and answer at once. For each
number of nodes: the ceiling (so many clients, each submits after its last verdict), then half of it (attempts
come at that rate, whoever waits), then one client alone. Prints a table: attempts per second, times from
submission to verdict, processor time per attempt at the ceiling, by part; and that of the gateways by thread.
On a busy machine believe the processor time alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bench import ROUGH  # noqa: E402
from support.cluster.stub_node import NodeClient, StubNode, UnixConnection  # noqa: E402

CODE = "def extract(path: str) -> dict:\n    return {'name': path}\n"
SUBMISSION = {"kind": "extractor", "payload": {"code": CODE, "sample_paths": ["/data/a.csv"]}}
TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP = 1 if ROUGH else 40
MOST_CLIENTS = 32
"""Threads that submit at a rate: more attempts than these are never under way."""
BROKER, DATABASE = ROOT / ".run/rabbitmq", ROOT / ".run/postgres"
COLUMNS = ("gateways", "nodes", "per_s", "p50_ms", "p99_ms", "p50_half_ms", "p50_alone_ms")
PARTS = ("gateway", "postgresql", "rabbitmq", "nodes_and_clients")


def script(name: str, *arguments: str | Path) -> str:
    command = [ROOT / "deploy/dev" / name, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: object = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    connection.request(method, path, content, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
    return json.loads(text)


def cpu_s(*pids: int) -> float:
    """Return the processor time of processes, and of children that they have waited for."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += sum(int(fields[place]) for place in (11, 12, 13, 14))
    return total / TICKS


def threads_ms(pids: Sequence[int]) -> Counter[str]:
    """Return the processor time of the threads that live, by name without its number."""
    used: Counter[str] = Counter()
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            name = "event loop" if task.name == str(pid) else (task / "comm").read_text().strip()
            used[name.rstrip("0123456789_-")] += int((task / "schedstat").read_text().split()[0]) / 1e6
    return used


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def servers() -> Iterator[None]:
    """Run broker and database while the body runs."""
    with ExitStack() as stack:
        for server, place in (("rabbitmq.sh", BROKER), ("postgres.sh", DATABASE)):
            stack.callback(script, server, "stop", place)
            script(server, "start", place)
        yield


@contextmanager
def gateway(folder: Path, bundles: Path) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    (folder / "database-url").write_text(script("postgres.sh", "url", DATABASE, "owner", "assayd"))
    (folder / "broker-url").write_text(script("rabbitmq.sh", "url", BROKER, "gateway"))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ASSAYD_")},
        "ASSAYD_SOCKET": str(folder / "gateway.sock"),
        "ASSAYD_STATE_DIR": str(folder / "state"),
        "ASSAYD_CLUSTER__DATABASE_URL_FILE": str(folder / "database-url"),
        "ASSAYD_CLUSTER__BROKER_URL_FILE": str(folder / "broker-url"),
        "ASSAYD_CLUSTER__BUNDLES__DIRECTORY": str(bundles),
    }
    with (folder / "gateway.log").open("wb") as log:
        command = [sys.executable, "-m", "bench.named_threads", "assayd_cluster.gateway"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=ROOT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def wait_for(socket: Path, path: str) -> None:
    for _ in range(900):
        try:
            ask(UnixConnection(socket), "GET", path)
        except (OSError, RuntimeError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the gateway does not answer {path}")


def load(sockets: Sequence[Path], attempts: int, clients: int, per_s: float | None = None) -> list[float]:
    """Submit attempts; return how long each took, sorted.

    Each client submits after its last verdict; with a rate, as it falls due, and from then on it counts.
    """
    took: list[float] = []
    numbers, began = count(), time.monotonic()

    def client(socket: Path) -> None:
        connection = UnixConnection(socket)
        while (number := next(numbers)) < attempts:
            due = time.monotonic() if per_s is None else began + number / per_s
            time.sleep(max(0.0, due - time.monotonic()))
            ended = ask(connection, "POST", "/v1/attempts?wait_s=60", SUBMISSION)
            assert ended["verdict"] == "validated", ended
            took.append(time.monotonic() - due)

    asking = [sockets[number % len(sockets)] for number in range(clients)]
    threads = [threading.Thread(target=client, args=(socket,)) for socket in asking]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(took)


def start_nodes(stack: ExitStack, sockets: Sequence[Path], nodes: int) -> None:
    """Have nodes answer until the stack ends, each at one of the gateways."""
    connection = UnixConnection(sockets[0])
    policies = ask(connection, "GET", "/v1/policies")["policies"]
    profiles = {each["name"]: each["digest"] for each in policies}
    url = script("rabbitmq.sh", "url", BROKER, "node")
    for number in range(nodes):
        node, socket = f"bench-{number}", sockets[number % len(sockets)]
        wanted = {"name": node, "tenant": "nodes", "scopes": ["node"], "node": node}
        token = ask(connection, "POST", "/v1/tokens", wanted)["token"]

        def client(node: str = node, token: str = token, socket: Path = socket) -> NodeClient:
            return NodeClient(socket, node, token)

        stack.enter_context(StubNode(client, url, profiles).running())
    for socket in sockets:
        wait_for(socket, "/readyz")


def measure(attempts: int, clients: int, nodes: int, gateways: int) -> dict[str, Any]:
    """Return what was seen of so many gateways and nodes."""
    with TemporaryDirectory() as name, servers(), ExitStack() as stack:
        folders = [Path(name, str(number)) for number in range(gateways)]
        bundles = Path(name, "bundles")
        pids = [stack.enter_context(gateway(folder, bundles)).pid for folder in folders]
        sockets = [folder / "gateway.sock" for folder in folders]
        for socket in sockets:
            wait_for(socket, "/healthz")
        start_nodes(stack, sockets, nodes)
        load(sockets, WARM_UP, clients)
        beam, postmaster = int((BROKER / "pid").read_text()), first_pid()
        parts = {
            "gateway": lambda: cpu_s(*pids),
            "rabbitmq": lambda: cpu_s(beam),
            "postgresql": lambda: cpu_s(postmaster, *children(postmaster)),
            "nodes_and_clients": time.process_time,
        }
        before, threads = {part: used() for part, used in parts.items()}, threads_ms(pids)
        began = time.monotonic()
        full = load(sockets, attempts, clients)
        per_s = attempts / (time.monotonic() - began)
        cpu = {part: round((used() - before[part]) / attempts * 1000, 2) for part, used in parts.items()}
        threads = threads_ms(pids) - threads
        half = load(sockets, attempts // 2, MOST_CLIENTS, per_s / 2)
        alone = load(sockets, attempts // 8, 1)
        return {
            "gateways": gateways,
            "nodes": nodes,
            "per_s": round(per_s, 1),
            "p50_ms": milliseconds(full, 50),
            "p99_ms": milliseconds(full, 99),
            "p50_half_ms": milliseconds(half, 50),
            "p50_alone_ms": milliseconds(alone, 50),
            "cpu_ms": cpu,
            "threads_ms": {name: round(used / attempts, 2) for name, used in threads.most_common(10)},
            "load": round(os.getloadavg()[0], 1),
        }


def milliseconds(took: Sequence[float], percent: int) -> float:
    return round(took[len(took) * percent // 100] * 1000, 1)


def first_pid() -> int:
    return int((DATABASE / "data/postmaster.pid").read_text().split()[0])


def row(seen: dict[str, Any]) -> str:
    """Return a row of the table."""
    cells = [*(seen[column] for column in COLUMNS), *(seen["cpu_ms"][part] for part in PARTS)]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--attempts", type=int, default=800)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--gateways", type=int, default=1)
    chosen = parser.parse_args()
    names = [*COLUMNS, *(f"{part}_cpu_ms" for part in PARTS)]
    print("| " + " | ".join(names) + " |\n|" + " --- |" * len(names), flush=True)
    seen = [measure(chosen.attempts, chosen.clients, nodes, chosen.gateways) for nodes in chosen.nodes]
    for each in seen:
        print(row(each))
    for each in seen:
        print(f"{each['nodes']} nodes, gateways by thread, ms: {each['threads_ms']}; load {each['load']}")


if __name__ == "__main__":
    main()
