"""What honest users of a cluster notice of a hostile tenant, a captured node and a stolen broker account.

    deploy/dev/oci.sh run .venv/bin/python -m bench.cluster_hostile [--seconds N] [--honest N]

Starts a cluster of two nodes on this machine. Honest attempts come one after another: first with nobody else,
then next to each attacker, for at least so many seconds. The tenant floods the gateway with requests of every
kind and fills all nodes; the node floods it with claims, verdicts and heartbeats, and is drained: a node that
takes work can always hold what it claimed, until an operator distrusts it. The reader of the queue takes
messages and claims none, and its token is revoked. Prints JSON: attempts and verdicts, times in ms, and how
long revocation took to free what was taken. Attackers run with the lowest priority, as if on other hosts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from amqp.exceptions import AccessRefused, AMQPError
from kombu import Connection, Consumer, Exchange, Queue

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.cluster.load import Load  # noqa: E402
from support.cluster.whole import WholeCluster, whole_cluster  # noqa: E402

CONNECTIONS = 24
TAKEN = 20
"""Attempts sent while someone reads the queue."""
MEBIBYTE = 2**20
ENDLESS = "while True:\n    pass\n"
ENDS_S = 2
"""Seconds after which the endless programs are ended, so that the places of the nodes are given on."""
NOWHERE = "01JTC8ZK5V7777777777777777"


class Attacker:
    """Connections with TLS that send requests of one token, as fast as they are answered."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told
        self.answers: Counter[str] = Counter()
        self._context = ssl.create_default_context(cafile=told["ca"])
        self._random = random.Random(5)

    async def run(self) -> None:
        """Attack until the process is ended."""
        make = self._of_tenant if self._told["attack"] == "tenant" else self._of_node
        async with asyncio.TaskGroup() as tasks:
            for number in range(CONNECTIONS):
                tasks.create_task(self._keep_sending(make, number))

    async def _keep_sending(self, make: Callable[[int], bytes], number: int) -> None:
        host, _, port = self._told["address"].rpartition(":")
        while True:
            try:
                reader, writer = await asyncio.open_connection(
                    host, int(port), ssl=self._context, limit=2**24
                )
                while True:
                    writer.write(make(number))
                    await writer.drain()
                    await self._read(reader)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as trouble:
                self.answers[type(trouble).__name__] += 1
                await asyncio.sleep(0.05)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        self.answers[head[9:12].decode()] += 1
        _, _, rest = head.partition(b"content-length: ")
        if rest:
            await reader.readexactly(int(rest.partition(b"\r")[0]))

    def _of_tenant(self, number: int) -> bytes:
        """Return endless programs, junk, lists and pipelined requests in turn."""
        kind = number % 4
        if kind == 0:
            return self._request("POST", "/v1/attempts?wait_s=1", _submission(ENDLESS, self._random.random()))
        if kind == 1:
            return self._request("POST", "/v1/attempts", b'{"kind":"script","payload":[' + b"1," * 10**5)
        if kind == 2:
            return self._request("GET", "/v1/attempts?limit=200")
        lines = b"".join(_submission(ENDLESS, self._random.random()) + b"\n" for _ in range(50))
        return self._request("POST", f"/v1/batches?name=b{self._random.randrange(10**9)}", lines)

    def _of_node(self, number: int) -> bytes:
        """Return claims of what it has no ticket for, large verdicts, and heartbeats."""
        own = f"/v1/nodes/{self._told['node']}"
        kind = number % 4
        if kind == 0:
            return self._request(
                "POST", f"{own}/runs", json.dumps({"attempt": NOWHERE, "ticket": "A" * 43}).encode()
            )
        if kind == 1:
            junk = json.dumps({"attempt": {"x": [1] * 10**5}, "files": []}).encode()
            return self._request("PUT", f"{own}/runs/{NOWHERE}/1/verdict", junk)
        if kind == 2:
            beat = {"capacity": 256, "ready": False, "reason": "r" * 1000, "version": "0.1.0"}
            return self._request("PUT", own, json.dumps({**beat, "runs": [NOWHERE] * 8000}).encode())
        return self._request("POST", f"{own}/runs", b'{"attempt":' + b"[" * 10**5)

    def _request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {self._told['token']}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _submission(code: str, number: float) -> bytes:
    payload = {"code": f"# {number}\n{code}"}
    limits = {"resources": {"unit_timeout_s": ENDS_S}}
    return json.dumps({"kind": "script", "payload": payload, "overrides": limits}).encode()


@contextmanager
def attacking(cluster: WholeCluster, **told: str) -> Iterator[dict[str, int]]:
    """Run an attacker while the body runs; what it was answered is in the dictionary afterwards."""
    told |= {"address": cluster.started.address, "ca": str(cluster.folder / "gateway/ca.pem")}
    command = ["nice", "-n", "19", sys.executable, "-m", "bench.cluster_hostile", "--attack"]
    answered: dict[str, int] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as attacker:
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        attacker.stdin.write(json.dumps(told).encode() + b"\n")
        attacker.stdin.flush()
        try:
            yield answered
        finally:
            attacker.stdin.close()
            answered |= json.loads(attacker.stdout.readline() or b"{}")
            attacker.wait(30)


async def attack(told: dict[str, Any]) -> Counter[str]:
    """Attack until standard input ends; return what was answered."""
    attacker = Attacker(told)
    running = asyncio.create_task(attacker.run())
    await asyncio.to_thread(sys.stdin.read)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return attacker.answers


