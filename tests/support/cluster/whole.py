"""A whole cluster of the tests' own, as `make cluster` starts it; its parts can be killed and stopped."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from assayd.client import PlainClient
from support.engines.oci import oci_engine

ROOT = Path(__file__).resolve().parents[3]


def _program() -> ModuleType:
    """Load what `make cluster` runs."""
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
    """A cluster in a folder of its own."""

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
        """Start again what has ended, as a service manager does."""
        for name in names:
            self.part(name).start()

    def kill_database(self) -> None:
        pid = int(self.started.database.pid_file.read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def kill_broker(self) -> None:
        self.started.broker.run("kill")

    def wait_until(self, holds: Any, what: str, timeout_s: float = 60.0) -> None:
        self.started.wait(what, holds, timeout_s)

    def nodes(self) -> dict[str, bool]:
        """Return the nodes that live, and whether each takes work."""
        status, said = self.started.ask("GET", "/v1/nodes")
        assert status == 200, said
        return {node["name"]: bool(node["consumes"]) for node in said["nodes"] if node["alive"]}

    def containers(self) -> int:
        """Count the containers that the nodes' daemons have."""
        engine, count = oci_engine(), 0
        for identity in self.folder.glob("node-*/state/daemon-id"):
            count += len(asyncio.run(engine.list_owned(identity.read_text().strip())))
        return count

    def processes(self) -> list[str]:
        """List the processes that belong to this cluster, by what started them."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"{self.folder}".encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return [line for line in found if line.strip()]


@contextmanager
def whole_cluster(nodes: int = 2, **settings: str) -> Iterator[WholeCluster]:
    """Run a cluster while the body runs, on the OCI engine; nothing of it is left."""
    program = _program()
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir="/tmp"))
    began = time.monotonic()
    try:
        with ExitStack() as ends:
            started = program.Cluster(folder, nodes, "oci", settings)
            started.builds_images = False  # they are there: the daemons of other tests have them
            started.start(ends)
            program.say(f"started in {time.monotonic() - began:.1f} s")
            cluster = WholeCluster(started, folder)
            yield cluster
        assert cluster.processes() == []
        assert cluster.containers() == 0
    except BaseException:
        for log in sorted(folder.rglob("*.log")):
            program.say(f"the end of {log}:\n{program.tail(log)}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
