"""The default locations of the daemon's files, for root and for ordinary users."""

from __future__ import annotations

import os
from pathlib import Path


def get_default_state_dir() -> Path:
    """Return the default state folder of this user's daemon."""
    if os.environ.get("STATE_DIRECTORY"):  # created by the service manager: systemd.exec(5)
        return Path(os.environ["STATE_DIRECTORY"])
    if os.geteuid() == 0:
        return Path("/var/lib/assayd")
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "assayd"


def get_default_socket_path() -> Path:
    """Return the default path of the socket of this user's daemon."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() == 0 or not base:
        return Path("/run/assayd/assayd.sock")
    return Path(base) / "assayd" / "assayd.sock"


def get_default_run_dir() -> Path:
    """Return the default folder for data that is needed only while containers exist."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path("/run" if os.geteuid() == 0 or not base else base) / "assayd-oci"
