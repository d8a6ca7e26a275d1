"""A Debian system of its own that boots systemd, for tests of the installation. Root only.

What is written in it is gone when it is off: its root folder stays as it was made.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from assayd.imaging.packages import list_apt_sources

PACKAGES = ("systemd", "systemd-sysv", "python3", "python3-venv")
BOOT_WITHIN_S = 120.0
USUALLY_S = 180.0

Done = subprocess.CompletedProcess[str]


def make_root(folder: Path, more: Sequence[str] = ()) -> Path:
    """Make the root folder, or give the one that is there. Args: `more` packages that it has."""
    root = folder / "root"
    if not root.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sources = folder / "sources.list"
        sources.write_text("".join(f"{source.line}\n" for source in list_apt_sources()))
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--format=directory"]
        command += [f"--include={','.join((*PACKAGES, *more))}", "", str(folder / "new"), str(sources)]
        subprocess.run(command, check=True, timeout=1800)
        (folder / "new").rename(root)
    return root


class Machine:
    """A booted machine."""

    def __init__(self, nspawn: subprocess.Popen[bytes], leader: int) -> None:
        self._nspawn = nspawn
        self._leader = leader

    def run(
        self, *command: str | Path, user: str | None = None, check: bool = True, timeout_s: float = USUALLY_S
    ) -> Done:
        """Run a program in the machine, as root unless a user is named."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        enter = ["nsenter", f"--target={self._leader}", "--mount", "--uts", "--ipc", "--net", "--pid"]
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/"}
        whole = [*enter, "--wdns=/", "--", *as_user, *map(str, command)]
        done = subprocess.run(
            whole,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=environ,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.log()}"
            )
        return done

    def sh(
        self, script: str, *, user: str | None = None, check: bool = True, timeout_s: float = USUALLY_S
    ) -> Done:
        """Run a script in the machine."""
        command = ("bash", "-euo", "pipefail", "-c", script)
        return self.run(*command, user=user, check=check, timeout_s=timeout_s)

    def write(self, path: str, text: str) -> None:
        """Write a file in the machine."""
        place = Path(f"/proc/{self._leader}/root{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def copy(self, source: Path, path: str) -> None:
        Path(f"/proc/{self._leader}/root{path}").write_bytes(source.read_bytes())

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def log(self, unit: str = "assayd") -> str:
        return self.run("journalctl", "--no-pager", "-n", "15", "-u", unit, check=False).stdout

    def off(self) -> None:
        """Shut the machine down."""
        self._nspawn.send_signal(signal.SIGTERM)
        self._nspawn.wait(60)


@contextmanager
def booted(
    root: Path, scratch: Path, *, binds: Sequence[str] = (), reads: Sequence[str] = ()
) -> Iterator[Machine]:
    """Boot a system and shut it down at the end.

    Args:
        root: its root folder, which is not changed.
        scratch: a folder for its console's output.
        binds: ``SOURCE:TARGET``, what of this machine it sees.
        reads: the same, and it cannot write there.
    """
    command = ["systemd-nspawn", "--quiet", f"--directory={root}", "--volatile=overlay", "--boot"]
    command += ["--register=no", "--keep-unit", "--private-network", "--console=pipe", "--notify-ready=yes"]
    command += [f"--bind={bind}" for bind in binds] + [f"--bind-ro={bind}" for bind in reads]
    # Closed before anything else happens: what is told and not read would hold up the system.
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard,
        (scratch / "console").open("wb") as console,
    ):
        heard.bind(str(scratch / "ready"))
        heard.settimeout(BOOT_WITHIN_S)
        environ = {**os.environ, "NOTIFY_SOCKET": str(scratch / "ready")}
        nspawn = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environ
        )
        machine = Machine(nspawn, _hear_of_the_leader(heard))
    try:
        yield machine
    finally:
        machine.off()


def _hear_of_the_leader(heard: socket.socket) -> int:
    """Wait until the system has booted; return its first process, as a pid on this machine."""
    leader, ready = 0, False
    while not (leader and ready):
        for line in heard.recv(4096).decode().splitlines():
            name, _, value = line.partition("=")
            leader = int(value) if name == "X_NSPAWN_LEADER_PID" else leader
            ready = ready or line == "READY=1"
    return leader
