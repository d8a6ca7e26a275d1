"""`ports.engine.Engine` by an OCI runtime of this host, which is started directly: see the package.

A container is created by making its record, its control group and its bundle; the runtime runs when it is
started, and ends at once. What blocks is done in threads of our own.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from assayd.aio import finish
from assayd.engines.oci.cgroup import ControlGroup
from assayd.engines.oci.config import HostShare, configuration, resources, while_starting
from assayd.engines.oci.container import OciContainer, differences_made, differences_running
from assayd.engines.oci.host import Host, find_host
from assayd.engines.oci.images import ImageStore, StoredImage
from assayd.engines.oci.process import (
    Launch,
    LauncherFailed,
    LauncherProcess,
    PipeStream,
    make_pipes,
)
from assayd.engines.oci.ranges import Ranges
from assayd.engines.oci.records import Record, Records
from assayd.engines.oci.runtime import CANDIDATES
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
    OwnedContainer,
)

log = structlog.get_logger()

T = TypeVar("T")

_TRANSFER_TIMEOUT_S = 600.0
_LOG_BYTES = 2000


class OciEngine:
    """Containers by crun or runc on this host, as root.

    Args:
        images: folder with unpacked images; engines may share it.
        run: folder for what is known of containers while they live; all daemons of this host share it.
        threads: how many blocking steps may be under way at once.
        timeout_s: bound of every step but those that move whole images.
        runtimes: names and paths of runtimes, of which the first that is there is taken.
    """

    def __init__(
        self,
        *,
        images: Path,
        run: Path,
        threads: int = 8,
        timeout_s: float = 20.0,
        runtimes: Sequence[tuple[str, str]] = CANDIDATES,
    ) -> None:
        self._runtimes = runtimes
        self._images = ImageStore(images)
        self._run = run
        self._records = Records(run / "containers")
        self._ranges = Ranges(run / "ids")
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="assayd-oci")
        self._containers: dict[str, OciContainer] = {}
        self._host: Host | None = None
        self._launcher: LauncherProcess | None = None
        self._opening = asyncio.Lock()

    async def info(self) -> EngineInfo:
        """Return which runtime there is, and what it and this host can enforce.

        Raises: EngineError, naming what is missing.
        """
        host = await self._known_host()
        return EngineInfo(
            name="oci",
            version=host.runtime.version,
            runtime=host.runtime.path,
            kernel=platform.release(),
            cgroup_version=host.hierarchy.version,
            warnings=host.warnings,
        )

    def capabilities(self) -> Capabilities:
        """Return how this engine behaves."""
        return Capabilities(
            seccomp=True,
            tmpfs_owner=True,
            tmpfs_inodes=True,
            private_cgroup=True,
            facts_after_exit=True,
            pid1_immune=True,
        )

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Make everything that a container needs; it does not run yet.

        Raises: EngineError ``engine.name_taken``.
        """
        host = await self._known_host()
        image = await self._in_thread(self._images.get, spec.image_digest)
        name = spec.labels[LABEL_CONTAINER]
        if name in self._containers:
            raise EngineError("engine.name_taken", f"there is a container {name} already")
        container = self._plan(spec, image, host, name)
        self._containers[name] = container
        try:
            await finish(self._in_thread(self._make, container), timeout_s=self._timeout_s)
        except BaseException:
            await finish(self._in_thread(self._discard, container), timeout_s=self._timeout_s)
            raise
        return ContainerRef(engine_id=name, ulid=name)

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare what was made with what was asked; what runs is compared before its first word counts."""
        container = self._container(ref)
        found = await self._in_thread(differences_made, container, spec)
        if found:
            raise _mismatch(found)

    async def start(self, ref: ContainerRef) -> PipeStream:
        """Start the runtime with pipes of ours; nothing that the runner says is lost."""
        container = self._container(ref)
        host = await self._known_host()
        launcher = await self._ready_launcher(host)
        ends, theirs = make_pipes()
        container.stream = PipeStream(partial(self._inspect, container))
        try:
            await container.stream.connect(ends)
            launch = Launch(
                name=ref.engine_id,
                arguments=host.runtime.arguments(container.folder, ref.engine_id),
                join=container.group.members() if host.runtime.leaves_cgroups else (),
                pid_file=container.folder / "pid",
            )
            async with asyncio.timeout(self._timeout_s):
                container.process = await launcher.launch(launch, theirs)
            await self._in_thread(container.group.limit_pids, container.spec.pids)
        except LauncherFailed as problem:
            raise self._refused(container, problem) from problem
        except TimeoutError as problem:
            raise _timed_out() from problem
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return container.stream

    async def kill(self, ref: ContainerRef) -> None:
        """End the container now, closing its stream first where the caller has not."""
        container = self._containers.get(ref.engine_id)
        if container is not None:
            await self._end(container)
        elif (record := await self._in_thread(self._records.read, ref.engine_id)) is not None:
            await self._in_thread(_group_of(record).kill)

    async def remove(self, ref: ContainerRef) -> None:
        """End the container and remove all that was made for it; when this returns it is gone."""
        container = self._containers.get(ref.engine_id)
        if container is None:
            await self._remove_stranger(ref)
            return
        async with container.changing:
            if self._containers.get(ref.engine_id) is not container:
                return
            await self._end(container)
            await self._in_thread(self._discard, container)
            if self._launcher is not None:
                self._launcher.forget(ref.engine_id)

    async def facts(self, ref: ContainerRef) -> EndFacts:
        """Return how a container ended; nothing of one that never ran or still runs."""
        container = self._container(ref)
        if container.process is None or container.running:
            return EndFacts(running=container.running, exit_code=None, oom_killed=None)
        kills = await self._in_thread(container.group.oom_kills)
        return EndFacts(running=False, exit_code=container.process.exit_code, oom_killed=kills > 0)

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """List every container that carries our daemon's label, running or not."""
        records = await self._in_thread(lambda: list(self._records.all()))
        return [
            OwnedContainer(engine_id=record.name, labels=record.labels, running=await self._runs(record))
            for record in records
            if record.labels.get(LABEL_DAEMON) == daemon_id
        ]

    async def image(self, name: str) -> ImageFacts:
        """Look an image up by name or digest; its files are verified the first time."""
        return await self._in_thread(self._images.find, name, timeout_s=_TRANSFER_TIMEOUT_S)

    async def load_image(self, archive: Path) -> ImageFacts:
        """Unpack an image archive as `imaging` packs it."""
        return await self._in_thread(self._images.load, archive, timeout_s=_TRANSFER_TIMEOUT_S)

    async def export_image(self, name: str, target: Path) -> None:
        """Write the image's root filesystem as a tar file."""
        await self._in_thread(self._images.export, name, target, timeout_s=_TRANSFER_TIMEOUT_S)

    async def close(self) -> None:
        """End the launcher with every container that is left, and release threads and locks."""
        for container in self._containers.values():
            if container.stream is not None:
                await container.stream.close()
        if self._launcher is not None:
            self._launcher.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._ranges.close()
        self._images.close()

    def _plan(self, spec: ContainerSpec, image: StoredImage, host: Host, name: str) -> OciContainer:
        group = host.hierarchy.group(f"assayd-{name}")
        first_uid = self._ranges.take()
        record = Record(
            name=name,
            labels=dict(spec.labels),
            cgroup_version=group.version,
            cgroups=group.folders,
            other_cgroups=group.others,
            image=image.digest,
            first_uid=first_uid,
        )
        place = HostShare(
            root=str(self._run / "images" / image.folder.name / image.root.name),
            arguments=image.arguments,
            environment=image.environment,
            first_uid=first_uid,
            cgroups=group.folders,
            machine=platform.machine(),
            joins="" if host.runtime.leaves_cgroups else f"assayd-{name}",
        )
        return OciContainer(
            spec=spec,
            record=record,
            group=group,
            place=place,
            image=image,
            folder=self._records.folder_of(name),
        )

    def _make(self, container: OciContainer) -> None:
        try:
            folder = self._records.write(container.record)
            container.claimed = True
            container.group.make(while_starting(resources(container.spec)))
            bundle = json.dumps(configuration(container.spec, container.place))
            (folder / "config.json").write_text(bundle, encoding="utf-8")
        except OSError as problem:
            message = f"cannot write what a container needs below {self._run}: {problem.strerror}"
            raise EngineError("engine.run_folder", message, retryable=True) from problem

    def _discard(self, container: OciContainer) -> None:
        """Remove all that was made for a container that has ended; nothing of another by its name."""
        if container.claimed:
            container.group.remove()
            self._records.remove(container.record.name)
        self._ranges.give_back(container.place.first_uid)
        self._containers.pop(container.record.name, None)

    async def _end(self, container: OciContainer) -> None:
        """Kill what runs and wait until it has ended."""
        if container.stream is not None:
            await container.stream.close()
        if container.process is not None:
            container.process.kill()
        await self._in_thread(container.group.kill)
        if container.process is not None:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await container.process.ended.wait()
            except TimeoutError as problem:
                raise _timed_out() from problem

    async def _remove_stranger(self, ref: ContainerRef) -> None:
        """Remove what another engine, or this one in an earlier generation, has left."""
        record = await self._in_thread(self._records.read, ref.engine_id)
        if record is not None:
            group = _group_of(record)
            await self._in_thread(group.kill)
            await self._in_thread(group.remove)
            await self._in_thread(self._records.remove, ref.engine_id)

    async def _inspect(self, container: OciContainer) -> None:
        """Compare what runs with what was asked.

        Raises: EngineError ``engine.mismatch``.
        """
        process = container.process
        if process is None:
            raise _mismatch(["it spoke before it was started"])
        found = await self._in_thread(differences_running, process, container)
        if found:
            raise _mismatch(found)

    async def _runs(self, record: Record) -> bool:
        container = self._containers.get(record.name)
        return container.running if container is not None else bool(_group_of(record).pids())

    def _container(self, ref: ContainerRef) -> OciContainer:
        try:
            return self._containers[ref.engine_id]
        except KeyError:
            raise EngineError("container.missing", "the container does not exist any more") from None

    async def _known_host(self) -> Host:
        if self._host is None:
            self._host = await self._in_thread(find_host, self._runtimes)
            await self._in_thread(self._images.prepare)
        return self._host

    async def _ready_launcher(self, host: Host) -> LauncherProcess:
        async with self._opening:
            if self._launcher is None or self._launcher.gone:
                if self._launcher is not None:
                    self._launcher.close()
                shown_at = self._run / "images"
                await self._in_thread(partial(_make_shown, shown_at))
                self._launcher = await LauncherProcess.start(
                    images=str(self._images.roots), shown_at=str(shown_at), hugetlb=host.hugetlb
                )
            return self._launcher

    def _refused(self, container: OciContainer, problem: LauncherFailed) -> EngineError:
        """Log what the runtime said, which is not for those who submit."""
        try:
            said = (container.folder / "log").read_text(encoding="utf-8", errors="replace")[-_LOG_BYTES:]
        except OSError:
            said = ""
        log.error("runtime.failed", container=container.record.name, status=str(problem), said=said)
        message = "the runtime could not start the container; what it said is in the daemon's log"
        return EngineError("engine.start_failed", message, retryable=True)

    async def _in_thread(
        self, act: Callable[..., T], *arguments: object, timeout_s: float | None = None
    ) -> T:
        """Run blocking work in a thread of ours.

        Raises: EngineError ``engine.timeout``, ``engine.closed``, and what the work raises.
        """
        try:
            job = asyncio.get_running_loop().run_in_executor(self._threads, partial(act, *arguments))
        except RuntimeError as problem:
            raise EngineError("engine.closed", "the engine was closed") from problem
        try:
            async with asyncio.timeout(timeout_s or self._timeout_s):
                return await job
        except TimeoutError as problem:
            raise _timed_out() from problem


def _group_of(record: Record) -> ControlGroup:
    return ControlGroup(version=record.cgroup_version, folders=record.cgroups, others=record.other_cgroups)


def _make_shown(folder: Path) -> None:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        each.chmod(0o711 if each is folder.parent else 0o755)


def _mismatch(found: Sequence[str]) -> EngineError:
    message = "the container is not the one that was asked for: " + "; ".join(found)
    return EngineError("engine.mismatch", message)


def _timed_out() -> EngineError:
    return EngineError("engine.timeout", "the engine did not do its step in time", retryable=True)
