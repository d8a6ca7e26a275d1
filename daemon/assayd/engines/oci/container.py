"""One container of the OCI engine, and what differs between it and what was asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from assayd.engines.oci.cgroup import ControlGroup
from assayd.engines.oci.config import HostShare, configuration, resources, while_starting
from assayd.engines.oci.control import Process
from assayd.engines.oci.images import StoredImage
from assayd.engines.oci.inspection import differences, namespaces_of, observe, shared_with
from assayd.engines.oci.process import PipeStream
from assayd.engines.oci.records import Record
from assayd.engines.oci.template_config import template_configuration
from assayd.ports.engine import ContainerSpec

HAS_ENDED = "its first process has ended"


@dataclass(slots=True, kw_only=True)
class OciContainer:
    """A container of this engine, from its creation to its removal."""

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

    @property
    def running(self) -> bool:
        """Whether its first process lives."""
        return self.process is not None and not self.process.ended.is_set()


def document(spec: ContainerSpec, place: HostShare) -> dict[str, object]:
    """Return the configuration that the runtime gets."""
    return template_configuration(spec, place) if place.children else configuration(spec, place)


def differences_made(container: OciContainer, spec: ContainerSpec) -> list[str]:
    """List what differs between a spec and what was made, before anything runs."""
    limits = resources(spec)
    cloned = bool(container.place.clone_uid)
    found = container.group.differences(limits if cloned else while_starting(limits))
    if not cloned:
        bundle = json.loads((container.folder / "config.json").read_text(encoding="utf-8"))
        if bundle != document(spec, container.place):
            found.append("the runtime's configuration is another one")
    if dict(container.record.labels) != dict(spec.labels) or container.image.digest != spec.image_digest:
        found.append("labels or image are others")
    return found


def differences_running(
    process: Process, container: OciContainer, beside: Mapping[str, int] | None = None
) -> list[str]:
    """List what differs between a spec and what runs.

    Args:
        process: its first process.
        container: what it is to be.
        beside: processes with which it must share no namespace: its template, and others of that.
    """
    try:
        seen = observe(process.pid, container.place, container.image.root)
    except OSError:
        return [HAS_ENDED]
    # What was read was this process's if it lives now, as its number is its own until it has been waited for.
    if process.ended.is_set():
        return [HAS_ENDED]
    return [
        *differences(seen, container.spec, container.place),
        *shared_with(seen, _namespaces(beside or {})),
        *container.group.differences(resources(container.spec)),
    ]


def _namespaces(processes: Mapping[str, int]) -> dict[str, Mapping[str, str]]:
    """Read what those are in that live: the kernel gives the numbers of the dead to others."""
    found: dict[str, Mapping[str, str]] = {}
    for name, pid in processes.items():
        with suppress(OSError):
            found[name] = namespaces_of(pid)
    return found
