"""A hostile tenant and a hostile node in a whole cluster, and the latency of honest attempts beside them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from amqp.exceptions import AccessRefused, AMQPError
from kombu import Connection, Consumer, Exchange, Queue

from assayd import __version__
from assayd_client import PlainClient
from assayd_client.address import AddressOptions
from assayd_client.errors import ClientError
from support.cluster.stub_node import NodeClient, verdict_of
from support.cluster.whole import WholeCluster

WAITS = "import time\nwhile True:\n    time.sleep(1)\n"
COMPUTES = "while True:\n    pass\n"
FOREIGN = "01JTC8ZK5V7777777777777777"
WAIT_S = 600.0
TIMEOUT_S = 20
"""The time limit of an honest attempt, which bounds how long a node can keep it."""
PREFETCHED = 64


def tenant(cluster: WholeCluster, name: str) -> PlainClient:
    """Return a client of a new tenant that connects over TLS."""
    status, said = cluster.started.ask(
        "POST", "/v1/tokens", {"name": name, "tenant": name, "scopes": ["submit"]}
    )
    assert status == 201, said
    token = cluster.folder / f"{name}.token"
    token.write_text(str(said["token"]))
    token.chmod(0o600)
    server = f"https://{cluster.started.address}"
    return PlainClient(
        AddressOptions(server=server, token_file=token, ca_file=cluster.folder / "gateway/ca.pem")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """The outcome of honest attempts: verdicts with their nodes, and latencies in seconds."""

    verdicts: Counter[tuple[str, str | None]]
    times_s: list[float]

    @property
    def judged(self) -> int:
        """Return the number of validated attempts."""
        return sum(times for (verdict, _), times in self.verdicts.items() if verdict == "validated")

    def percentile_s(self, percent: int) -> float:
        """Return this percentile of the latencies."""
        return sorted(self.times_s)[max(0, -(-len(self.times_s) * percent // 100) - 1)]

    def figures(self) -> dict[str, object]:
        """Return the figures to record."""
        named = {f"p{percent} s": round(self.percentile_s(percent), 3) for percent in (50, 95, 100)}
        return {
            **named,
            "verdicts": {f"{verdict} on {node}": n for (verdict, node), n in self.verdicts.items()},
        }


_NUMBERS = count()


def send_honest(clients: Sequence[PlainClient], number: int, every_s: float) -> Honest:
    """Submit so many attempts, one every so many seconds, whether earlier ones have ended or not.

    The clients take turns.
    """
    began = time.monotonic()

    def send(position: int) -> tuple[str, str | None, float]:
        time.sleep(max(0.0, began + position * every_s - time.monotonic()))
        code = f"def extract(path: str) -> dict:\n    return {{'name': path, 'number': {next(_NUMBERS)}}}\n"
        payload = {"code": code, "sample_paths": ["/data/a.csv"]}
        client, limits = clients[position % len(clients)], {"resources": {"timeout_s": TIMEOUT_S}}
        sent = time.monotonic()
        attempt = client.submit({"kind": "extractor", "payload": payload, "overrides": limits}, wait_s=WAIT_S)
        while attempt["verdict"] is None:
            attempt = client.attempt(attempt["id"], wait_s=WAIT_S)
        return str(attempt["verdict"]), attempt["node"], time.monotonic() - sent

    with ThreadPoolExecutor(number) as pool:
        found = list(pool.map(send, range(number)))
    return Honest(
        verdicts=Counter((verdict, node) for verdict, node, _ in found), times_s=[s for *_, s in found]
    )


@contextmanager
def repeating(*turns: Callable[[], object]) -> Iterator[None]:
    """Call each function repeatedly in its own thread while the body runs."""
    ending = threading.Event()

    def repeat(turn: Callable[[], object]) -> None:
        while not ending.is_set():
            try:
                turn()
            except (ClientError, OSError, AMQPError):
                ending.wait(0.2)  # refused or cut off: it tries again

    threads = [threading.Thread(target=repeat, args=(turn,), daemon=True) for turn in turns]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join(60)


@contextmanager
def endless_programs(client: PlainClient) -> Iterator[None]:
    """Have a tenant submit endless programs while the body runs; every second one uses the processor."""
    numbers = count()

    def submit() -> None:
        number = next(numbers)
        code = f"# {number}\n{COMPUTES if number % 2 else WAITS}"
        client.submit({"kind": "script", "payload": {"code": code}})

    with repeating(submit, submit):
        yield


class CapturedNode:
    """A node that an attacker controls, with the node's token and broker account."""

    def __init__(self, cluster: WholeCluster, name: str, profiles: dict[str, str]) -> None:
        settings = cluster.started.worker_settings(name)
        folder = cluster.folder / name
        token = (folder / "token").read_text().strip()
        self.name, self.broker_url = name, (folder / "broker.url").read_text().strip()
        self.settings, self._profiles = settings, profiles
        self._clients = [NodeClient(cluster.socket, name, token) for _ in range(2)]
        self._lock = threading.Lock()
        self._claimed: list[str] = []
        self._acts = count()
        self.answers: Counter[str] = Counter()
        """What the gateway has answered, by act and status."""

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()

    def beat(self) -> None:
        """Send a heartbeat that claims that the node works and holds every run that it has ever claimed."""
        with self._lock:
            held = self._claimed[-8192:]
        client = self._clients[0]
        said = {
            "capacity": 4,
            "ready": True,
            "version": __version__,
            "profiles": self._profiles,
            "runs": held,
        }
        self._note("beat", client.ask("PUT", "", said)[0])
        for bad in ({**said, "capacity": 10**9}, {**said, "runs": ["x"] * 10_000}, ["garbage"], None):
            self._note("bad beat", client.ask("PUT", "", bad)[0])
        time.sleep(1)

    def take(self) -> None:
        """Take messages, and misuse each one in a different way."""
        until = time.monotonic() + 30
        with (
            Connection(self.broker_url) as connection,
            _consumer(connection, self._taken, PREFETCHED),
        ):
            while time.monotonic() < until:
                with suppress(TimeoutError):
                    connection.drain_events(timeout=1)

    def _taken(self, body: Any, message: Any) -> None:
        act = (self._keep, self._forge, self._lie, self._lose)[next(self._acts) % 4]
        act(body[1])
        message.ack()

    def _claim(self, said: dict[str, str]) -> dict[str, Any] | None:
        guess = {**said, "ticket": "A" * 43}
        self._note("claim without a ticket", self._clients[1].claim(guess)[0])
        status, claimed = self._clients[1].claim(said)
        self._note("claim", status)
        if status != 200:
            return None
        with self._lock:
            self._claimed.append(said["attempt"])
        return dict(claimed)

    def _keep(self, said: dict[str, str]) -> None:
        """Claim a run and never answer."""
        self._claim(said)

    def _forge(self, said: dict[str, str]) -> None:
        """Forge a verdict."""
        claimed = self._claim(said)
        if claimed is not None:
            self._note("forged verdict", self._clients[1].bring(said["attempt"], claimed)[0])

    def _lie(self, said: dict[str, str]) -> None:
        """Claim a run and answer with malformed verdicts, then not at all."""
        claimed = self._claim(said)
        if claimed is None:
            return
        client, path = self._clients[1], f"/runs/{said['attempt']}/{claimed['run']}"
        forged = verdict_of(said["attempt"], claimed)
        self._note("other id", client.bring(said["attempt"], claimed, id=FOREIGN)[0])
        self._note("garbage", client.ask("PUT", f"{path}/verdict", {"attempt": [[]], "files": "x"})[0])
        self._note("foreign run", client.ask("PUT", f"/runs/{FOREIGN}/1/verdict", forged)[0])
        self._note("other run", client.ask("PUT", f"/runs/{said['attempt']}/2/verdict", forged)[0])
        self._note("oversize", client.ask("POST", f"{path}/events", {"events": ["x" * 2**20] * 24})[0])

    def _lose(self, said: dict[str, str]) -> None:
        """Claim a run and report it as lost."""
        claimed = self._claim(said)
        if claimed is not None:
            path = f"/runs/{said['attempt']}/{claimed['run']}/verdict"
            self._note("lost", self._clients[1].ask("PUT", path, {"lost": True, "reason": "x"})[0])

    def _note(self, act: str, status: int) -> None:
        self.answers[f"{act}: {status}"] += 1


