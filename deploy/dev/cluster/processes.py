"""Servers and programs of a cluster on one machine: started, looked after, ended; and how that is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
AGAIN_S = 1.0
"""How long until what has died is started again."""


class Broken(Exception):
    """The cluster cannot be started; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that a script of ours starts, in a folder."""

    name: str
    script: Path
    folder: Path
    pid_file: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start it, unless it runs."""
        self.run("start")

    def stop(self) -> None:
        """End it."""
        self.run("stop")

    def run(self, *verb: str) -> str:
        """Have the script do something; return what it printed."""
        return run([self.script, verb[0], self.folder, *verb[1:]], **self.settings)

    def alive(self) -> bool:
        """Return whether its process is there."""
        with suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{int(self.pid_file.read_text().split()[0])}/status").read_text()
            return "State:\tZ" not in status
        return False


class Part:
    """One of our own programs, which is started again when it ends unasked."""

    def __init__(
        self, name: str, command: list[str | Path], folder: Path, settings: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.command = list(map(str, command))
        own = {key: value for key, value in os.environ.items() if not key.startswith(("ASSAYD_", "DOCKER_"))}
        self.environment = {**own, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._due = 0.0

    def start(self) -> None:
        """Start it, once what ran before has ended."""
        if self._process is not None:
            self._process.wait()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "--", *self.command],
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def look_after(self) -> None:
        """Start it again when it has ended."""
        if self._process is None or self._process.poll() is None:
            return
        if not self._due:
            say(f"{self.name} ended ({self._process.returncode}); it is started again; its log is {self.log}")
            self._due = time.monotonic() + AGAIN_S
        elif time.monotonic() >= self._due:
            self._due = 0.0
            self.start()

    def ended(self) -> bool:
        """Return whether it does not run."""
        return self._process is None or self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self._process is not None:
            self._process.send_signal(number)

    def end(self, within_s: float) -> None:
        """Tell it to end, and make it end."""
        for number, wait_s in ((signal.SIGTERM, within_s), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            if self._process is None or self._process.poll() is not None:
                return
            self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(wait_s)


def say(text: str) -> None:
    """Tell whoever started the cluster."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    began = time.monotonic()
    say(f"{what} …")
    yield
    say(f"{what}: {time.monotonic() - began:.1f} s")


def run(command: list[str | Path], **settings: str) -> str:
    """Run a program to its end and return what it printed. Raises: Broken."""
    ran = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **settings},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if ran.returncode:
        shown = " ".join(Path(word).name for word in map(str, command[:3]))
        raise Broken(f"{shown} failed ({ran.returncode}):\n{(ran.stderr or ran.stdout).strip()[-3000:]}")
    return ran.stdout


def secret(path: Path, text: str) -> str:
    """Write a secret where its owner alone can read it; return where."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    return str(path)
