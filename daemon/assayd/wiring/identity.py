"""Determines the identity by which a daemon recognizes its containers.

The identity is bound to the state directory. A daemon with a copied state directory must not remove the
containers of a daemon that still uses the original directory. Therefore, the identity file records the
directory's device and inode; a copy gets a new identity, and containers with the former identity aren't
touched. The file contains the original's id until an operator acknowledges the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from assayd.clock import UlidGenerator
from assayd.errors import ConfigError

FILE = "daemon-id"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The id of a daemon and, if its state directory is a copy, the id of the original's daemon."""

    daemon_id: str
    copied_from: str | None = None


def determine_identity(state_dir: Path, ids: UlidGenerator) -> Identity:
    """Return the identity of a state directory. A new identity is created on first use and for a copy.

    Raises: ConfigError ``state.unusable``, if the file can't be read or written.
    """
    path = state_dir / FILE
    try:
        about = state_dir.stat()
        place = f"{about.st_dev}:{about.st_ino}"
        known = path.read_text(encoding="ascii").split() if path.exists() else []
        if known[1:2] == [place]:
            former = known[2] if len(known) > 2 else None
            identity = Identity(daemon_id=known[0], copied_from=former)
        else:
            # An identity without a recorded place, from an earlier version, is kept.
            own = known[0] if len(known) == 1 else ids.new()
            identity = Identity(daemon_id=own, copied_from=known[0] if len(known) > 1 else None)
            _write_identity(path, identity, place)
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError("state.unusable", f"can't use {path}: {problem}") from problem
    if identity.copied_from is not None:
        log.warning(
            "state.copied",
            path=str(state_dir),
            daemon_id=identity.daemon_id,
            copied_from=identity.copied_from,
        )
    return identity


def acknowledge_copy(state_dir: Path) -> str | None:
    """Delete the record that a state directory is a copy.

    Return the id of the original's daemon, or None if the directory isn't a copy.

    Raises: ConfigError ``state.unusable``, if the file can't be read or written.
    """
    path = state_dir / FILE
    try:
        known = path.read_text(encoding="ascii").split()
        if len(known) < 3:
            return None
        _write_identity(path, Identity(daemon_id=known[0]), known[1])
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError("state.unusable", f"can't use {path}: {problem}") from problem
    return known[2]


def _write_identity(path: Path, identity: Identity, place: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)  # never write through a link: root may acknowledge a copy
    words = (identity.daemon_id, place, identity.copied_from)
    with fresh.open("x", encoding="ascii") as opened:
        opened.write(" ".join(word for word in words if word is not None) + "\n")
    fresh.replace(path)
