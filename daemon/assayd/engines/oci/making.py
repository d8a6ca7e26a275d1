"""The steps of a container on this host: it is planned, created, launched, ended and discarded.

Other modules decide when each step is taken, and which containers are clones.

A record contains a mark of its daemon, so that another daemon can check whether it has exited. The mark
identifies a process by its PID and start time, within one boot and one PID namespace.

Source: proc(5), proc_pid_stat(5), pid_namespaces(7).
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import structlog

from assayd.engines.oci.cgroup import ControlGroup
from assayd.engines.oci.config import ContainerHostConfig, compute_cgroup_limits, compute_startup_limits
from assayd.engines.oci.container import ContainerRecords, OciContainer, Record, build_container_configuration
from assayd.engines.oci.host import Host, IdAllocator, find_host
from assayd.engines.oci.images import ImageStore, StoredImage
from assayd.engines.oci.process import (
    ContainerStartError,
    LauncherProcess,
    LaunchRequest,
    open_read_only_mount,
)
from assayd.errors import EngineError
from assayd.ports.engine import LABEL_CONTAINER, ContainerSpec

log = structlog.get_logger()

T = TypeVar("T")


class ThreadRunner:
    """A pool of at most `count` threads for blocking steps, each with a timeout of `timeout_s` seconds."""

    def __init__(self, count: int, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="assayd-oci")

    async def run(self, act: Callable[..., T], *arguments: object, timeout_s: float | None = None) -> T:
        """Run a step in a thread and return its result.

        Raises: EngineError ``engine.timeout``, if the step takes too long; ``engine.closed``, after `close`;
        or an error of the step.
        """
        try:
            job = asyncio.get_running_loop().run_in_executor(self._pool, partial(act, *arguments))
        except RuntimeError as problem:
            raise EngineError("engine.closed", "the engine was closed") from problem
        try:
            async with asyncio.timeout(timeout_s or self.timeout_s):
                return await job
        except TimeoutError as problem:
            raise timeout_error() from problem

    def close(self) -> None:
        """Release the threads. Queued steps are never started."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def timeout_error() -> EngineError:
    """Return the error for a step that took too long."""
    return EngineError("engine.timeout", "the engine didn't finish a step in time", retryable=True)


_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
_START_TIME_INDEX = 19
"""Index of the start time among the fields after the name in ``/proc/PID/stat`` (field 22, counted from
1).
"""


@cache
def create_process_mark() -> str:
    """Return the mark of this process: its boot, PID namespace, PID and start time."""
    return ":".join((*_read_boot_and_pid_namespace(), str(os.getpid()), _read_start_time(os.getpid())))


def has_process_ended(mark: str) -> bool:
    """Return whether the process with this mark has certainly exited.

    Return False for a process in another namespace and for a malformed mark, because the state is unknown.
    """
    try:
        boot, namespace, pid, started = mark.split(":")
        number = int(pid)
    except ValueError:
        return False
    own_boot, own_namespace = _read_boot_and_pid_namespace()
    if boot != own_boot:
        return True
    if namespace != own_namespace:
        return False
    try:
        return _read_start_time(number) != started
    except (FileNotFoundError, ProcessLookupError):
        return True


def _read_boot_and_pid_namespace() -> tuple[str, str]:
    namespace = Path("/proc/self/ns/pid").readlink()
    return _BOOT_ID_FILE.read_text(encoding="ascii").strip(), str(namespace).strip("pid:[]")


def _read_start_time(pid: int) -> str:
    # The name can contain any characters, including parentheses.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(") ")[2].split()[_START_TIME_INDEX]


_MAX_LOG_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerIds:
    """The user ids of a container (see `config.ContainerHostConfig`)."""

    first_uid: int
    clone_uid: int = 0
    children: int = 0


