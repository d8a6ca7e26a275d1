"""The real daemon as a separate process, for tests from outside."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

import httpx

from assayd.engines.docker import DockerEngine
from assayd.ports.engine import LABEL_CONTAINER, ContainerRef, Engine, OwnedContainer
from assayd_client import Document, PlainClient
from support.engines.oci import IMAGES, oci_engine

T = TypeVar("T")

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[3]
READY_WITHIN_S = 90.0
STOP_WITHIN_S = 60.0

EXECUTORS = {"EXECUTORS": os.environ["TESTS_EXECUTORS"]} if "TESTS_EXECUTORS" in os.environ else {}
"""The setting with which all daemons of tests run attempts in executors, if a variable demands it."""

running: list[DaemonProcess] = []
"""Every daemon that a test has made, so that its log can be shown beside a failure."""


def new_home() -> Path:
    """Create a folder with a path that is short enough for a socket."""
    return Path(tempfile.mkdtemp(prefix="assayd-", dir="/tmp"))


class DaemonProcess:
    """One daemon with a home of its own: socket, state, log. It may be started again and again.

    Args:
        engine: address of the container engine, or ``oci`` for containers without one.
        home: where all of it lies; a new folder unless given.
        state: its state directory; one below its home unless given.
        settings: more ``ASSAYD_*`` variables, without the prefix.
        program: what is run in the place of ``assayd``.
    """

    def __init__(
        self,
        engine: str,
        *,
        home: Path | None = None,
        state: Path | None = None,
        settings: Mapping[str, str] | None = None,
        program: Sequence[str | Path] = (BIN / "assayd",),
    ) -> None:
        self.home = home or new_home()
        self.socket = self.home / "s"
        self.state = state or self.home / "state"
        self._engine = engine
        self.program = program
        self.pass_fds: Sequence[int] = ()
        self.settings = {
            "SOCKET": str(self.socket),
            "STATE_DIR": str(self.state),
            **engine_settings(engine),
            "LOG__LEVEL": "debug",
            "ANALYSIS__WORKERS": "1",  # each takes half a second of processor time to start
            **EXECUTORS,
            **(settings or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.log = _Log()
        running.append(self)

    def spawn(self) -> None:
        """Start the process without waiting until it is ready."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
        environ |= {f"ASSAYD_{name}": value for name, value in self.settings.items()}
        self.process = subprocess.Popen(
            self.program,
            env=environ,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            pass_fds=self.pass_fds,
        )
        self.log.follow(self.process)

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self.spawn()
        self.log.wait_for("daemon.ready", READY_WITHIN_S)

    def stop(self) -> int:
        """Ask the daemon to stop; return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        """Kill the daemon, as a power cut would."""
        self.send(signal.SIGKILL)
        self.wait()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, within_s: float = STOP_WITHIN_S) -> int:
        """Wait until the daemon has ended; return its exit code."""
        assert self.process is not None
        code = self.process.wait(within_s)
        self.log.drain()
        return code

    def workers(self) -> list[int]:
        """Return the daemon's child processes."""
        assert self.process is not None
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def dispose(self) -> None:
        """Kill the daemon if it still runs, and remove everything that it left."""
        if self.alive:
            self.kill()
        self.remove_containers()
        shutil.rmtree(self.home)
        running.remove(self)

    def client(self) -> PlainClient:
        return PlainClient(self.socket)

    def http(self) -> httpx.Client:
        """Return a client that sends requests unchanged."""
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=False)  # reads no certificates
        return httpx.Client(transport=transport, base_url="http://assayd", timeout=60)

    def assay(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command line client."""
        environ = {**os.environ, "ASSAY_SOCKET": str(self.socket)}
        return subprocess.run(
            [BIN / "assay", *arguments], env=environ, capture_output=True, text=True, check=False, timeout=120
        )

    @property
    def daemon_id(self) -> str:
        return (self.state / "daemon-id").read_text().split()[0]

    def containers(self) -> Sequence[OwnedContainer]:
        """List the containers with this daemon's label, without going through a proxy."""
        if not (self.state / "daemon-id").exists():
            return ()
        return asyncio.run(_with_engine(self._engine, lambda engine: engine.list_owned(self.daemon_id)))

    def container_of(self, attempt_id: str) -> OwnedContainer:
        """Return the container of an attempt's latest run."""
        query = "SELECT container_ulid FROM runs WHERE attempt_id = ? ORDER BY run_number DESC"
        ulid = self.rows(query, attempt_id)[0]["container_ulid"]
        return next(each for each in self.containers() if each.labels[LABEL_CONTAINER] == ulid)

    def remove_containers(self) -> None:
        for container in self.containers():
            ref = ContainerRef(engine_id=container.engine_id, ulid="")
            asyncio.run(_with_engine(self._engine, partial(_remove, ref=ref)))

    def kill_container(self, container: OwnedContainer) -> None:
        """Kill a container without the daemon's knowledge."""
        ref = ContainerRef(engine_id=container.engine_id, ulid="")
        asyncio.run(_with_engine(self._engine, partial(_kill, ref=ref)))

    def rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        """Query the daemon's database."""
        with closing(sqlite3.connect(self.state / "assayd.db", timeout=10)) as database:
            database.row_factory = sqlite3.Row
            return database.execute(statement, values).fetchall()

    def bundle(self, attempt: Document) -> Path:
        """Return the folder of an attempt's bundle."""
        return self.state / "artifacts" / str(attempt["bundle"])


class _Log:
    """The lines that the daemon has written, across restarts."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._events: list[Document] = []
        """The event in each line; empty for one that is none."""
        self._changed = threading.Condition()
        self._reader: threading.Thread | None = None
        self._counts_from = 0
        self._ended = True

    def follow(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._counts_from, self._ended = len(self.lines), False
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                text = line.decode(errors="replace").rstrip()
                with self._changed:
                    self.lines.append(text)
                    self._events.append(_event(text))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until all output of an ended process has been read."""
        if self._reader is not None:
            self._reader.join(10)

    def forget(self) -> None:
        """Ignore everything that was logged before."""
        self._counts_from = len(self.lines)

    def events(self, name: str, **keys: object) -> list[Document]:
        """Return the events since `forget` with this name and these keys."""
        known = self._events[self._counts_from :]
        return [event for event in known if event.get("event") == name and event.items() >= keys.items()]

    def wait_for(self, name: str, timeout_s: float = 30.0, **keys: object) -> Document:
        """Wait until such an event is logged; return the first one."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self.events(name, **keys), timeout_s)
            found = self.events(name, **keys)
        assert found, f"no {name} {keys} in the log"
        return found[0]

    def wait_for_last(self, name: str, *, after: str, timeout_s: float = 30.0, **keys: object) -> None:
        """Wait until the last event with this name and these keys follows the last one named `after`."""

        def follows() -> bool:
            names = [event["event"] for event in self._events if event.items() >= keys.items()]
            return next((one for one in reversed(names) if one in {name, after}), None) == name

        with self._changed:
            assert self._changed.wait_for(follows, timeout_s), f"no {name} {keys} after {after} in the log"

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.lines[-lines:])


def _event(line: str) -> Document:
    """Return the event of a log line, or an empty document if there is none or a kill cut it off."""
    try:
        return dict(json.loads(line)) if line.startswith("{") else {}
    except ValueError:
        return {}


def engine_settings(engine: str) -> Mapping[str, str]:
    """Return the settings for an engine, which is an address or ``oci``."""
    if engine == "oci":
        return {"ENGINE__KIND": "oci", "ENGINE__IMAGES_DIR": str(IMAGES)}
    return {"ENGINE__KIND": "docker", "ENGINE__URL": engine}


async def _with_engine(address: str, act: Callable[[Engine], Awaitable[T]]) -> T:
    """Use an engine directly, without going through a proxy."""
    engine: Engine = oci_engine() if address == "oci" else DockerEngine(base_url=None)
    try:
        return await act(engine)
    finally:
        await engine.close()


async def _remove(engine: Engine, ref: ContainerRef) -> None:
    await engine.remove(ref)


async def _kill(engine: Engine, ref: ContainerRef) -> None:
    await engine.kill(ref)
