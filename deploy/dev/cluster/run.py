"""Runs a whole cluster on this machine, in the foreground: broker, database, gateway, nodes; and ends it.

    python deploy/dev/cluster/run.py start [--nodes N] [--gateways N] [--engine auto|docker|oci] [--dir DIR]
    python deploy/dev/cluster/run.py stop  [--dir DIR]

Each node has a state directory, a socket and a container engine of its own. What dies is started again, as by
a service manager. Secrets lie in files that their owner alone can read. Leaves to others: RabbitMQ and
PostgreSQL (their scripts beside this folder), certificates (certificates.py), tables and tokens (gateway).
"""

from __future__ import annotations

import argparse
import fcntl
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType

from processes import ROOT, Broken, Part, Server, run, say, secret, step

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
READY_WITHIN_S = 180.0
END_WITHIN_S = 40.0
STOP_WITHIN_S = 150.0
LOOK_S = 0.5


class Told(Exception):
    """A signal has come."""


class Cluster:
    """Everything that runs, and where."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        engine: str,
        broker: Mapping[str, str] | None = None,
        *,
        gateways: int = 1,
        address: str | None = None,
    ) -> None:
        self.folder = folder
        self.nodes = [f"node-{number}" for number in range(1, nodes + 1)]
        self.gateways = ["gateway", *(f"gateway-{number}" for number in range(2, gateways + 1))]
        self.engine = engine
        self.builds_images = True
        self.address_elsewhere = address
        """Address of this machine at which other machines reach gateway and broker; None: only loopback."""
        self.socket = folder / "gateway.sock"
        self.gateway_settings: dict[str, str] = {}
        self.broker = Server(
            name="RabbitMQ",
            script=HERE.parent / "rabbitmq.sh",
            folder=folder / "rabbitmq",
            pid_file=folder / "rabbitmq/pid",
            settings={"MANAGEMENT": "1", **self._broker_tls(), **(broker or {})},
        )
        self.database = Server(
            name="PostgreSQL",
            script=HERE.parent / "postgres.sh",
            folder=folder / "postgres",
            pid_file=folder / "postgres/data/postmaster.pid",
        )
        self.parts: dict[str, Part] = {}

    def start(self, ends: ExitStack) -> None:
        """Start everything; `ends` ends it. Raises: Broken."""
        names = [self.address_elsewhere] if self.address_elsewhere else []
        run([sys.executable, HERE / "certificates.py", self._folder("gateway"), *names])
        self._start_servers(ends)
        engines = self._start_engines(ends)
        ends.callback(self._end_parts)
        self._start_gateways()
        for name in self.nodes:
            self._start_daemon(name, engines[name])
            self._start_worker(name)
        with step(f"{len(self.nodes)} nodes"):
            self.wait("a node", lambda: self.ask("GET", "/readyz")[0] == 200)

    def _broker_tls(self) -> dict[str, str]:
        if self.address_elsewhere is None:
            return {}
        return {"TLS_ADDRESS": self.address_elsewhere, "TLS_FOLDER": str((self.folder / "gateway").resolve())}

    def look_after(self) -> None:
        """Start again what has died."""
        for server in (self.broker, self.database):
            if not server.alive():
                say(f"{server.name} ended; it is started again")
                server.start()
        for part in self.parts.values():
            part.look_after()

    def _start_servers(self, ends: ExitStack) -> None:
        servers = (self.broker, self.database)
        for server in servers:
            ends.callback(server.stop)
        with ThreadPoolExecutor() as pool, step("broker and database"):
            for started in [pool.submit(server.start) for server in servers]:
                started.result()

    def _start_engines(self, ends: ExitStack) -> dict[str, dict[str, str]]:
        """Return the settings by which each node's daemon finds its engine."""
        if self.engine == "oci":
            return self._without_docker()
        script, found = HERE.parent / "engine.sh", dict[str, dict[str, str]]()
        for name in self.nodes:
            state = {"ENGINE_DIR": str(self._folder(name).resolve() / "engine")}
            with step(f"container engine of {name}"):
                ends.callback(run, [script, "stop"], **state)
                try:
                    run([script, "start"], **state)
                except Broken as problem:
                    if self.engine == "docker":
                        raise
                    say(f"no Docker, so crun or runc itself: {problem}")
                    return self._without_docker()
                host = run([script, "socket"], **state).strip()
                docker = {"DOCKER_HOST": host}
                build = [BIN / "assay", "images", "build", "--cache", ROOT / ".run/cache/images"]
                run(build, **docker, ASSAYD_ENGINE__KIND="docker")
                found[name] = docker
        return found

    def _without_docker(self) -> dict[str, dict[str, str]]:
        self.engine = "oci"
        images = os.environ.get("ASSAYD_ENGINE__IMAGES_DIR") or str(ROOT / ".run/images")
        oci = {"ASSAYD_ENGINE__KIND": "oci", "ASSAYD_ENGINE__IMAGES_DIR": images}
        if self.builds_images:
            with step("images"):
                run([HERE.parent / "oci.sh", "install"])
                run([BIN / "assay", "images", "build", "--cache", ROOT / ".run/cache/images"], **oci)
        return dict.fromkeys(self.nodes, oci)

    def _start_gateways(self) -> None:
        """Start the gateways: they have tables, bundles and the address for other hosts in common."""
        folder = self._folder("gateway")
        owner = secret(folder / "owner.url", self.database.run("url", "owner").strip())
        own = self.database.run("url", "gateway").strip()
        self.address = f"127.0.0.1:{self._port()}"
        settings = {
            "ASSAYD_CLUSTER__DATABASE_URL_FILE": secret(folder / "database.url", own),
            "ASSAYD_CLUSTER__BROKER_URL_FILE": str(self.broker.folder / "gateway.url"),
            "ASSAYD_CLUSTER__BROKER_MANAGEMENT_URL_FILE": str(self.broker.folder / "management.url"),
            "ASSAYD_CLUSTER__LISTEN": self.address.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - other machines connect
            if self.address_elsewhere
            else self.address,
            "ASSAYD_CLUSTER__CERTIFICATE_FILE": str(folder / "gateway.pem"),
            "ASSAYD_CLUSTER__KEY_FILE": str(folder / "gateway.key"),
            "ASSAYD_CLUSTER__BUNDLES__DIRECTORY": str((folder / "state/artifacts").resolve()),
            **self.gateway_settings,
        }
        with step("tables"):
            run([BIN / "assayd-gateway", "--migrate", owner], ASSAYD_STATE_DIR=str(folder / "state"))
        with step(", ".join(self.gateways)):
            for name in self.gateways:
                own = {
                    "ASSAYD_SOCKET": str(self.folder / f"{name}.sock"),
                    "ASSAYD_STATE_DIR": str(self._folder(name) / "state"),
                }
                self._begin(name, [BIN / "assayd-gateway"], self.folder, {**settings, **own})
            for name in self.gateways:
                self.wait(name, lambda: self.ask("GET", "/healthz", gateway=name)[0] == 200)  # noqa: B023

    def _start_daemon(self, name: str, engine: Mapping[str, str]) -> None:
        folder = self._folder(name)
        own = {"ASSAYD_SOCKET": f"{folder}/assayd.sock", "ASSAYD_STATE_DIR": f"{folder}/state"}
        own |= engine
        in_place = [HERE.parent / "oci.sh", "run"] if self.engine == "oci" else []
        self._begin(f"{name}-daemon", [*in_place, BIN / "assayd"], folder, own)

    def _start_worker(self, name: str) -> None:
        self._begin(f"{name}-worker", [BIN / "assayd-node"], self._folder(name), self.worker_settings(name))

    def worker_settings(self, name: str) -> dict[str, str]:
        """Return the settings of a node's worker, with its own token and account of the broker."""
        folder = self._folder(name)
        token_file, broker_file = folder / "token", folder / "broker.url"
        if not token_file.exists():
            wanted = {"name": name, "tenant": "nodes", "scopes": ["node"], "node": name}
            status, said = self.ask("POST", "/v1/tokens", wanted)
            if status != 201:
                raise Broken(f"the gateway gives no token for {name}: {said}")
            secret(token_file, str(said["token"]))
            secret(broker_file, str(said["broker_url"]))
        return {
            "ASSAYD_NODE_NAME": name,
            "ASSAYD_NODE_GATEWAY": f"https://{self.address}",
            "ASSAYD_NODE_CA_FILE": str(self.folder / "gateway/ca.pem"),
            "ASSAYD_NODE_TOKEN_FILE": str(token_file),
            "ASSAYD_NODE_BROKER_URL_FILE": str(broker_file),
            "ASSAYD_NODE_SOCKET": f"{folder}/assayd.sock",
        }

    def _begin(self, name: str, command: list[str | Path], folder: Path, settings: Mapping[str, str]) -> None:
        part = self.parts[name] = Part(name, command, folder, settings)
        part.start()

    def wait(self, what: str, holds: Callable[[], bool], within_s: float = READY_WITHIN_S) -> None:
        """Wait until something holds while everything runs. Raises: Broken."""
        until = time.monotonic() + within_s
        while True:
            with suppress(OSError, http.client.HTTPException):
                if holds():
                    return
            for part in self.parts.values():
                if part.ended():
                    raise Broken(f"{part.name} has ended; the end of {part.log}:\n{tail(part.log)}")
            if time.monotonic() > until:
                logs = ", ".join(str(part.log) for part in self.parts.values())
                raise Broken(f"{what} is not ready after {within_s:g} s; logs: {logs}")
            time.sleep(0.1)

    def ask(
        self, method: str, path: str, document: object = None, *, gateway: str = "gateway"
    ) -> tuple[int, dict[str, object]]:
        """Ask a gateway on its Unix socket, as an operator."""
        with socket.socket(socket.AF_UNIX) as connected:
            connected.settimeout(20)
            connected.connect(str(self.folder / f"{gateway}.sock"))
            connection = http.client.HTTPConnection("gateway")
            connection.sock = connected
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def show(self) -> None:
        """Say where everything is."""
        own = self.folder
        sockets = ", ".join(f"{own}/{name}.sock" for name in self.gateways)
        say(f"ready: gateway on {sockets} and https://{self.address}, {', '.join(self.nodes)}")
        say(
            f"logs: {own}/gateway*.log, {own}/node-*/*.log; try: ASSAY_SOCKET={own}/gateway.sock assay doctor"
        )
        say("Ctrl-C, or make cluster-stop, ends all of it")

    def _end_parts(self) -> None:
        workers = [part for part in self.parts.values() if part.name.endswith("-worker")]
        others = [part for part in self.parts.values() if part not in workers]
        with step("ending workers, daemons, gateway"), ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda part: part.end(3.0), workers))
            list(pool.map(lambda part: part.end(END_WITHIN_S), others))

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _port(self) -> str:
        kept = self.folder / "port"
        while not kept.exists():
            with suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", port := random.randrange(10_000, 15_000)))  # noqa: S311  # no secret
                kept.write_text(str(port))
        return kept.read_text()


