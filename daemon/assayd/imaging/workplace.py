"""Provides folders for building images; each image is built by only one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assayd.imaging.packages import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFolders:
    """The folder of an image, a temporary folder inside it, and the progress callback."""

    folder: Path
    work: Path
    progress: Progress


@contextlib.contextmanager
def workplace(folder: Path, progress: Progress) -> Iterator[BuildFolders]:
    """Hold an exclusive lock on an image's folder for the duration of the `with` block."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder) as work:
            yield BuildFolders(folder=folder, work=Path(work), progress=progress)
