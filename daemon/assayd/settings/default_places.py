"""Where the daemon has its files unless the settings say otherwise: root's, and an ordinary user's."""

from __future__ import annotations

import os
from pathlib import Path


def state_dir() -> Path:
    """Return where the state of this user's daemon is."""
    if os.environ.get("STATE_DIRECTORY"):  # the service manager has made it: systemd.exec(5)
        return Path(os.environ["STATE_DIRECTORY"])
    if os.geteuid() == 0:
        return Path("/var/lib/assayd")
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "assayd"


def socket() -> Path:
    """Return where this user's daemon listens."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() == 0 or not base:
        return Path("/run/assayd/assayd.sock")
    return Path(base) / "assayd" / "assayd.sock"


def run_dir() -> Path:
    """Return where this user's daemons keep what lives no longer than containers."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path("/run" if os.geteuid() == 0 or not base else base) / "assayd-oci"
