"""The identity by which a daemon knows its containers: bound to the state directory, not only to its content.

A copy of a state directory that is started beside the original must not take the original's containers for
leftovers of its own. So the file names the directory that it was written for, by device and inode; one that
was copied from elsewhere is replaced, and what carries the identity of before is left alone.
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
        if known[1:] == [place]:
            return Identity(daemon_id=known[0])
        # Written before places were recorded: it is taken for this directory's own.
        own = known[0] if len(known) == 1 else ids.new()
        fresh = path.with_suffix(".new")
        fresh.write_text(f"{own} {place}\n", encoding="ascii")
        fresh.replace(path)
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError("state.unusable", f"cannot use {path}: {problem}") from problem
    if len(known) < 2:
        return Identity(daemon_id=own)
    log.warning("state.copied", path=str(state_dir), daemon_id=own, copied_from=known[0])
    return Identity(daemon_id=own, copied_from=known[0])
