"""The identity by which a daemon knows its containers: bound to the state directory, not only to its content.

A copy of a state directory that is started beside the original must not take the original's containers for
leftovers of its own. So the file names the directory that it was written for, by device and inode; one that
was copied from elsewhere is replaced, and what carries the identity of before is left alone. Whose copy it is
stays in the file until somebody acknowledges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from assayd.errors import ConfigError
from assayd.ids import Ulids

FILE = "daemon-id"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A daemon's id, and the id that a copied state directory came with, else None."""

    daemon_id: str
    copied_from: str | None = None


def identify(state_dir: Path, ids: Ulids) -> Identity:
    """Return the identity of a state directory; one is made at its first use, and for a copy of another.

    Raises: ConfigError ``state.unusable``, when the file cannot be read or written.
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
            # Written before places were recorded: it is taken for this directory's own.
            own = known[0] if len(known) == 1 else ids.new()
            identity = Identity(daemon_id=own, copied_from=known[0] if len(known) > 1 else None)
            _write(path, identity, place)
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
    """Say no more whose copy a state directory is; give whose it was, None when it was nobody's.

    Raises: ConfigError ``state.unusable``.
    """
    path = state_dir / FILE
    try:
        known = path.read_text(encoding="ascii").split()
        if len(known) < 3:
            return None
        _write(path, Identity(daemon_id=known[0]), known[1])
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError("state.unusable", f"can't use {path}: {problem}") from problem
    return known[2]


def _write(path: Path, identity: Identity, place: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)  # never write through a link: root may acknowledge a copy
    words = (identity.daemon_id, place, identity.copied_from)
    with fresh.open("x", encoding="ascii") as opened:
        opened.write(" ".join(word for word in words if word is not None) + "\n")
    fresh.replace(path)
