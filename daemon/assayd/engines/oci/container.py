"""A container of the OCI engine, and its differences from the requested one.

Records of containers are kept in a folder if the daemon exits. A record is written before its control group
is created, so that the reaper finds all leftovers.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from assayd.engines.oci.cgroup import ControlGroup
from assayd.engines.oci.config import (
    ContainerHostConfig,
    build_configuration,
    compute_cgroup_limits,
    compute_startup_limits,
)
from assayd.engines.oci.images import StoredImage
from assayd.engines.oci.inspection import (
    ProcessFacts,
    find_differences,
    find_shared_namespaces,
    read_namespaces,
    read_process_facts,
)
from assayd.engines.oci.process import ContainerProcess, PipeStream
from assayd.engines.oci.template_config import build_template_configuration
from assayd.ports.engine import ContainerSpec

log = structlog.get_logger()

_NAME = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)
_RECORD = "record.json"
_OLD_S = 600.0
"""Seconds after which no daemon is still writing a record or removing the files next to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A container's record: its labels, control groups (see `cgroup.ControlGroup`) and image digest.

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


class ContainerRecords:
    """The records in a folder that all daemons of the same user on this host share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_container_folder(self, name: str) -> Path:
        """Return the folder of a container, which contains its bundle, runtime state, process file and log.

        Raises: ValueError, if the name isn't a plain word.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} isn't a container name")
        return self._folder / name

    def write(self, record: Record) -> Path:
        """Create the container's folder with its record, and return the folder."""
        self._folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder = self.get_container_folder(record.name)
        folder.mkdir(mode=0o700)
        fresh = folder / "record.new"
        fresh.write_text(json.dumps(asdict(record)), encoding="utf-8")
        fresh.replace(folder / _RECORD)
        return folder

    def read(self, name: str) -> Record | None:
        """Return a record, or None if it is missing or has the format of another version."""
        try:
            return Record(
                **json.loads((self.get_container_folder(name) / _RECORD).read_text(encoding="utf-8"))
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            log.warning("container.record_unreadable", container=name)
            return None

    def remove(self, name: str) -> None:
        """Remove a container's folder, if it exists."""
        folder = self.get_container_folder(name)
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
            return now - self.get_container_folder(name).stat().st_mtime > _OLD_S
        except FileNotFoundError:
            return False

    def all(self) -> Iterator[Record]:
        """Yield every record of this host."""
        for path in sorted(self._folder.glob(f"*/{_RECORD}")):
            record = self.read(path.parent.name)
            if record is not None:
                yield record


HAS_ENDED = "its first process has ended"


@dataclass(slots=True, kw_only=True)
class OciContainer:
    """A container of this engine, from creation to removal."""

    spec: ContainerSpec
    record: Record
    group: ControlGroup
    place: ContainerHostConfig
    image: StoredImage
    folder: Path
    claimed: bool = False
    process: ContainerProcess | None = None
    stream: PipeStream | None = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    handed: list[int] = field(default_factory=list)
    """Descriptors to pass to its template: control groups to join, and their mounts."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """The observed namespaces of its first process."""

    @property
    def running(self) -> bool:
        """Return whether the container's first process is running."""
        return self.process is not None and not self.process.ended.is_set()

    @property
    def is_cloned(self) -> bool:
        """Return whether the container is cloned from a template."""
        return bool(self.place.clone_uid)

    def close_template_fds(self) -> None:
        """Close the descriptors for its template."""
        while self.handed:
            os.close(self.handed.pop())


def build_container_configuration(spec: ContainerSpec, place: ContainerHostConfig) -> dict[str, object]:
    """Return the runtime's configuration of a container or template."""
    return build_template_configuration(spec, place) if place.children else build_configuration(spec, place)


def find_config_differences(container: OciContainer) -> list[str]:
    """Return the differences between a spec and the runtime's configuration, before anything is started."""
    found = container.group.differences(compute_startup_limits(compute_cgroup_limits(container.spec)))
    bundle = json.loads((container.folder / "config.json").read_text(encoding="utf-8"))
    if bundle != build_container_configuration(container.spec, container.place):
        found.append("the runtime's configuration differs from the request")
    return found


def find_process_differences(
    process: ContainerProcess,
    container: OciContainer,
    beside: Callable[[], Mapping[str, OciContainer]] = dict,
) -> list[str]:
    """Return the differences between a spec and the running process.

    Args:
        process: the first process of the container.
        container: the requested container.
        beside: returns the containers whose namespaces this container must not share: its template and
            siblings. It is called once this container's namespaces are known, so that at least one of two
            concurrent checks detects a conflict.
    """
    try:
        seen = read_process_facts(process.pid, container.place, container.image.root)
    except OSError:
        return [HAS_ENDED]
    # The data is this process's if it is still running: its process id can't be reused before it is reaped.
    if process.ended.is_set():
        return [HAS_ENDED]
    container.namespaces = seen.namespaces
    return [
        *find_differences(seen, container.spec, container.place),
        *_find_shared_namespaces(seen, beside()),
        *container.group.differences(compute_cgroup_limits(container.spec)),
    ]


def _find_shared_namespaces(seen: ProcessFacts, others: Mapping[str, OciContainer]) -> list[str]:
    """Return the namespaces that a process shares with other running containers.

    If a recorded namespace matches, it is read again, because the kernel reuses the numbers of namespaces
    that no longer exist.
    """
    known = {name: each.namespaces for name, each in others.items()}
    if not find_shared_namespaces(seen, known):
        return []
    living: dict[str, Mapping[str, str]] = {}
    for name, each in others.items():
        with suppress(OSError):
            if each.process is not None:
                living[name] = read_namespaces(each.process.pid)
    return find_shared_namespaces(seen, living)
