"""A container of the OCI engine, and its differences from the requested one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from assayd.engines.oci.cgroup import ControlGroup
from assayd.engines.oci.config import HostShare, configuration, resources, startup_limits
from assayd.engines.oci.control import Process
from assayd.engines.oci.images import StoredImage
from assayd.engines.oci.inspection import Seen, differences, find_shared_namespaces, namespaces_of, observe
from assayd.engines.oci.process import PipeStream
from assayd.engines.oci.records import Record
from assayd.engines.oci.template_config import template_configuration
from assayd.ports.engine import ContainerSpec

HAS_ENDED = "its first process has ended"


@dataclass(slots=True, kw_only=True)
class OciContainer:
    """A container of this engine, from creation to removal."""

    spec: ContainerSpec
    record: Record
    group: ControlGroup
    place: HostShare
    image: StoredImage
    folder: Path
    claimed: bool = False
    process: Process | None = None
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
    def cloned(self) -> bool:
        """Return whether the container is cloned from a template."""
        return bool(self.place.clone_uid)

    def close_template_fds(self) -> None:
        """Close the descriptors for its template."""
        while self.handed:
            os.close(self.handed.pop())


def document(spec: ContainerSpec, place: HostShare) -> dict[str, object]:
    """Return the runtime's configuration of a container or template."""
    return template_configuration(spec, place) if place.children else configuration(spec, place)


def find_config_differences(container: OciContainer) -> list[str]:
    """Return the differences between a spec and the runtime's configuration, before anything is started."""
    found = container.group.differences(startup_limits(resources(container.spec)))
    bundle = json.loads((container.folder / "config.json").read_text(encoding="utf-8"))
    if bundle != document(container.spec, container.place):
        found.append("the runtime's configuration differs from the request")
    return found


def find_process_differences(
    process: Process, container: OciContainer, beside: Callable[[], Mapping[str, OciContainer]] = dict
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
        seen = observe(process.pid, container.place, container.image.root)
    except OSError:
        return [HAS_ENDED]
    # The data is this process's if it is still running: its process id can't be reused before it is reaped.
    if process.ended.is_set():
        return [HAS_ENDED]
    container.namespaces = seen.namespaces
    return [
        *differences(seen, container.spec, container.place),
        *_shared_namespaces(seen, beside()),
        *container.group.differences(resources(container.spec)),
    ]


def _shared_namespaces(seen: Seen, others: Mapping[str, OciContainer]) -> list[str]:
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
                living[name] = namespaces_of(each.process.pid)
    return find_shared_namespaces(seen, living)
