"""A whole cluster for tests, started like `make cluster`; its parts can be killed and stopped."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg

from assayd_client import PlainClient
from support.engines.oci import oci_engine
from support.hosts.namespaces import HOST_4, cable, inside

ROOT = Path(__file__).resolve().parents[3]
CONNECT_S = 5.0
"""How long a relay tries to reach the other end of a link that is cut."""


def _program() -> ModuleType:
    """Import the program that `make cluster` runs."""
    folder = ROOT / "deploy/dev/cluster"
    sys.path.insert(0, str(folder))
    try:
        found = importlib.util.spec_from_file_location("cluster_program", folder / "run.py")
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


class WholeCluster:
    """A cluster in its own folder."""

    def __init__(self, started: Any, folder: Path) -> None:
        self.started = started
        self.folder = folder
        self.socket = folder / "gateway.sock"
        self.client = PlainClient(self.socket)

    def part(self, name: str) -> Any:
        return self.started.parts[name]

    def send(self, names: tuple[str, ...], number: signal.Signals) -> None:
        """Send a signal to several programs at once."""
        for name in names:
            self.part(name).send(number)

    def restart(self, *names: str) -> None:
        """Restart programs that have ended, like a service manager."""
        for name in names:
            self.part(name).start()

    def kill_database(self) -> None:
        pid = int(self.started.database.pid_file.read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def kill_broker(self) -> None:
        self.started.broker.run("kill")

    def wait_until(self, what: str, holds: Callable[[], bool], within_s: float = 120.0) -> None:
        until = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < until, f"{what}: not within {within_s:g} s"
            time.sleep(0.2)

    def wait_for_nodes(self, names: set[str], *, since: float = 0.0, within_s: float = 120.0) -> None:
        """Wait until exactly these nodes take work, according to heartbeats after `since` (`time.time()`)."""
        self.wait_until(f"the nodes {names}", lambda: self._consuming(since) == names, within_s)

    def _consuming(self, since: float) -> set[str]:
        live = "beat_at > greatest(extract(epoch from clock_timestamp()) - 15, %s) * 1000000"
        found = self.rows(f"SELECT name FROM nodes WHERE consumes = 1 AND {live}", since)
        return {str(row[0]) for row in found}

    def versions(self) -> set[str]:
        """Return the versions of live gateways and nodes."""
        live = "beat_at > (extract(epoch from clock_timestamp()) - 15) * 1000000"
        both = " UNION ".join(f"SELECT version FROM {table} WHERE {live}" for table in ("nodes", "gateways"))
        return {str(row[0]) for row in self.rows(both)}

    def why(self, node: str) -> str:
        """Return the reason why a node takes no work."""
        return str(self.rows("SELECT why FROM nodes WHERE name = %s", node)[0][0])

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Query the cluster's database."""
        url = (self.folder / "gateway/database.url").read_text().strip().replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            return connection.execute(statement.encode(), values or None).fetchall()

    def verdicts(self, attempts: list[str]) -> int:
        """Count the recorded verdicts of these attempts."""
        return int(self.rows("SELECT count(*) FROM verdicts WHERE attempt_id = ANY(%s)", attempts)[0][0])

    def ended_at(self, attempts: list[str]) -> list[float]:
        """Return when the verdicts of these attempts were recorded."""
        found = self.rows("SELECT finished_at FROM verdicts WHERE attempt_id = ANY(%s)", attempts)
        return [micros / 1_000_000 for (micros,) in found]

    def began_at(self, since: float, until: float) -> list[float]:
        """Return the start times of runs in a period, in order."""
        statement = "SELECT leased_at FROM runs WHERE leased_at BETWEEN %s AND %s ORDER BY 1"
        found = self.rows(statement, int(since * 1_000_000), int(until * 1_000_000))
        return [micros / 1_000_000 for (micros,) in found]

    def ends(self, attempts: list[str]) -> int:
        """Count the events that report the end of these attempts."""
        statement = "SELECT count(*) FROM events WHERE kind = 'finished' AND attempt_id = ANY(%s)"
        return int(self.rows(statement, attempts)[0][0])

    def late_verdicts(self) -> int:
        """Count the late verdicts that the running gateway refused."""
        wanted = 'assayd_cluster_verdicts_total{outcome="late"} '
        lines = self.client.metrics().decode().splitlines()
        return sum(int(float(line.removeprefix(wanted))) for line in lines if line.startswith(wanted))

    def second_runs(self, attempts: list[str]) -> int:
        """Count the second runs of these attempts; a third run fails the test."""
        runs = self.rows("SELECT run_number FROM runs WHERE attempt_id = ANY(%s)", attempts)
        assert {number for (number,) in runs} <= {1, 2}
        return sum(number == 2 for (number,) in runs)

    def nodes_of(self, attempts: list[str]) -> set[str]:
        """Return the nodes that had runs of these attempts."""
        return {
            str(row[0])
            for row in self.rows("SELECT daemon_id FROM runs WHERE attempt_id = ANY(%s)", attempts)
        }

    def wait_for_work(self, node: str, *, since: float = 0.0) -> None:
        """Wait until a node holds two runs that were claimed after `since` and more than 0.3 s ago."""
        statement = (
            "SELECT count(*) FROM runs JOIN dispatches USING (attempt_id) "
            "WHERE daemon_id = %s AND leased_at > %s * 1000000 "
            "AND leased_at < (extract(epoch from clock_timestamp()) - 0.3) * 1000000"
        )
        self.wait_until(f"work in the hands of {node}", lambda: self.rows(statement, node, since)[0][0] >= 2)

    def wait_for_gateway(self) -> None:
        """Wait until the gateway is ready."""

        def answers() -> bool:
            with suppress(OSError):
                return bool(self.started.ask("GET", "/readyz")[0] == 200)
            return False

        self.wait_until("the gateway", answers)

    def unfinished(self) -> int:
        """Count the attempts in the outbox, and those without a verdict at any daemon."""
        count = int(self.rows("SELECT count(*) FROM dispatches")[0][0])
        for path in self.folder.glob("node-*/state/assayd.db"):
            with closing(sqlite3.connect(path, timeout=10)) as database:
                statement = "SELECT count(*) FROM attempts WHERE id NOT IN (SELECT attempt_id FROM verdicts)"
                count += database.execute(statement).fetchone()[0]
        return count

    def containers(self) -> int:
        """Count the containers of the nodes' daemons."""
        engine, count = oci_engine(), 0
        for identity in self.folder.glob("node-*/state/daemon-id"):
            count += len(asyncio.run(engine.list_owned(identity.read_text().strip())))
        return count


