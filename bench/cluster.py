"""How many attempts a gateway gets through where nodes answer at once, and what each part takes for one.

    python -m bench.cluster [--attempts N] [--clients N] [--nodes N]

A private RabbitMQ and PostgreSQL below .run/, one gateway, nodes that run nothing and answer at once. Prints
attempts per second, the times from submission to verdict, and processor time per attempt by part. On a busy
machine believe the processor time alone.
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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.cluster.stub_node import NodeClient, StubNode, UnixConnection  # noqa: E402

CODE = "def extract(path: str) -> dict:\n    return {'name': path}\n"
SUBMISSION = {"kind": "extractor", "payload": {"code": CODE, "sample_paths": ["/data/a.csv"]}}
TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP = 40


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


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def gateway(folder: Path, broker: Path, database: Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "database-url").write_text(script("postgres.sh", "url", database, "owner", "assayd"))
    (folder / "broker-url").write_text(script("rabbitmq.sh", "url", broker, "gateway"))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ASSAYD_")},
        "ASSAYD_SOCKET": str(folder / "gateway.sock"),
        "ASSAYD_STATE_DIR": str(folder / "state"),
        "ASSAYD_CLUSTER__DATABASE_URL_FILE": str(folder / "database-url"),
        "ASSAYD_CLUSTER__BROKER_URL_FILE": str(folder / "broker-url"),
    }
    with (folder / "gateway.log").open("wb") as log:
        command = [sys.executable, "-m", "assayd_cluster.gateway"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def wait_for(socket: Path, path: str) -> None:
    for _ in range(300):
        try:
            ask(UnixConnection(socket), "GET", path)
        except (OSError, RuntimeError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the gateway does not answer {path}")


def load(socket: Path, attempts: int, clients: int) -> list[float]:
    """Have clients submit, each after its last verdict; return how long each took, sorted."""
    took: list[float] = []

    def client() -> None:
        connection = UnixConnection(socket)
        for _ in range(attempts // clients):
            began = time.monotonic()
            ended = ask(connection, "POST", "/v1/attempts?wait_s=60", SUBMISSION)
            assert ended["verdict"] == "validated", ended
            took.append(time.monotonic() - began)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(took)


def measure(attempts: int, clients: int, nodes: int) -> dict[str, object]:
    broker, database = ROOT / ".run/rabbitmq", ROOT / ".run/postgres"
    with TemporaryDirectory() as name, ExitStack() as stack:
        for server, place in (("rabbitmq.sh", broker), ("postgres.sh", database)):
            stack.callback(script, server, "stop", place)
            script(server, "start", place)
        folder = Path(name)
        socket = folder / "gateway.sock"
        process = stack.enter_context(gateway(folder, broker, database))
        wait_for(socket, "/healthz")
        connection = UnixConnection(socket)
        policies = ask(connection, "GET", "/v1/policies")["policies"]
        profiles = {each["name"]: each["digest"] for each in policies}
        for number in range(nodes):
            node = f"bench-{number}"
            wanted = {"name": node, "tenant": "nodes", "scopes": ["node"], "node": node}
            token = ask(connection, "POST", "/v1/tokens", wanted)["token"]
            url = script("rabbitmq.sh", "url", broker, "node")

            def client(node: str = node, token: str = token) -> NodeClient:
                return NodeClient(socket, node, token)

            stack.enter_context(StubNode(client, url, profiles).running())
        wait_for(socket, "/readyz")
        load(socket, WARM_UP, clients)
        beam, postmaster = int((broker / "pid").read_text()), first_pid(database)
        parts = {
            "gateway": lambda: cpu_s(process.pid),
            "rabbitmq": lambda: cpu_s(beam),
            "postgresql": lambda: cpu_s(postmaster, *children(postmaster)),
            "nodes_and_clients": time.process_time,
        }
        before = {part: used() for part, used in parts.items()}
        began = time.monotonic()
        took = load(socket, attempts, clients)
        passed = time.monotonic() - began
        return {
            "nodes": nodes,
            "attempts": len(took),
            "attempts_per_s": round(len(took) / passed, 1),
            "p50_ms": round(took[len(took) // 2] * 1000, 1),
            "p99_ms": round(took[len(took) * 99 // 100] * 1000, 1),
            "cpu_ms": {p: round((used() - before[p]) / len(took) * 1000, 2) for p, used in parts.items()},
            "load": round(os.getloadavg()[0], 1),
        }


def first_pid(database: Path) -> int:
    return int((database / "data/postmaster.pid").read_text().split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--attempts", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=2)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.attempts, chosen.clients, chosen.nodes), indent=1))


if __name__ == "__main__":
    main()