def honest(cluster: WholeCluster, attempts: int, seconds: float) -> dict[str, Any]:
    """Send honest attempts one after another, evenly over at least so many seconds; return what was seen."""
    load, took = Load(cluster.socket), []
    sent: list[str] = []
    until = time.monotonic() + seconds
    for number in range(attempts):
        began = time.monotonic()
        ids = load.send(1, kinds=["passes", "fails"])
        outcome = load.outcome(ids, within_s=600)
        took.append((time.monotonic() - began) * 1000)
        assert (outcome.lost, outcome.wrong) == ([], [])
        sent += ids
        left = attempts - number
        time.sleep(max(0.0, (until - time.monotonic()) / left - (time.monotonic() - began)))
    took.sort()
    return {
        "attempts": len(sent),
        "verdicts": cluster.verdicts(sent),
        "p50_ms": round(took[len(took) // 2]),
        "p95_ms": round(took[len(took) * 95 // 100]),
        "lasted_s": round(time.monotonic() - until + seconds),
        "load_average": round(os.getloadavg()[0], 1),
    }


def beside_tenant(cluster: WholeCluster, attempts: int, seconds: float) -> dict[str, Any]:
    """Send honest attempts next to a hostile tenant."""
    token = cluster.client.create_token("hostile", tenant="hostile", scopes=["submit"])["token"]
    with attacking(cluster, attack="tenant", token=token) as answered:
        found = honest(cluster, attempts, seconds)
    return {**found, "answered": answered}


def beside_node(cluster: WholeCluster, attempts: int, seconds: float) -> dict[str, Any]:
    """Send honest attempts next to a captured node that is drained."""
    token = cluster.client.create_token("captured", node="captured", tenant="nodes", scopes=["node"])["token"]
    with attacking(cluster, attack="node", token=token, node="captured") as answered:
        cluster.wait_until("the captured node", lambda: "captured" in _nodes(cluster))
        cluster.client.drain_node("captured")
        found = honest(cluster, attempts, seconds)
    return {**found, "answered": answered}


def _nodes(cluster: WholeCluster) -> set[str]:
    return {node["name"] for node in cluster.client.nodes()["nodes"]}


def stolen_account(cluster: WholeCluster) -> dict[str, Any]:
    """Have a stolen account take messages, revoke its token, and see all attempts judged."""
    made = cluster.client.create_token("stolen", node="stolen", tenant="nodes", scopes=["node"])
    load, thief = Load(cluster.socket), Thief(made["broker_url"])
    threading.Thread(target=thief.take, daemon=True).start()
    cluster.wait_until("the reader of the queue", lambda: thief.reads)
    sent = load.send(TAKEN, kinds=["passes"])
    cluster.wait_until("messages to be taken", lambda: thief.taken > 0)
    taken = thief.taken
    cluster.wait_until("doctor to show it", lambda: _messages(cluster)["status"] == "fail")
    detail = _messages(cluster)["detail"]
    began = time.monotonic()
    cluster.client.revoke_token(made["id"])
    cluster.wait_until("the end of its connection", lambda: thief.ended)
    outcome = load.outcome(sent, within_s=300)
    judged_s = time.monotonic() - began
    return {
        "attempts": len(sent),
        "taken": taken,
        "verdicts": cluster.verdicts(sent),
        "lost": outcome.lost,
        "all judged s after revocation": round(judged_s, 1),
        "can connect again": thief.can_connect(),
        "doctor": detail,
    }


def _messages(cluster: WholeCluster) -> dict[str, Any]:
    return next(row for row in cluster.client.doctor()["checks"] if row["check"] == "messages")


class Thief:
    """Takes messages from the queue and acknowledges none."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.reads = self.ended = False
        self.taken = 0

    def take(self) -> None:
        """Take messages until the broker ends the connection."""
        queue = Queue("assayd.attempts", Exchange("assayd", type="direct", no_declare=True), no_declare=True)

        def note(body: Any, message: Any) -> None:
            self.taken += 1

        with suppress(AMQPError, OSError), Connection(self._url) as connection:
            channel = connection.channel()
            with Consumer(channel, [queue], callbacks=[note], accept=["json"], prefetch_count=TAKEN):
                self.reads = True
                while True:
                    with suppress(TimeoutError):
                        connection.drain_events(timeout=1)
        self.ended = True

    def can_connect(self) -> bool:
        """Return whether the broker lets the account in."""
        connection = Connection(self._url)
        try:
            connection.connect()
        except AccessRefused:
            return False
        finally:
            connection.collect()
        return True


def measure(attempts: int, seconds: float) -> dict[str, Any]:
    """Return what honest users noticed."""
    with whole_cluster() as cluster:
        cluster.wait_for_nodes({"node-1", "node-2"})
        honest(cluster, 10, 0)
        found: dict[str, Any] = {}
        for name, act in {
            "quiet": lambda: honest(cluster, attempts, 0),
            "hostile tenant": lambda: beside_tenant(cluster, attempts, seconds),
            "captured node": lambda: beside_node(cluster, attempts, seconds),
            "stolen account": lambda: stolen_account(cluster),
        }.items():
            found[name] = act()
            print(f"{name}: {json.dumps(found[name])}", file=sys.stderr, flush=True)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--honest", type=int, default=300)
    parser.add_argument("--attack", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.attack:
        print(json.dumps(asyncio.run(attack(json.loads(sys.stdin.readline())))), flush=True)
        return
    print(json.dumps(measure(chosen.honest, chosen.seconds), indent=1))


if __name__ == "__main__":
    main()
