"""Implements `ports.engine.Engine` with an OCI runtime of this host, which it starts directly.

To create a container, this engine writes its record, control group and bundle. The runtime is run only to
start the container, then exits. Blocking calls run in separate threads.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from assayd.aio import run_cleanup
from assayd.engines.oci.config import LONG_RUN_CPU_WEIGHT
from assayd.engines.oci.container import (
    PROCESS_ENDED_MESSAGE,
    OciContainer,
    Record,
    find_config_differences,
    find_process_differences,
)
from assayd.engines.oci.host import RUNTIME_CANDIDATES
from assayd.engines.oci.images import ImageStore
from assayd.engines.oci.making import ContainerFactory, ContainerIds, ThreadRunner, open_control_group
from assayd.engines.oci.process import PipeStream, create_pipes
from assayd.engines.oci.templates import TemplatePool
from assayd.errors import EngineError
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    Capabilities,
    ContainerExitFacts,
    ContainerRef,
    ContainerSpec,
    EngineInfo,
    ImageFacts,
    ListedImage,
    OwnedContainer,
)

_TRANSFER_TIMEOUT_S = 600.0


class OciEngine:
    """An engine that runs containers with crun or runc, as root or (only with crun) as an ordinary user.

    Args:
        images: the folder of unpacked images; engines may share it.
        run: the folder of live containers' records; all daemons of this host share it.
        threads: the maximum number of concurrent blocking steps.
        timeout_s: the timeout of every step, except those that transfer whole images.
        runtimes: names and paths of runtimes; the first existing one is used.
        templates: whether to clone containers from templates if this is possible.
    """

    def __init__(
        self,
        *,
        images: Path,
        run: Path,
        threads: int = 8,
        timeout_s: float = 20.0,
        runtimes: Sequence[tuple[str, str]] = RUNTIME_CANDIDATES,
        templates: bool = False,
    ) -> None:
        self._images = ImageStore(images)
        self._threads = ThreadRunner(threads, timeout_s)
        self._maker = ContainerFactory(images=self._images, run=run, threads=self._threads, runtimes=runtimes)
        self._records = self._maker.records
        self._containers: dict[str, OciContainer] = {}
        self._templates = TemplatePool(self._maker, self._threads)
        self._templates.closed = not templates

    async def info(self) -> EngineInfo:
        """Return the runtime, and the limits that the runtime and this host can enforce.

        Raises: EngineError, with the name of the missing part.
        """
        host = await self._maker.get_host()
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
        """Return "on" or "off" for cloning from templates, with the reason if cloning is impossible."""
        held = "off" if self._templates.closed else "on"
        return f"{held}: {self._templates.reason}" if self._templates.reason else held

    @property
    def uses_templates(self) -> bool:
        """Return whether containers are cloned from templates."""
        return not self._templates.closed

    @property
    def distrusted(self) -> str:
        """Return the fault of the first clone that ended its template, or an empty string."""
        return self._templates.distrusted

    async def disable_templates(self, reason: str) -> None:
        """Stop cloning containers. From now on, the runtime starts every container."""
        await self._templates.close(reason)

    def capabilities(self) -> Capabilities:
        """Return the engine's capabilities. Containers start quickly only if they are cloned."""
        return Capabilities(
            seccomp=True,
            tmpfs_owner=True,
            tmpfs_inodes=True,
            private_cgroup=True,
            facts_after_exit=True,
            pid1_immune=True,
            quick=self.uses_templates,
        )

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Create all parts of a container without starting it, and return its reference.

        Raises: EngineError ``engine.name_taken``, if a container with this name exists.
        """
        host = await self._maker.get_host()
        image = self._images.get_verified(spec.image_digest)
        if image is None:
            image = await self._threads.run(self._images.get, spec.image_digest)
        name = spec.labels[LABEL_CONTAINER]
        if name in self._containers:
            raise EngineError("engine.name_taken", f"container {name} already exists")
        claimed = await self._templates.claim(spec, image)
        if name in self._containers:
            raise EngineError("engine.name_taken", f"container {name} already exists")
        ids = claimed[1] if claimed is not None else ContainerIds(first_uid=self._maker.ranges.allocate())
        container = self._maker.plan(spec, image, host, ids)
        self._containers[name] = container
        if claimed is not None:
            self._templates.register_clone(claimed[0], container)
        try:
            await run_cleanup(self._maker.create_container(container), timeout_s=self._threads.timeout_s)
        except BaseException:
            await run_cleanup(self._discard_container(container), timeout_s=self._threads.timeout_s)
            raise
        return ContainerRef(engine_id=name, ulid=name)

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare the container's configuration with the request.

        A clone has no configuration. Every running process is compared later, before its first frame is
        accepted.

        Raises: EngineError ``engine.mismatch``, if the container differs from the request.
        """
        container = self._get_container(ref)
        found = [] if container.spec == spec else ["it belongs to another container"]
        # A clone has no configuration to compare; its process is compared once it runs.
        if not container.is_cloned:
            found += await self._threads.run(find_config_differences, container)
        if found:
            raise _build_mismatch_error(found)

    async def start(self, ref: ContainerRef) -> PipeStream:
        """Start the container, or clone it from its template, and return its stream.

        The pipes exist before the start, so that no output of the runner is lost.
        """
        container = self._get_container(ref)
        ends, theirs = create_pipes()
        container.stream = PipeStream(partial(self._inspect_process, container))
        try:
            await container.stream.connect(ends)
            if container.is_cloned:
                await self._templates.clone(container, theirs)
            else:
                await self._maker.launch_container(container, theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return container.stream

    async def make_way(self, ref: ContainerRef) -> None:
        """Lower the CPU weight of a long-running container, so that other containers have priority.

        Do nothing if the container doesn't exist.
        """
        if (container := self._containers.get(ref.engine_id)) is not None:
            await self._threads.run(container.group.set_cpu_weight, LONG_RUN_CPU_WEIGHT)

    async def kill(self, ref: ContainerRef) -> None:
        """Close the container's stream, then kill the container. Do nothing if it doesn't exist."""
        container = self._containers.get(ref.engine_id)
        if container is not None:
            await self._end_container(container)
        elif (record := await self._threads.run(self._records.read, ref.engine_id)) is not None:
            await self._threads.run(open_control_group(record).kill)

    async def remove(self, ref: ContainerRef) -> None:
        """Kill the container, remove all of its parts, and verify that no part remains."""
        container = self._containers.get(ref.engine_id)
        if container is None:
            await self._maker.remove_foreign_container(ref.engine_id)
            return
        async with container.changing:
            if self._containers.get(ref.engine_id) is not container:
                return
            await self._end_container(container)
            await self._discard_container(container)

    async def facts(self, ref: ContainerRef) -> ContainerExitFacts:
        """Return the exit code and OOM kill of a container; None for both unless it has run and exited."""
        container = self._get_container(ref)
        if container.process is None or container.running:
            return ContainerExitFacts(running=container.running, exit_code=None, oom_killed=None)
        kills = await self._threads.run(container.group.oom_kills)
        return ContainerExitFacts(running=False, exit_code=container.process.exit_code, oom_killed=kills > 0)

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """Return all containers with the daemon's label, running or stopped."""
        records = await self._threads.run(lambda: list(self._records.all()))
        return [
            OwnedContainer(
                engine_id=record.name, labels=record.labels, running=await self._is_running(record)
            )
            for record in records
            if record.labels.get(LABEL_DAEMON) == daemon_id and record.name not in self._templates.names
        ]

    async def image(self, name: str) -> ImageFacts:
        """Return an image by name or digest. Verify its files at the first use.

        Raises: EngineError ``image.missing``, if it doesn't exist; ``image.damaged``, if its files don't
        match its digest.
        """
        return await self._threads.run(self._images.find, name, timeout_s=_TRANSFER_TIMEOUT_S)

    async def load_image(self, archive: Path) -> ImageFacts:
        """Unpack an image archive in the format of `imaging`, and return the image.

        Raises: EngineError ``image.archive_missing``, if the archive doesn't exist;
        ``image.archive_refused``, if it can't be unpacked.
        """
        return await self._threads.run(self._images.load, archive, timeout_s=_TRANSFER_TIMEOUT_S)

    async def list_images(self) -> Sequence[ListedImage]:
        """Return the named images."""
        return await self._threads.run(self._images.listed, timeout_s=_TRANSFER_TIMEOUT_S)

    async def remove_image(self, name: str) -> None:
        """Remove an image name, if it exists, and the image if it has become unused.

        Raises: EngineError ``image.in_use``, if another engine uses the image.
        """
        await self._threads.run(self._images.forget, name, timeout_s=_TRANSFER_TIMEOUT_S)

    async def image_file(self, name: str, path: str, most_bytes: int) -> bytes:
        """Return the content of a regular file of an image.

        Raises: EngineError ``image.file_missing``, if no such file exists or it is larger than `most_bytes`.
        """
        read = partial(self._images.file, name, path, most_bytes)
        return await self._threads.run(read, timeout_s=_TRANSFER_TIMEOUT_S)

    async def close(self) -> None:
        """End the launcher together with all remaining containers. Release threads and locks."""
        for container in self._containers.values():
            if container.stream is not None:
                await container.stream.close()
        await self._templates.close("the engine was closed")
        self._maker.close()
        self._threads.close()
        self._images.close()

    async def _end_container(self, container: OciContainer) -> None:
        try:
            await self._maker.end(container)
        except EngineError:
            self._templates.end_violating_template(container)
            raise

    async def _discard_container(self, container: OciContainer) -> None:
        await self._maker.remove_container(container)
        if container.is_cloned:
            await self._templates.release(container)
        else:
            self._maker.ranges.release(container.place.first_uid)
        self._containers.pop(container.record.name, None)

    async def _inspect_process(self, container: OciContainer) -> None:
        """Compare a container's running process with the request.

        Raises: EngineError ``engine.mismatch``, if they differ or the process wasn't started.
        """
        process = container.process
        if process is None:
            raise _build_mismatch_error(["it sent data before it was started"])
        template = self._templates.of(container.record.name)
        beside = partial(template.list_template_and_siblings, container) if template is not None else dict
        found = await self._threads.run(find_process_differences, process, container, beside)
        if found:
            mismatch = _build_mismatch_error(found)
            # A process that was killed in the meantime says nothing about its template.
            if found != [PROCESS_ENDED_MESSAGE]:
                self._templates.distrust(container, mismatch.message)
            raise mismatch
        self._templates.trust(container)

    async def _is_running(self, record: Record) -> bool:
        container = self._containers.get(record.name)
        return container.running if container is not None else bool(open_control_group(record).pids())

    def _get_container(self, ref: ContainerRef) -> OciContainer:
        try:
            return self._containers[ref.engine_id]
        except KeyError:
            raise EngineError("container.missing", "the container no longer exists") from None


def _build_mismatch_error(found: Sequence[str]) -> EngineError:
    message = "the container differs from the request: " + "; ".join(found)
    return EngineError("engine.mismatch", message)
