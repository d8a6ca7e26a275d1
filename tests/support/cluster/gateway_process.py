"""A gateway with a cluster behind it, in place of a daemon, so that tests of the daemon run unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg.rows import dict_row

from assayd.ports.engine import OwnedContainer
from assayd_client import Document
from assayd_cluster.bundles.packed import SUFFIX
from support.cluster.broker import Broker
from support.daemons.daemon_process import READY_WITHIN_S, DaemonProcess
from support.stores.postgres import ROOT, PostgresServer

QUEUES = [f"assayd.attempts.{number}" for number in range(8)]
"""More than there are clusters at once: none gets messages of another that lives."""
_OF_THE_HOST = ("ENGINE__", "POOL__", "ANALYSIS__", "CAPS__", "POLICY_FOLDERS", "CONCURRENCY", "VALIDATORS")
"""Settings of a daemon that a gateway's host has too."""
_NODE = "node-1"


class Servers:
    """The database and the broker of all clusters in this process."""

    def __init__(self, postgres: PostgresServer, broker: Broker) -> None:
        self.postgres = postgres
        self.broker = broker
        self._free = list(QUEUES)

    def take_queue(self) -> str:
        """Return a queue that no other cluster uses, because a node answers for everything in its queue."""
        return self._free.pop(0)

    def give_back_queue(self, queue: str) -> None:
        """Return a queue to the pool for other clusters."""
        self._free.append(queue)


class GatewayProcess(DaemonProcess):
    """A gateway, with a database of its own, before one node on the OCI engine.

    What is done to the daemon, is done to the gateway: ended, killed, started again. The host's daemon and
    worker live from the first start to `dispose`.
    """

    servers: ClassVar[Servers]

    def __init__(
        self, engine: str, *, state: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        program = (sys.executable, "-m", "assayd_cluster.gateway")
        super().__init__(engine, state=state, settings=settings, program=program)
        self.host = DaemonProcess("oci")
        self._worker: subprocess.Popen[bytes] | None = None
        self._database: AbstractContextManager[str] = self.servers.postgres.empty_database()
        self._url = self._database.__enter__()
        self._queue = self.servers.take_queue()
        self.settings |= {
            "CLUSTER__DATABASE_URL_FILE": self._secret("database.url", self._url),
            "CLUSTER__BROKER_URL_FILE": str(self.servers.broker.url_file("gateway")),
            "CLUSTER__QUEUE": self._queue,
        }

    def start(self) -> None:
        """Start the gateway, its node's daemon and worker; wait until a node takes work."""
        super().start()
        if not self.host.alive:
            own = {name: value for name, value in self.settings.items() if name.startswith(_OF_THE_HOST)}
            self.host.settings |= own
            self.host.start()
            self._start_worker()
        until = time.monotonic() + READY_WITHIN_S
        with self.http() as http:
            while "no node" in (answer := http.get("/readyz")).text:
                assert time.monotonic() < until, answer.text
                time.sleep(0.2)

    def _start_worker(self) -> None:
        wanted = {"name": _NODE, "tenant": "nodes", "scopes": ["node"], "node": _NODE}
        with self.http() as http:
            token = http.post("/v1/tokens", json=wanted).raise_for_status().json()["token"]
        settings = {
            "NAME": _NODE,
            "GATEWAY": f"http+unix://{self.socket}",
            "TOKEN_FILE": self._secret("token", token),
            "BROKER_URL_FILE": str(self.servers.broker.url_file("node")),
            "QUEUE": self._queue,
            "SOCKET": str(self.host.socket),
        }
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
        environ |= {f"ASSAYD_NODE_{name}": value for name, value in settings.items()}
        with (self.home / "worker.log").open("wb") as log:
            command = [sys.executable, "-m", "assayd_cluster.node"]
            self._worker = subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=ROOT)

    def _secret(self, name: str, text: str) -> str:
        path = self.home / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return str(path)

    def dispose(self) -> None:
        """Stop all processes, and remove everything that they left."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
        self.host.dispose()
        super().dispose()
        self._database.__exit__(None, None, None)
        self.servers.give_back_queue(self._queue)

    def containers(self) -> Sequence[OwnedContainer]:
        """List the containers of the node's daemon."""
        return self.host.containers()

    def container_of(self, attempt_id: str) -> OwnedContainer:
        """Return the container of an attempt's run on the node's daemon."""
        return self.host.container_of(attempt_id)

    def remove_containers(self) -> None:
        """Do nothing: the node's daemon removes its containers."""

    def kill_container(self, container: OwnedContainer) -> None:
        """Kill a container without the knowledge of the node's daemon."""
        self.host.kill_container(container)

    def bundle(self, attempt: Document) -> Path:
        """Return the folder of an attempt's bundle, unpacked next to the gateway's single file."""
        folder = super().bundle(attempt)
        packed = folder.with_name(folder.name + SUFFIX)
        if packed.exists() and not folder.exists():
            folder.mkdir()
            with tarfile.open(packed) as archive:
                for member in archive:
                    (folder / member.name).write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
        return folder

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Query the cluster's database."""
        url, text = self._url.replace("+psycopg", ""), statement.replace("?", "%s").encode()
        with psycopg.connect(url, row_factory=dict_row) as connection:
            return connection.execute(text, values or None).fetchall()


@contextmanager
def cluster_servers(postgres: PostgresServer) -> Iterator[None]:
    """Provide the servers for clusters while the body runs."""
    with tempfile.TemporaryDirectory(prefix="broker-", dir="/tmp") as folder:
        definitions = Path(folder, "several.json")
        definitions.write_text(json.dumps(_with_queues()))
        broker = Broker(Path(folder, "broker"), definitions=definitions)
        broker.start()
        try:
            GatewayProcess.servers = Servers(postgres, broker)
            yield
        finally:
            broker.kill()


def _with_queues() -> dict[str, Any]:
    """Return the broker's definitions with several queues for attempts instead of one."""
    made: dict[str, Any] = json.loads((ROOT / "deploy/rabbitmq/definitions.json").read_text())
    [attempts, undelivered], [binding] = made["queues"], made["bindings"]
    made["queues"] = [*({**attempts, "name": name} for name in QUEUES), undelivered]
    made["bindings"] = [{**binding, "destination": name, "routing_key": name} for name in QUEUES]
    made["permissions"][1]["read"] = r"^assayd\.attempts\.[0-9]$"
    return made
