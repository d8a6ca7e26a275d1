"""Which socket the daemon listens on, and who said so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SYSTEM_SOCKET = Path("/run/assayd/assayd.sock")


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketChoice:
    """The daemon's socket, and who said that it is that one."""

    path: Path
    source: str


def find_socket(named: str | None = None, environ: Mapping[str, str] = os.environ) -> SocketChoice:
    """Choose the daemon's socket: the one named, else `ASSAY_SOCKET`, else where a daemon usually listens."""
    if named:
        return SocketChoice(path=Path(named), source="--socket")
    if environ.get("ASSAY_SOCKET"):
        return SocketChoice(path=Path(environ["ASSAY_SOCKET"]), source="ASSAY_SOCKET")
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and os.geteuid() != 0:
        own = Path(runtime, "assayd", "assayd.sock")
        if own.exists() or not SYSTEM_SOCKET.exists():
            return SocketChoice(path=own, source="the default of this user")
    return SocketChoice(path=SYSTEM_SOCKET, source="the default")
