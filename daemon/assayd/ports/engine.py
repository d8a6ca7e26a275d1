"""The container engine, without any engine's own words.

`create → start → Duplex → kill → remove`: no labels syntax, host config or stream headers above this
line, so that an OCI runtime started on an exported root filesystem fits behind it as well.
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


WORK_DIRECTORY = "/sandbox"

HOST_NAME = "sandbox"

GUEST_UID = 10001

SHM_BYTES = 64 * 1024

PENDING_SIGNALS = 256
"""Signals that wait to be taken, and timers that would send one: each takes memory of the kernel."""

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
"""Least, usual and most that a TCP socket may buffer, in either direction.

Where loopback can be used, that memory is of the host's own pool (net.ipv4.tcp_mem), which not every kernel
counts against the container: 100 connections filled took 370 MiB of it, and take 10 with these.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """Everything that is fixed at creation. Flags that never vary are the engine's constants.

    `memory_bytes` (= memory + swap) and `pids` are totals, runner and image baseline included.
    `work_*` bound the one writable tmpfs at `/sandbox`, which is `noexec` unless `work_exec`. `labels` are
    daemon, generation, container, key.
    `preload` names the modules that the runner will be asked for; an engine may have them loaded already.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRef:
    """A container of this daemon: the engine's id, and the daemon's ULID."""

    engine_id: str
    ulid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedContainer:
    """A container that carries our labels, as the sweep finds it."""

    engine_id: str
    labels: Mapping[str, str]
    running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """What the engine says after the end. None = it does not say."""

    running: bool
    exit_code: int | None
    oom_killed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """An image as the engine has it. `digest` identifies its content; `size_bytes` unpacked."""

    name: str
    digest: str
    size_bytes: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedImage:
    """An image in a list.

    `shared_bytes` others in the list have as well; `loaded_at` in seconds since 1970. None: the engine does
    not say.
    """

    name: str
    digest: str
    size_bytes: int
    shared_bytes: int | None
    loaded_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Which engine this is and what it can enforce. `mode`: how it makes containers, given a choice."""

    name: str
    version: str
    runtime: str
    kernel: str
    cgroup_version: int
    warnings: tuple[str, ...] = ()
    mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """How an engine behaves where engines differ; the isolation check believes only what it sees.

    `quick`: containers come and go in milliseconds, so that few stand ready, and a used one goes soon.
    """

    seccomp: bool
    tmpfs_owner: bool
    tmpfs_inodes: bool
    private_cgroup: bool
    facts_after_exit: bool
    pid1_immune: bool
    quick: bool = False


def file_missing(name: str, path: str, most_bytes: int) -> EngineError:
    """Return the error for an image without a file."""
    message = f"image {name} has no file /{path} of at most {most_bytes} bytes"
    return EngineError("image.file_missing", message)


class Duplex(Protocol):
    """The runner's standard input and output, as plain bytes."""

    async def read(self) -> bytes:
        """Return the next bytes of the runner's output; empty when it has ended.

        Raises: EngineError when the connection to the engine failed.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes to the runner's input and wait while its buffer is full.

        Raises: EngineError if the container no longer reads.
        """
        ...

    @property
    def diagnostics(self) -> bytes:
        """The last bytes (at most 8 KiB) that the runner itself wrote to its standard error."""
        ...

    async def close(self) -> None:
        """Close both directions. Safe to call twice, never raises; must come before a kill."""
        ...


class Engine(Protocol):
    """A container engine. All methods raise EngineError, and none waits without a bound."""

    async def info(self) -> EngineInfo:
        """Ask the engine who it is."""
        ...

    def capabilities(self) -> Capabilities:
        """Return how this engine behaves where engines differ."""
        ...

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Create a container; it does not run yet."""
        ...

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare the created container with the request.

        Raises: EngineError ``engine.mismatch``, naming each difference.
        """
        ...

    async def start(self, ref: ContainerRef) -> Duplex:
        """Attach, then start; nothing that the runner says is lost."""
        ...

    async def make_way(self, ref: ContainerRef) -> None:
        """Let a container that has run for long have less of the processors than those that begin.

        One that has ended or is gone is fine. An engine to which that costs much leaves it.
        """
        ...

    async def kill(self, ref: ContainerRef) -> None:
        """End the container now. A container that has ended or is gone is fine."""
        ...

    async def remove(self, ref: ContainerRef) -> None:
        """Remove the container, running or not, and verify that it is gone."""
        ...

    async def facts(self, ref: ContainerRef) -> EndFacts:
        """Ask how a container ended, before it is removed."""
        ...

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """List every container that carries our daemon's label, running or not."""
        ...

    async def image(self, name: str) -> ImageFacts:
        """Look an image up. Raises: EngineError ``image.missing``, with the remedy."""
        ...

    async def load_image(self, archive: Path) -> ImageFacts:
        """Load an image archive as `imaging` packs it."""
        ...

    async def list_images(self) -> Sequence[ListedImage]:
        """List the images that were loaded under names ``assayd/…``."""
        ...

    async def remove_image(self, name: str) -> None:
        """Remove a name, and its image if unused; a missing name is fine.

        Raises: EngineError ``image.in_use``.
        """
        ...

    async def image_file(self, name: str, path: str, most_bytes: int) -> bytes:
        """Return a regular file of an image; `path` is relative to its root.

        Raises: EngineError ``image.missing``, ``image.file_missing`` (also for one that is larger).
        """
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...