class ContainerFactory:
    """A factory of containers on this host, which also removes their parts.

    Args:
        images: the image store.
        run: the folder of live containers' records; all daemons of this host share it.
        runtimes: names and paths of runtimes; the first existing one is used.
    """

    def __init__(
        self, *, images: ImageStore, run: Path, threads: ThreadRunner, runtimes: Sequence[tuple[str, str]]
    ) -> None:
        self.records = ContainerRecords(run / "containers")
        self.ranges = IdAllocator(run / "ids")
        self._images = images
        self._run = run
        self._threads = threads
        self._runtimes = runtimes
        self._host: Host | None = None
        self._launcher: LauncherProcess | None = None
        self._opening = asyncio.Lock()

    async def get_host(self) -> Host:
        """Return the facts about this host.

        At the first call, also prepare the image store and remove leftovers.

        Raises: EngineError, with the name of the missing part.
        """
        if self._host is None:
            host = await self._threads.run(find_host, self._runtimes, (self._run, self._images.roots))
            if self._host is None:  # unless another caller was faster
                self.ranges = IdAllocator(self._run / "ids", host.ids)
                self._host = host
            await self._threads.run(self._images.prepare)
            await self._threads.run(self.records.sweep, time.time())
            await self._threads.run(self._remove_orphans)
        return self._host

    def _remove_orphans(self) -> None:
        """Remove leftovers of containers whose daemon has exited and might never be started again.

        If a container is alive, or if its control groups aren't visible to this process, only its own daemon
        can remove it.
        """
        for record in self.records.all():
            group = open_control_group(record)
            # Records of earlier versions have no mark, but their containers soon had a process.
            gone = (
                has_process_ended(record.daemon)
                if record.daemon
                else self.records.is_stale(record.name, time.time())
            )
            if gone and group.is_visible and not group.pids():
                with suppress(EngineError):
                    group.remove()
                    self.records.remove(record.name)
                    log.info("container.swept", container=record.name)

    def plan(self, spec: ContainerSpec, image: StoredImage, host: Host, ids: ContainerIds) -> OciContainer:
        """Return a planned container, without creating anything."""
        name = spec.labels[LABEL_CONTAINER]
        group = host.hierarchy.group(f"assayd-{name}")
        if ids.clone_uid:
            group = replace(group, others=())  # The runtime, which might create groups there, isn't involved.
        record = Record(
            name=name,
            labels=dict(spec.labels),
            cgroup_version=group.version,
            cgroups=group.folders,
            other_cgroups=group.others,
            image=image.digest,
            first_uid=ids.first_uid,
            daemon=create_process_mark(),
        )
        place = ContainerHostConfig(
            root=str(self._get_image_mount_folder(host) / image.folder.name / image.root.name),
            arguments=image.arguments,
            environment=image.environment,
            first_uid=ids.first_uid,
            clone_uid=ids.clone_uid,
            children=ids.children,
            cgroups=group.folders,
            machine=platform.machine(),
            less=0 if host.is_root else host.ids.first - 1,
            joins="" if host.runtime.supports_existing_cgroup else f"assayd-{name}",
        )
        folder = self.records.get_container_folder(name)
        return OciContainer(spec=spec, record=record, group=group, place=place, image=image, folder=folder)

    async def create_container(self, container: OciContainer) -> None:
        """Write its record, and create its control group and, if the runtime will start it, its bundle.

        Raises: EngineError, if a file can't be written or the kernel rejects the control group.
        """
        host = await self.get_host()
        await self._threads.run(self._create_parts, container, host.is_root)
        if container.is_cloned and not host.is_root:
            for folder in container.group.folders.values():
                container.handed.append(await self.request_read_only_mount(container.record.name, folder))

    async def request_read_only_mount(self, name: str, folder: str) -> int:
        """Return a descriptor of a read-only mount of a folder for a container (see `mounts`).

        Raises: EngineError ``engine.template``, if the kernel rejects the mount; ``engine.launcher``, if the
        launcher died; ``engine.timeout``.
        """
        host = await self.get_host()
        if host.is_root:
            return await self._threads.run(open_read_only_mount, folder)
        launcher = await self._ensure_launcher(host)
        try:
            async with asyncio.timeout(self._threads.timeout_s):
                return await launcher.request_read_only_mount(name, folder)
        except TimeoutError as problem:
            raise timeout_error() from problem

    def _create_parts(self, container: OciContainer, with_trees: bool) -> None:
        limits = compute_cgroup_limits(container.spec)
        try:
            folder = self.records.write(container.record)
            container.claimed = True
            container.group.make(limits if container.is_cloned else compute_startup_limits(limits))
            if container.is_cloned:
                _open_groups(container, with_trees)
            else:
                bundle = json.dumps(build_container_configuration(container.spec, container.place))
                (folder / "config.json").write_text(bundle, encoding="utf-8")
        except OSError as problem:
            message = f"can't write a container's files below {self._run}: {problem.strerror}"
            raise EngineError("engine.run_folder", message, retryable=True) from problem

    async def launch_container(self, container: OciContainer, streams: Sequence[int]) -> None:
        """Start a container with the runtime.

        Raises: EngineError ``engine.start_failed``, if the runtime fails; ``engine.launcher``, if the
        launcher died; ``engine.timeout``.
        """
        host = await self.get_host()
        launcher = await self._ensure_launcher(host)
        name = container.record.name
        launch = LaunchRequest(
            name=name,
            arguments=host.runtime.arguments(container.folder, name),
            join=container.group.entries() if host.runtime.supports_existing_cgroup else (),
            pid_file=container.folder / "pid",
        )
        try:
            async with asyncio.timeout(self._threads.timeout_s):
                container.process = await launcher.launch(launch, streams)
            await self._threads.run(container.group.limit_pids, container.spec.pids)
        except ContainerStartError as problem:
            raise _build_start_error(container, problem) from problem
        except TimeoutError as problem:
            raise timeout_error() from problem

    async def end(self, container: OciContainer) -> None:
        """Kill a container's processes and wait until they have exited.

        Raises: EngineError ``engine.timeout`` or ``engine.cgroup_busy``, if a process doesn't exit in time.
        """
        if container.stream is not None:
            await container.stream.close()
        if container.process is not None:
            container.process.kill()
            try:
                async with asyncio.timeout(self._threads.timeout_s):
                    await container.process.ended.wait()
            except TimeoutError as problem:
                raise timeout_error() from problem
        # The first process ends its whole namespace. If its starter died, no one observed its end.
        if container.process is None or container.process.exit_code is None:
            await self._threads.run(container.group.kill)

    async def remove_container(self, container: OciContainer) -> None:
        """Remove all parts of an ended container, but no parts of another container with the same name.

        Raises: EngineError, if a part can't be removed.
        """
        if container.claimed:
            await self._threads.run(self._remove_from_disk, container)
        if self._launcher is not None:
            self._launcher.forget(container.record.name)

    def _remove_from_disk(self, container: OciContainer) -> None:
        container.close_template_fds()
        container.group.remove()
        self.records.remove(container.record.name)

    async def remove_foreign_container(self, name: str) -> None:
        """Remove a container of another engine, or of an earlier generation of this engine.

        Do nothing if it has no record.
        """
        record = await self._threads.run(self.records.read, name)
        if record is not None:
            group = open_control_group(record)
            await self._threads.run(group.kill)
            await self._threads.run(group.remove)
            await self._threads.run(self.records.remove, name)

    def close(self) -> None:
        """End the launcher together with all remaining containers, and release the user ids."""
        if self._launcher is not None:
            self._launcher.close()
        self.ranges.close()

    async def _ensure_launcher(self, host: Host) -> LauncherProcess:
        async with self._opening:
            if self._launcher is None or self._launcher.gone:
                if self._launcher is not None:
                    self._launcher.close()
                image_mount_folder = self._get_image_mount_folder(host)
                if host.is_root:
                    await self._threads.run(partial(_make_mount_folders, image_mount_folder))
                self._launcher = await LauncherProcess.start(
                    images=str(self._images.roots),
                    image_mount_folder=str(image_mount_folder),
                    hugetlb=host.hugetlb,
                    timeout_s=self._threads.timeout_s,
                    ids=None if host.is_root else host.ids,
                )
            return self._launcher

    def _get_image_mount_folder(self, host: Host) -> Path:
        """Return the folder through which the runtime accesses the images.

        Containers can lack access to a user's folders.
        """
        return Path(host.image_mount_folder) if host.image_mount_folder else self._run / "images"


def open_control_group(record: Record) -> ControlGroup:
    """Return the control group that a container's record describes."""
    return ControlGroup(version=record.cgroup_version, folders=record.cgroups, others=record.other_cgroups)


def _open_groups(container: OciContainer, with_trees: bool) -> None:
    """Open the control groups that a clone joins and, with `with_trees`, their mounts for it."""
    for path in container.group.entries():
        container.handed.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    for folder in container.group.folders.values() if with_trees else ():
        container.handed.append(open_read_only_mount(folder))


def _make_mount_folders(folder: Path) -> None:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        each.chmod(0o711 if each is folder.parent else 0o755)


def _build_start_error(container: OciContainer, problem: ContainerStartError) -> EngineError:
    """Return the error for a failed start. Log the runtime's message, which submitters must not see."""
    try:
        said = (container.folder / "log").read_text(encoding="utf-8", errors="replace")[-_MAX_LOG_BYTES:]
    except OSError:
        said = ""
    log.error("runtime.failed", container=container.record.name, status=str(problem), said=said)
    message = "the runtime couldn't start the container; its message is in the daemon's log"
    return EngineError("engine.start_failed", message, retryable=True)