def processes_of(folder: Path) -> list[tuple[int, str]]:
    """Return the processes of the cluster in a folder, with their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = ((process / name).read_bytes() for name in ("cmdline", "environ"))
            if folder.name.encode() in line + environment:
                found.append((int(process.name), line.replace(b"\0", b" ").decode()))
        except OSError:
            continue
    return [(pid, line) for pid, line in found if line.strip()]


class Link:
    """The only network link between a node and the rest of its cluster."""

    def __init__(self, host: str) -> None:
        self._host = host

    def cut(self) -> None:
        """Drop all packets in both directions, without closing connections."""
        self._set("down")

    def heal(self) -> None:
        self._set("up")

    def _set(self, state: str) -> None:
        subprocess.run(["ip", "-n", self._host, "link", "set", "cable", state], check=True, timeout=30)


@contextmanager
def cut_off(cluster: WholeCluster, node: str) -> Iterator[Link]:
    """Put a node's worker into a network namespace of its own while the body runs; gives the link to it.

    Its broker and gateway stay where they were for it, on loopback: what goes there goes over the link.
    """
    worker, started = cluster.part(f"{node}-worker"), cluster.started
    command = worker.command
    broker = (started.broker.folder / "node.url").read_text().strip()
    ports = [int(broker.rpartition(":")[2].partition("/")[0]), int(started.address.rpartition(":")[2])]
    with cable() as (inner, host), ExitStack() as relays:
        for port in ports:
            far = relays.enter_context(_relay((HOST_4, 0), host, ("127.0.0.1", port), None))
            relays.enter_context(_relay(("127.0.0.1", port), inner, far, inner))
        worker.command = ["nsenter", f"--net=/run/netns/{inner}", "--", *command]
        worker.end(30)
        worker.start()
        try:
            yield Link(host)
        finally:
            worker.command = command
            worker.end(30)
            worker.start()


Address = tuple[str, int]


@contextmanager
def _relay(near: Address, at: str, far: Address, by: str | None) -> Iterator[Address]:
    """Forward connections from an address in the namespace `at`, through the namespace `by` if it is set."""
    with inside(at):
        listener = socket.create_server(near)
    threading.Thread(target=_accept, args=(listener, far, by), daemon=True).start()
    try:
        yield listener.getsockname()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(listener: socket.socket, to: Address, by: str | None) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        try:
            with inside(by) if by else nullcontext():
                far = socket.create_connection(to, timeout=CONNECT_S)
        except OSError:
            near.close()
            continue
        far.settimeout(None)
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    source.close()


@contextmanager
def whole_cluster(
    nodes: int = 2,
    *,
    gateways: int = 1,
    gateway_settings: Mapping[str, str] | None = None,
    address: str | None = None,
    **settings: str,
) -> Iterator[WholeCluster]:
    """Run a cluster while the body runs, on the OCI engine; nothing of it is left.

    Args: `settings` are the broker's; `address` is that of this machine for nodes on other machines.
    """
    program = _program()
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir="/tmp"))
    began = time.monotonic()
    try:
        with ExitStack() as ends:
            started = program.Cluster(folder, nodes, "oci", settings, gateways=gateways, address=address)
            started.gateway_settings.update(gateway_settings or {})
            started.builds_images = False  # they are there: the daemons of other tests have them
            started.start(ends)
            program.say(f"started in {time.monotonic() - began:.1f} s")
            cluster = WholeCluster(started, folder)
            yield cluster
        assert processes_of(folder) == []
        assert cluster.containers() == 0
    except BaseException:
        for log in sorted(folder.rglob("*.log")):
            program.say(f"the end of {log}:\n{program.tail(log)}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
