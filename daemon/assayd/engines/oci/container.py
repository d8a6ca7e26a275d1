"""One container of the OCI engine, and what differs between it and what was asked for."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

from assayd.engines.oci.cgroup import ControlGroup
from assayd.engines.oci.config import HostShare, configuration, resources, while_starting
from assayd.engines.oci.images import StoredImage
from assayd.engines.oci.inspection import differences, observe
from assayd.engines.oci.process import PipeStream, Process
from assayd.engines.oci.records import Record
from assayd.ports.engine import ContainerSpec


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


def differences_made(container: OciContainer, spec: ContainerSpec) -> list[str]:
    """List what differs between a spec and what was made, before anything runs."""
    found = container.group.differences(while_starting(resources(spec)))
    bundle = json.loads((container.folder / "config.json").read_text(encoding="utf-8"))
    if bundle != configuration(spec, container.place):
        found.append("the runtime's configuration is another one")
    if dict(container.record.labels) != dict(spec.labels) or container.image.digest != spec.image_digest:
        found.append("labels or image are others")
    return found


def differences_running(process: Process, container: OciContainer) -> list[str]:
    """List what differs between a spec and what runs."""
    try:
        seen = observe(process.pid, container.place, container.image.root)
    except OSError:
        return ["its first process has ended"]
    # What was read was this process's if it lives now, as its number is its own until it has been waited for.
    if process.ended.is_set():
        return ["its first process has ended"]
    return [
        *differences(seen, container.spec, container.place),
        *container.group.differences(resources(container.spec)),
    ]
