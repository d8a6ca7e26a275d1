"""`ports.engine.Engine` by an OCI runtime of this host, which is started directly: see the package.

A container is created by making its record, its control group and its bundle; the runtime runs when it is
started, and ends at once. Blocking calls run in separate threads.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from assayd.aio import finish
from assayd.engines.oci.config import LONG_RUN_WEIGHT
from assayd.engines.oci.container import HAS_ENDED, OciContainer, differences_made, differences_running
from assayd.engines.oci.images import ImageStore
from assayd.engines.oci.making import ContainerMaker, Ids, group_of
from assayd.engines.oci.process import PipeStream, make_pipes
from assayd.engines.oci.records import Record
from assayd.engines.oci.runtime import CANDIDATES
from assayd.engines.oci.templates import Templates
from assayd.engines.oci.threads import Threads
from assayd.errors import EngineError
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    Capabilities,
    ContainerRef,
    ContainerSpec,
    EndFacts,
    EngineInfo,
    ImageFacts,
    ListedImage,
    OwnedContainer,
)

_TRANSFER_TIMEOUT_S = 600.0


class OciEngine:
    """Containers by crun or runc on this host, as root or, by crun, as an ordinary user.

    Args:
        images: folder with unpacked images; engines may share it.
        run: folder of the records of live containers; all daemons of this host share it.
        threads: how many blocking steps may be under way at once.
        timeout_s: bound of every step but those that move whole images.
        runtimes: names and paths of runtimes, of which the first that is there is taken.
        templates: whether containers are cloned from templates, where they can be.
    """

    def __init__(
        self,
        *,
        images: Path,
        run: Path,
        threads: int = 8,
        timeout_s: float = 20.0,
        runtimes: Sequence[tuple[str, str]] = CANDIDATES,
        templates: bool = False,
    ) -> None:
        self._images = ImageStore(images)
        self._threads = Threads(threads, timeout_s)
        self._maker = ContainerMaker(images=self._images, run=run, threads=self._threads, runtimes=runtimes)
        self._records = self._maker.records
        self._containers: dict[str, OciContainer] = {}
        self._templates = Templates(self._maker, self._threads)
        self._templates.closed = not templates

    async def info(self) -> EngineInfo:
        """Return which runtime there is, and what it and this host can enforce.

        Raises: EngineError, which names the missing part.
        """
        host = await self._maker.known_host()
        rights = "" if host.is_root else f", without root on {host.ids.count} user ids"
        return EngineInfo(
            name="oci",
            version=host.runtime.version,
            runtime=host.runtime.path,
            kernel=platform.release(),
            cgroup_version=host.hierarchy.version,
            warnings=host.warnings,
            mode=f"templates {self.templates}{rights}",
        )

    @property
    def templates(self) -> str:
        """Tell whether containers are cloned from templates: "on", "off", and what keeps some from it."""
        held = "off" if self._templates.closed else "on"
        return f"{held}: {self._templates.reason}" if self._templates.reason else held

    @property
    def clones(self) -> bool:
        """Whether containers are cloned from templates."""
        return not self._templates.closed

    @property
    def distrusted(self) -> str:
        """Return the fault of the first clone that ended its template and siblings, or an empty string."""
        return self._templates.distrusted

    async def give_up_templates(self, reason: str) -> None:
        """Let the runtime start every container from here on."""
        await self._templates.close(reason)

    def capabilities(self) -> Capabilities:
        """Return how this engine behaves."""
        return Capabilities(
            seccomp=True,
            tmpfs_owner=True,
            tmpfs_inodes=True,
            private_cgroup=True,
            facts_after_exit=True,
            pid1_immune=True,
            quick=self.clones,
        )

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Make everything that a container needs; it does not run yet."""
        host = await self._maker.known_host()
        image = self._images.verified(spec.image_digest)
        if image is None:
            image = await self._threads.run(self._images.get, spec.image_digest)
        name = spec.labels[LABEL_CONTAINER]
        if name in self._containers:
            raise EngineError("engine.name_taken", f"container {name} already exists")
        claimed = await self._templates.claim(spec, image)
        if name in self._containers:
            raise EngineError("engine.name_taken", f"container {name} already exists")
        ids = claimed[1] if claimed is not None else Ids(first_uid=self._maker.ranges.take())
        container = self._maker.plan(spec, image, host, ids)
        self._containers[name] = container
        if claimed is not None:
            self._templates.hold(claimed[0], container)
        try:
            await finish(self._maker.make(container), timeout_s=self._threads.timeout_s)
        except BaseException:
            await finish(self._discard(container), timeout_s=self._threads.timeout_s)
            raise
        return ContainerRef(engine_id=name, ulid=name)

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare the configuration with the request; the process itself before its first frame counts."""
        container = self._container(ref)
        found = [] if container.spec == spec else ["it belongs to another container"]
        if not container.cloned:  # of those there is nothing yet that is not compared once they run
            found += await self._threads.run(differences_made, container)
        if found:
            raise _mismatch(found)

    async def start(self, ref: ContainerRef) -> PipeStream:
        """Start the runtime with the daemon's pipes, so that no output of the runner is lost."""
        container = self._container(ref)
        ends, theirs = make_pipes()
        container.stream = PipeStream(partial(self._inspect, container))
        try:
            await container.stream.connect(ends)
            if container.cloned:
                await self._templates.clone(container, theirs)
            else:
                await self._maker.launch(container, theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return container.stream

    async def make_way(self, ref: ContainerRef) -> None:
        """Let a container that has run for long weigh less."""
        if (container := self._containers.get(ref.engine_id)) is not None:
            await self._threads.run(container.group.weigh, LONG_RUN_WEIGHT)

    async def kill(self, ref: ContainerRef) -> None:
        """End the container now, closing its stream first where the caller has not."""
        container = self._containers.get(ref.engine_id)
        if container is not None:
            await self._end(container)
        elif (record := await self._threads.run(self._records.read, ref.engine_id)) is not None:
            await self._threads.run(group_of(record).kill)

    async def remove(self, ref: ContainerRef) -> None:
        """End the container and remove all that was made for it; when this returns it is gone."""
        container = self._containers.get(ref.engine_id)
        if container is None:
            await self._maker.remove_stranger(ref.engine_id)
            return
        async with container.changing:
            if self._containers.get(ref.engine_id) is not container:
                return
            await self._end(container)
            await self._discard(container)

    async def facts(self, ref: ContainerRef) -> EndFacts:
        """Return how a container ended; nothing of one that never ran or still runs."""
        container = self._container(ref)
        if container.process is None or container.running:
            return EndFacts(running=container.running, exit_code=None, oom_killed=None)
        kills = await self._threads.run(container.group.oom_kills)
        return EndFacts(running=False, exit_code=container.process.exit_code, oom_killed=kills > 0)

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """List every container that carries our daemon's label, running or not."""
        records = await self._threads.run(lambda: list(self._records.all()))
        return [
            OwnedContainer(engine_id=record.name, labels=record.labels, running=await self._runs(record))
            for record in records
            if record.labels.get(LABEL_DAEMON) == daemon_id and record.name not in self._templates.names
        ]

    async def image(self, name: str) -> ImageFacts:
        """Look an image up by name or digest; its files are verified the first time."""
        return await self._threads.run(self._images.find, name, timeout_s=_TRANSFER_TIMEOUT_S)

    async def load_image(self, archive: Path) -> ImageFacts:
        """Unpack an image archive as `imaging` packs it."""
        return await self._threads.run(self._images.load, archive, timeout_s=_TRANSFER_TIMEOUT_S)

    async def list_images(self) -> Sequence[ListedImage]:
        """List the images that names stand for."""
        return await self._threads.run(self._images.listed, timeout_s=_TRANSFER_TIMEOUT_S)

    async def remove_image(self, name: str) -> None:
        """Let a name stand for no image; what no engine uses is removed."""
        await self._threads.run(self._images.forget, name, timeout_s=_TRANSFER_TIMEOUT_S)

    async def image_file(self, name: str, path: str, most_bytes: int) -> bytes:
        """Return a regular file of an image."""
        read = partial(self._images.file, name, path, most_bytes)
        return await self._threads.run(read, timeout_s=_TRANSFER_TIMEOUT_S)

    async def close(self) -> None:
        """End the launcher with every container that is left, and release threads and locks."""
        for container in self._containers.values():
            if container.stream is not None:
                await container.stream.close()
        await self._templates.close("the engine was closed")
        self._maker.close()
        self._threads.close()
        self._images.close()

    async def _end(self, container: OciContainer) -> None:
        try:
            await self._maker.end(container)
        except EngineError:
            self._templates.renew(container)
            raise

    async def _discard(self, container: OciContainer) -> None:
        await self._maker.discard(container)
        if container.cloned:
            await self._templates.release(container)
        else:
            self._maker.ranges.give_back(container.place.first_uid)
        self._containers.pop(container.record.name, None)

    async def _inspect(self, container: OciContainer) -> None:
        """Compare the running process with the request.

        Raises: EngineError ``engine.mismatch``.
        """
        process = container.process
        if process is None:
            raise _mismatch(["it sent data before it was started"])
        template = self._templates.of(container.record.name)
        beside = partial(template.beside, container) if template is not None else dict
        found = await self._threads.run(differences_running, process, container, beside)
        if found:
            mismatch = _mismatch(found)
            if found != [HAS_ENDED]:  # one that was killed meanwhile says nothing of its template
                self._templates.distrust(container, mismatch.message)
            raise mismatch
        self._templates.trust(container)

    async def _runs(self, record: Record) -> bool:
        container = self._containers.get(record.name)
        return container.running if container is not None else bool(group_of(record).pids())

    def _container(self, ref: ContainerRef) -> OciContainer:
        try:
            return self._containers[ref.engine_id]
        except KeyError:
            raise EngineError("container.missing", "the container no longer exists") from None


def _mismatch(found: Sequence[str]) -> EngineError:
    message = "the container differs from the request: " + "; ".join(found)
    return EngineError("engine.mismatch", message)
