"""A booted system with a container engine, and optionally with assayd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.machines.machine import Machine, booted

ENGINE_SOCKET = """\
[Socket]
ListenStream=/run/docker.sock
SocketGroup=docker
SocketMode=0660
"""
ENGINE_SERVICE = """\
[Service]
ExecStart=/lib/systemd/systemd-socket-proxyd /mnt/engine.sock
"""
QUARTER = """\
def extract(path: str) -> dict:
    return {"client": path.split("/")[1]}
"""


@contextmanager
def with_engine(root: Path, scratch: Path, engine: str, *, reads: Sequence[str] = ()) -> Iterator[Machine]:
    """Boot a system in which this machine's engine appears as its own."""
    bind = f"{engine.removeprefix('unix://')}:/mnt/engine.sock"
    with booted(root, scratch, binds=[bind], reads=reads) as machine:
        machine.write("/etc/systemd/system/docker.socket", ENGINE_SOCKET)
        machine.write("/etc/systemd/system/docker.service", ENGINE_SERVICE)
        machine.sh("groupadd --system docker; systemctl daemon-reload; systemctl start docker.socket")
        machine.sh("useradd --create-home alice; useradd --create-home bob")
        machine.write("/tmp/extract.py", QUARTER)
        machine.run("chmod", "644", "/tmp/extract.py")
        yield machine


def install(machine: Machine, deb: Path) -> None:
    """Install the package, and give alice access."""
    machine.copy(deb, "/root/assayd.deb")
    machine.run("dpkg", "--install", "/root/assayd.deb", timeout_s=600)
    machine.run("usermod", "--append", "--groups", "assayd", "alice")
    wait_until_it_serves(machine)


def wait_until_it_serves(machine: Machine) -> None:
    """Wait until the daemon's status is "serving"; it is ready earlier, even if something is missing."""
    shown = "systemctl show --value --property=StatusText assayd.service"
    machine.sh(f"until {shown} | grep --quiet ^serving; do sleep 0.2; done")


def validate(machine: Machine, user: str = "alice") -> str:
    """Validate a good extractor; return the attempt's id."""
    done = machine.run(
        "assay", "validate", "extractor", "/tmp/extract.py", "--sample-path", "/acme/report.csv", user=user
    )
    assert "Validation: ✓ Passed" in done.stdout
    return done.stdout.split()[0]