def tail(log: Path) -> str:
    """Return the end of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def stop(folder: Path) -> int:
    """End the cluster that runs in a folder, and wait until it is gone."""
    with suppress(OSError, ValueError):
        pid = int((folder / "pid").read_text())
        if str(Path(__file__).name) in Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + STOP_WITHIN_S
            while time.monotonic() < until and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
                time.sleep(0.1)
    # What a cluster has left that was killed.
    for script in ("rabbitmq", "postgres"):
        if (folder / script).exists():
            run([HERE.parent / f"{script}.sh", "stop", folder / script])
    for engine in folder.glob("node-*/engine"):
        run([HERE.parent / "engine.sh", "stop"], ENGINE_DIR=str(engine.resolve()))
    say("nothing of it runs")
    return 0


def start(cluster: Cluster) -> int:
    """Run a cluster until a signal comes. Raises: Broken."""
    folder = cluster.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if shutil.which("setpriv") is None:
        raise Broken("there is no setpriv (Debian: apt-get install util-linux)")
    with (folder / "pid").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Broken(f"a cluster runs in {folder} already: make cluster-stop") from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()

        def tell(number: int, frame: FrameType | None) -> None:
            for other in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(other, signal.SIG_IGN)  # ending is bounded in time
            raise Told

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, tell)
        with suppress(Told), ExitStack() as ends:
            cluster.start(ends)
            cluster.show()
            while True:
                time.sleep(LOOK_S)
                cluster.look_after()
    say("ended")
    return 0


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Run a whole cluster on this machine.")
    parser.add_argument("verb", choices=("start", "stop"))
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gateways", type=int, default=1)
    parser.add_argument("--engine", choices=("auto", "docker", "oci"), default="auto")
    parser.add_argument("--images-are-there", action="store_true", help="with --engine oci: build none")
    parser.add_argument("--dir", type=Path, default=ROOT / ".run/cluster")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    folder = chosen.dir.resolve()
    if folder.is_relative_to(ROOT):
        folder = folder.relative_to(ROOT)  # shorter: an address of a socket has 108 bytes
    try:
        if chosen.verb == "stop":
            return stop(folder)
        cluster = Cluster(folder, chosen.nodes, chosen.engine, gateways=chosen.gateways)
        cluster.builds_images = not chosen.images_are_there
        return start(cluster)
    except Broken as problem:
        say(str(problem))
        return 1


if __name__ == "__main__":
    sys.exit(main())
