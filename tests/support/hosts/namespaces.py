"""Two network namespaces of the test's own, joined by a cable: a client's, and that of a host somewhere.

The addresses are of documentation ranges. Nothing leaves the two: they have no other device.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOST_4, HOST_6 = "203.0.113.10", "2001:db8::10"
CLIENT_4, _CLIENT_6 = "203.0.113.1", "2001:db8::1"
_CLONE_NEWNET = 0x40000000
_PLACE = Path("/run/netns")
_OURS = re.compile(r"assayd-(?:client|host)-(?P<pid>[0-9]+)")

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def cable() -> Iterator[tuple[str, str]]:
    """Create both namespaces; yield their names, the client's first."""
    sweep()
    client, host = (f"assayd-{side}-{os.getpid()}" for side in ("client", "host"))
    made = []
    try:
        for name in (client, host):
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("link", "add", "cable", "netns", client, "type", "veth", "peer", "name", "cable", "netns", host)
        for name, addresses in ((client, (CLIENT_4, _CLIENT_6)), (host, (HOST_4, HOST_6))):
            _ip("-n", name, "address", "add", f"{addresses[0]}/24", "dev", "cable")
            _ip("-n", name, "address", "add", f"{addresses[1]}/64", "dev", "cable", "nodad")
            _ip("-n", name, "link", "set", "cable", "up")
        yield client, host
    finally:
        for name in made:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)


@contextmanager
def tapped(tap: str) -> Iterator[str]:
    """Make one namespace in which a device leads to an emulated machine; give the namespace's name.

    This side has `HOST_4`, the machine may have `CLIENT_4`.
    """
    sweep()
    name = f"assayd-host-{os.getpid()}"
    _ip("netns", "add", name)
    try:
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "tuntap", "add", "dev", tap, "mode", "tap")
        _ip("-n", name, "address", "add", f"{HOST_4}/24", "dev", tap)
        _ip("-n", name, "link", "set", tap, "up")
        yield name
    finally:
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", name)


def sweep() -> None:
    """Remove the namespaces of killed test runs."""
    for name in (path.name for path in _PLACE.glob("assayd-*")):
        found = _OURS.fullmatch(name)
        if found is not None and not Path("/proc", found["pid"]).exists():
            with suppress(subprocess.CalledProcessError):  # another run of tests may sweep as well
                _ip("netns", "delete", name)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Create this thread's sockets in that namespace while the body runs."""
    own = Path("/proc/thread-self/ns/net")
    with own.open("rb") as here, (_PLACE / name).open("rb") as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(here.fileno())


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True, timeout=30)
