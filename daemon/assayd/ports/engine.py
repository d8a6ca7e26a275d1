"""Defines the interface to container engines, independently of any particular engine.

The sequence is create, start, exchange data over `RunnerStreams`, kill, remove. Label syntax, host
configuration and stream headers are details of the implementations, so that both Docker and a plain OCI
runtime can be supported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from assayd.errors import EngineError

LABEL_DAEMON = "org.assayd.daemon"
LABEL_GENERATION = "org.assayd.generation"
LABEL_CONTAINER = "org.assayd.container"
LABEL_POOL_KEY = "org.assayd.pool-key"
LABEL_EXECUTOR = "org.assayd.executor"
"""The number of the executor process that owns the container; missing if the daemon itself owns it."""


WORK_DIRECTORY = "/sandbox"

HOST_NAME = "sandbox"

GUEST_UID = 10001

SHM_BYTES = 64 * 1024

PENDING_SIGNALS = 256
"""Limit of pending signals and of timers that send one, because each takes kernel memory."""

MASKED_PATHS = (
    "/dev/mqueue",
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/kernel",
)

READONLY_PATHS = ("/proc/sys",)

SYSCTLS = {"net.ipv4.tcp_rmem": "4096 32768 65536", "net.ipv4.tcp_wmem": "4096 32768 65536"}
"""Minimum, default and maximum buffer size of a TCP socket in bytes, per direction.

If loopback is available, this memory comes from the host's pool (net.ipv4.tcp_mem), which some kernels don't
charge to the container. 100 full connections took 370 MiB of it, and take 10 MiB with these values.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """The properties that are set when a container is created. Engines add constant flags.

    `memory_bytes` (memory plus swap) and `pids` are totals that include runner and image baseline. `work_*`
    limit the only writable tmpfs at `/sandbox`, which is `noexec` unless `work_exec` is true. `labels`
    identify the daemon, generation, container and key. `preload` lists the modules that the runner will
    import; an engine can load them in advance. If `loopback` is false, no code in the container can use the
    network, so an engine can leave the loopback device down.
    """

    image: str
    image_digest: str
    memory_bytes: int
    pids: int
    cpus: float
    work_bytes: int
    work_files: int
    open_files: int
    seccomp: str
    labels: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    work_exec: bool = False
    loopback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRef:
    """A container of this daemon: its id in the engine, and its ULID in the daemon."""

    engine_id: str
    ulid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedContainer:
    """A container with the daemon's label, as found by the reaper."""

    engine_id: str
    labels: Mapping[str, str]
    running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExitFacts:
    """The engine's facts about a container that has ended. None means unknown."""

    running: bool
    exit_code: int | None
    oom_killed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """An image of the engine. `digest` identifies its content. `size_bytes` is the unpacked size."""

    name: str
    digest: str
    size_bytes: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedImage:
    """An image in a listing of images.

    `shared_bytes` is the size of the parts that other listed images share; `loaded_at` is in seconds since
    1970. A value that the engine doesn't report is None.
    """

    name: str
    digest: str
    size_bytes: int
    shared_bytes: int | None
    loaded_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """The engine and its enforceable limits. `mode` describes how it creates containers, if this varies."""

    name: str
    version: str
    runtime: str
    kernel: str
    cgroup_version: int
    warnings: tuple[str, ...] = ()
    mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The behaviors in which engines differ. The isolation check doesn't rely on them.

    If `quick` is true, containers start and end in milliseconds; therefore, fewer containers are kept warm,
    and used containers are removed soon.
    """

    seccomp: bool
    tmpfs_owner: bool
    tmpfs_inodes: bool
    private_cgroup: bool
    facts_after_exit: bool
    pid1_immune: bool
    quick: bool = False


def build_file_missing_error(name: str, path: str, most_bytes: int) -> EngineError:
    """Return the error for a file that is missing from an image or too large."""
    message = f"image {name} has no file /{path} of at most {most_bytes} bytes"
    return EngineError("image.file_missing", message)


class RunnerStreams(Protocol):
    """The runner's standard input and output, as plain bytes."""

    async def read(self) -> bytes:
        """Return the next bytes of the runner's output, or no bytes at its end.

        Raises: EngineError, if the connection to the engine failed.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes to the runner's input. Wait while its buffer is full.

        Raises: EngineError, if the container no longer reads.
        """
        ...

    @property
    def diagnostics(self) -> bytes:
        """Return the last bytes (at most 8 KiB) of the runner's standard error."""
        ...

    async def close(self) -> None:
        """Close both directions. Call this before a kill. Repeated calls are allowed, and no call raises."""
        ...


class Engine(Protocol):
    """A container engine. All methods can raise EngineError, and none of them waits indefinitely."""

    async def info(self) -> EngineInfo:
        """Return the engine's name, version and enforceable limits."""
        ...

    def capabilities(self) -> Capabilities:
        """Return the behaviors in which engines differ."""
        ...

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Create a container without starting it."""
        ...

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare the created container with its spec.

        Raises: EngineError ``engine.mismatch``, with each difference.
        """
        ...

    async def start(self, ref: ContainerRef) -> RunnerStreams:
        """Attach to the container, then start it, so that no output of the runner is lost."""
        ...

    async def make_way(self, ref: ContainerRef) -> None:
        """Lower the processor share of a long-running container in favor of new ones.

        This method has no effect on an exited container, or if the change is expensive on this engine.
        """
        ...

    async def kill(self, ref: ContainerRef) -> None:
        """Kill the container now. Do nothing if it has already ended."""
        ...

    async def remove(self, ref: ContainerRef) -> None:
        """Remove the container, running or not, and verify that it no longer exists."""
        ...

    async def facts(self, ref: ContainerRef) -> ContainerExitFacts:
        """Return the facts about the container's end. Must be called before `remove`."""
        ...

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """Return all containers with the daemon's label, running or not."""
        ...

    async def image(self, name: str) -> ImageFacts:
        """Return the image with this name.

        Raises: EngineError ``image.missing``, with a remedy, if no image has this name.
        """
        ...

    async def load_image(self, archive: Path) -> ImageFacts:
        """Load an image archive in the format of `imaging`."""
        ...

    async def list_images(self) -> Sequence[ListedImage]:
        """Return the images whose names begin with ``assayd/``."""
        ...

    async def remove_image(self, name: str) -> None:
        """Remove an image name, and the image itself if it is unused. Ignore a missing name.

        Raises: EngineError ``image.in_use``, if a container uses the image.
        """
        ...

    async def image_file(self, name: str, path: str, most_bytes: int) -> bytes:
        """Return a regular file of an image. `path` is relative to its root.

        Raises: EngineError ``image.missing``; ``image.file_missing``, also if the file exceeds `most_bytes`.
        """
        ...

    async def close(self) -> None:
        """Release the engine's connections and threads."""
        ...