@contextmanager
def captured_node(cluster: WholeCluster, name: str, profiles: dict[str, str]) -> Iterator[CapturedNode]:
    """Have a captured node attack while the body runs."""
    node = CapturedNode(cluster, name, profiles)
    with repeating(node.beat, node.take):
        yield node
    node.close()


class Thief:
    """A program with a stolen broker account: it takes messages, and holds or acknowledges them."""

    def __init__(self, url: str, most: int, *, acknowledges: bool) -> None:
        self._url, self._most, self._acknowledges = url, most, acknowledges
        self.taken = 0
        self.cut_off = False

    def take(self) -> None:
        """Take messages until the connection ends."""

        def hold(_: object, message: Any) -> None:
            self.taken += 1
            if self._acknowledges:
                message.ack()

        with Connection(self._url) as connection:
            try:
                with _consumer(connection, hold, self._most):
                    while True:
                        with suppress(TimeoutError):
                            connection.drain_events(timeout=1)
            except (AMQPError, OSError):
                self.cut_off = True
            finally:
                connection.collect()

    def comes_in_again(self) -> bool:
        """Return whether the broker still accepts the account."""
        with Connection(self._url) as connection:
            try:
                connection.connect()
            except AccessRefused:
                return False
            finally:
                connection.collect()
        return True


@contextmanager
def taking_messages(url: str, *, most: int, acknowledges: bool = False) -> Iterator[Thief]:
    """Have a thief take messages until it is cut off; `most` is its prefetch limit."""
    thief = Thief(url, most, acknowledges=acknowledges)
    thread = threading.Thread(target=thief.take, daemon=True)
    thread.start()
    yield thief


def _consumer(connection: Connection, taken: Callable[..., object], most: int) -> Consumer:
    queue = Queue("assayd.attempts", Exchange("assayd", type="direct", no_declare=True), no_declare=True)
    return Consumer(connection.channel(), [queue], callbacks=[taken], accept=["json"], prefetch_count=most)


def profiles_of(cluster: WholeCluster) -> dict[str, str]:
    """Return the digests of the gateway's profiles."""
    listed = cluster.client.policies()["policies"]
    return {str(policy["name"]): str(policy["digest"]) for policy in listed}
