"""Records of containers in a folder, which are kept if the daemon exits.

A container's record is written before its control group is created, so that the reaper finds all leftovers.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

log = structlog.get_logger()

_NAME = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)
_RECORD = "record.json"
_OLD_S = 600.0
"""Seconds after which no daemon is still writing a record or removing the files next to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A container's record: its labels, its control groups (see `cgroup.ControlGroup`), its image's digest.

    `daemon` is the mark of the container's daemon (see `making`); earlier versions wrote no mark.
    """

    name: str
    labels: Mapping[str, str]
    cgroup_version: int
    cgroups: Mapping[str, str]
    image: str
    first_uid: int
    other_cgroups: Sequence[str] = ()
    daemon: str = ""


class Records:
    """The records in a folder that all daemons of the same user on this host share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folder_of(self, name: str) -> Path:
        """Return the folder of a container, which contains its bundle, runtime state, process file and log.

        Raises: ValueError, if the name isn't a plain word.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} isn't a container name")
        return self._folder / name

    def write(self, record: Record) -> Path:
        """Create the container's folder with its record; return the folder."""
        self._folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder = self.folder_of(record.name)
        folder.mkdir(mode=0o700)
        fresh = folder / "record.new"
        fresh.write_text(json.dumps(asdict(record)), encoding="utf-8")
        fresh.replace(folder / _RECORD)
        return folder

    def read(self, name: str) -> Record | None:
        """Return a record; None if it is missing or has the format of another version."""
        try:
            return Record(**json.loads((self.folder_of(name) / _RECORD).read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            log.warning("container.record_unreadable", container=name)
            return None

    def remove(self, name: str) -> None:
        """Remove a container's folder, if it exists."""
        folder = self.folder_of(name)
        with suppress(OSError):
            (folder / _RECORD).unlink()
            folder.rmdir()  # If the runtime never started, the folder contained nothing else.
            return
        shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, now: float) -> None:
        """Remove old folders without a record, which remain if a daemon is killed while it writes a record.

        A container's record is written before its other parts exist; therefore, a folder without a record
        has no owner.
        """
        for folder in self._folder.glob("*"):
            with suppress(OSError):
                if now - folder.stat().st_mtime > _OLD_S and not (folder / _RECORD).exists():
                    shutil.rmtree(folder, ignore_errors=True)

    def is_old(self, name: str, now: float) -> bool:
        """Return whether a container's folder is so old that all steps of the container must have ended."""
        try:
            return now - self.folder_of(name).stat().st_mtime > _OLD_S
        except FileNotFoundError:
            return False

    def all(self) -> Iterator[Record]:
        """Yield every record of this host."""
        for path in sorted(self._folder.glob(f"*/{_RECORD}")):
            record = self.read(path.parent.name)
            if record is not None:
                yield record
