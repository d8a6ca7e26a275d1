"""Control groups of containers, versions 1 and 2: creates, limits, compares, reads and removes them.

The daemon manages the control groups instead of the runtime. This saves 10 ms, and the kernel's counters
stay readable until the daemon has read them. `config` decides the limits.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import EngineError

_PIECE_BYTES = 64 * 1024


def read_text(path: str) -> str:
    """Return the content of a kernel file. Replace non-ASCII bytes. Raises: OSError."""
    pieces = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(descriptor, _PIECE_BYTES):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces).decode("ascii", "replace")


ROOT = Path("/sys/fs/cgroup")
REQUIRED_CONTROLLERS = ("memory", "pids", "cpu")
DAEMON_GROUP = "assayd-daemon"
"""The group for the daemon itself on version 2, because a group with members can't delegate controllers."""
_DEFAULT_SHARES = 1024
"""The value of ``cpu.shares`` on version 1 that corresponds to a weight of 100."""
_MAX_KILL_TIME_S = 10.0
_RETRY_INTERVAL_S = 0.002
_MAX_MOVE_PASSES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupHierarchy:
    """The parent folders of groups: one per controller on version 1, one named "" on version 2."""

    version: int
    folders: Mapping[str, Path]
    others: tuple[Path, ...] = ()
    """The folders of version 1's other controllers, in which a runtime may also create groups."""

    def group(self, name: str) -> ControlGroup:
        """Return the group with this name, which needn't exist."""
        return ControlGroup(
            version=self.version,
            folders={key: str(folder / name) for key, folder in self.folders.items()},
            others=tuple(str(folder / name) for folder in self.others),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """The control group of one container: maps each controller ("" on version 2) to its folder."""

    version: int
    folders: Mapping[str, str]
    others: Sequence[str] = ()

    def make(self, limits: Mapping[str, int]) -> None:
        """Create the group with its limits. If this fails, remove all of its parts.

        Raises: EngineError ``engine.cgroup``, if the kernel rejects a step.
        """
        with _translate_errors("make a control group"):
            try:
                for folder in self.folders.values():
                    os.mkdir(folder)  # noqa: PTH102 - a path object costs as much again
                    # Independent of the umask: the container's own user reads the kernel's counters here.
                    os.chmod(folder, 0o755)  # noqa: PTH101, S103 - as above
                for path, value in self._iter_limit_files(limits):
                    _write_control(path, value)
            except OSError:
                self._remove_folders()
                raise

    def limit_pids(self, pids: int) -> None:
        """Set the limit on the number of processes, once the runtime's processes have exited.

        Raises: EngineError ``engine.cgroup``.
        """
        with _translate_errors("limit processes"):
            _write_control(f"{self._get_controller_folder('pids')}/pids.max", str(pids))

    def set_cpu_weight(self, weight: int) -> None:
        """Set the CPU weight, on a scale of 100. Do nothing if the group doesn't exist.

        Raises: EngineError ``engine.cgroup``, if the kernel rejects the weight.
        """
        with _translate_errors("set a weight"), suppress(FileNotFoundError):
            _write_control(*self._build_weight_setting(weight))

    def differences(self, limits: Mapping[str, int]) -> list[str]:
        """Return the limits whose values in the kernel differ from `limits`, as messages."""
        found = []
        for path, wanted in self._iter_limit_files(limits):
            try:
                held = " ".join(read_text(path).split())
            except OSError:
                held = "unreadable"
            if held != wanted:
                found.append(f"{Path(path).name} is {held!r}, expected {wanted!r}")
        return found

    def entries(self) -> list[str]:
        """Return the files to which a single-threaded process writes ``0`` to join the group.

        On version 1, these are the files for threads. With the files for processes, the kernel would wait
        for a grace period of 10 to 20 ms, during which no process on the host can fork or exit
        (``cgroup_attach_lock`` in cgroup.c).
        """
        name = "tasks" if self.version == 1 else "cgroup.procs"
        return [f"{folder}/{name}" for folder in self.folders.values()]

    @property
    def is_visible(self) -> bool:
        """Return whether the group's parent folders are visible.

        If they aren't, its processes can't be listed.
        """
        return all(Path(folder).parent.is_dir() for folder in self.folders.values())

    def pids(self) -> list[int]:
        """Return the PIDs of the group's processes.

        The result is empty if the group doesn't exist anymore.
        """
        found: set[int] = set()
        for folder in self.folders.values():
            with suppress(FileNotFoundError, OSError):
                listed = Path(folder, "cgroup.procs").read_text(encoding="ascii")
                found |= {int(line) for line in listed.split()}
        return sorted(found)

    def oom_kills(self) -> int:
        """Return the number of the group's out-of-memory kills, or 0 if the counter can't be read."""
        path, key = ("memory.oom_control", "oom_kill") if self.version == 1 else ("memory.events", "oom_kill")
        return _read_field(f"{self._get_controller_folder('memory')}/{path}", key)

    def pids_refused(self) -> int:
        """Return the number of forks that the limit prevented, or 0 if the counter can't be read."""
        return _read_field(f"{self._get_controller_folder('pids')}/pids.events", "max")

    def peak_memory_bytes(self) -> int:
        """Return the peak memory usage in bytes, or 0 if the kernel doesn't report it."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        try:
            return int(Path(f"{self._get_controller_folder('memory')}/{name}").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def kill(self) -> None:
        """Kill all processes of the group and wait until none remains.

        Raises: EngineError ``engine.cgroup_busy``, if a process remains after 10 seconds.
        """
        until = time.monotonic() + _MAX_KILL_TIME_S
        while pids := self.pids():
            if time.monotonic() > until:
                message = f"processes {pids[:5]} of a container didn't end within {_MAX_KILL_TIME_S:.0f} s"
                raise EngineError("engine.cgroup_busy", message, retryable=True)
            for pid in pids:
                self._kill_member(pid)

    def remove(self) -> None:
        """Remove the group, and kill any process that is still in it. Do nothing if the group doesn't exist.

        Raises: EngineError ``engine.cgroup_busy``, if the group can't be removed within 10 seconds.
        """
        until = time.monotonic() + _MAX_KILL_TIME_S
        for folder in (*self.folders.values(), *self.others):
            while True:
                try:
                    os.rmdir(folder)  # noqa: PTH106 - as above
                except FileNotFoundError:
                    break
                except OSError as problem:
                    # A process that was just reaped may still be counted, and another may have just joined.
                    if time.monotonic() > until:
                        message = f"control group {folder} can't be removed: {problem.strerror}"
                        raise EngineError("engine.cgroup_busy", message, retryable=True) from problem
                    for pid in self.pids():
                        self._kill_member(pid)
                    time.sleep(_RETRY_INTERVAL_S)

    def _kill_member(self, pid: int) -> None:
        """Kill a process through its pidfd, so that a new process with the same PID is never killed."""
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if pid in self.pids():
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    select.select([descriptor], [], [], _RETRY_INTERVAL_S * 10)
            finally:
                os.close(descriptor)

    def _iter_limit_files(self, limits: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Yield the file and content of every limit, in an order that the kernel accepts."""
        memory, quota, period = limits["memory_bytes"], limits["cpu_quota_us"], limits["cpu_period_us"]
        yield f"{self._get_controller_folder('pids')}/pids.max", str(limits["pids"])
        if self.version == 1:
            rounded = str(memory - memory % os.sysconf("SC_PAGE_SIZE"))
            yield f"{self._get_controller_folder('memory')}/memory.limit_in_bytes", rounded
            yield f"{self._get_controller_folder('memory')}/memory.memsw.limit_in_bytes", rounded
            yield f"{self._get_controller_folder('memory')}/memory.swappiness", "0"
            yield f"{self._get_controller_folder('cpu')}/cpu.cfs_period_us", str(period)
            yield f"{self._get_controller_folder('cpu')}/cpu.cfs_quota_us", str(quota)
        else:
            yield (
                f"{self._get_controller_folder('memory')}/memory.max",
                str(memory - memory % os.sysconf("SC_PAGE_SIZE")),
            )
            yield f"{self._get_controller_folder('memory')}/memory.swap.max", "0"
            # The kernel must kill the child that grew, not the runner that reports it.
            yield f"{self._get_controller_folder('memory')}/memory.oom.group", "0"
            yield f"{self._get_controller_folder('cpu')}/cpu.max", f"{quota} {period}"
        yield self._build_weight_setting(limits["cpu_weight"])

    def _build_weight_setting(self, weight: int) -> tuple[str, str]:
        if self.version == 1:
            return f"{self._get_controller_folder('cpu')}/cpu.shares", str(weight * _DEFAULT_SHARES // 100)
        return f"{self._get_controller_folder('cpu')}/cpu.weight", str(weight)

    def _get_controller_folder(self, controller: str) -> str:
        return self.folders[controller if self.version == 1 else ""]

    def _remove_folders(self) -> None:
        for folder in self.folders.values():
            with suppress(OSError):
                Path(folder).rmdir()


def find_hierarchy(own: str, root: Path = ROOT) -> CgroupHierarchy:
    """Return the parent of all containers' groups: normally the group in which the daemon was started.

    Args:
        own: the daemon's entry, the content of ``/proc/self/cgroup``.
        root: the mount point of control groups.

    Raises: EngineError ``engine.cgroup``, if a controller is missing or can't be delegated.
    """
    paths = dict(_parse_own_paths(own))
    if (root / "cgroup.controllers").exists():
        return CgroupHierarchy(version=2, folders={"": _delegate_controllers(root, paths.get("", "/"))})
    folders = {}
    for name in REQUIRED_CONTROLLERS:
        mounted = root / name
        if not (mounted / "cgroup.procs").exists():
            message = f"the kernel's controller {name!r} isn't mounted at {mounted}; mount it (cgroup v1)"
            raise EngineError("engine.cgroup", message)
        below = mounted / paths.get(name, "/").lstrip("/")
        # Inside another container, the path may be the host's, which isn't visible.
        folders[name] = below.resolve() if below.is_dir() else mounted.resolve()
    # The hierarchy without controllers is version 2's, in addition to the others.
    others = (
        root / (name.removeprefix("name=") or "unified") / path.lstrip("/") for name, path in paths.items()
    )
    also = {folder.resolve() for folder in others if folder.is_dir()} - set(folders.values())
    return CgroupHierarchy(version=1, folders=folders, others=tuple(sorted(also)))


def _parse_own_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield the controller ("" on version 2) and path of each hierarchy in ``/proc/PID/cgroup``."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            yield name, path


def _delegate_controllers(root: Path, own: str) -> Path:
    """Delegate the controllers on version 2, and return the parent of all containers' groups.

    Raises: EngineError ``engine.cgroup``, if the kernel doesn't allow it or a controller is missing.
    """
    base = root / own.lstrip("/")
    if base.name == DAEMON_GROUP:
        base = base.parent
    with _translate_errors(
        f"use the controllers of {base}; run the daemon in a delegated group (systemd: Delegate=yes)"
    ):
        _require_controllers(base)
        if base != root:
            (base / DAEMON_GROUP).mkdir(exist_ok=True)
            _move_processes(base, base / DAEMON_GROUP)
        handed = (base / "cgroup.subtree_control").read_text(encoding="ascii").split()
        for name in REQUIRED_CONTROLLERS:
            if name not in handed:
                _write_control(f"{base}/cgroup.subtree_control", f"+{name}")
    return base


def _move_processes(source: Path, target: Path) -> None:
    """Move all processes from one group to another.

    Because new ones can start, make up to `_MAX_MOVE_PASSES` passes.
    """
    for _ in range(_MAX_MOVE_PASSES):
        pids = (source / "cgroup.procs").read_text(encoding="ascii").split()
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                _write_control(f"{target}/cgroup.procs", pid)


def _require_controllers(base: Path) -> None:
    """Ensure that a group has the required controllers.

    Raises: EngineError ``engine.cgroup``, with the names of the missing controllers.
    """
    given = (base / "cgroup.controllers").read_text(encoding="ascii").split()
    if absent := [name for name in REQUIRED_CONTROLLERS if name not in given]:
        message = (
            f"control group {base} has no controller {' and no '.join(absent)}, "
            f"only {' '.join(given) or 'none'}; "
            "run the daemon in a delegated group (systemd: Delegate=yes; below the service manager of a user "
            "its own unit user@.service needs Delegate=cpu memory pids, too)"
        )
        raise EngineError("engine.cgroup", message)


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        name = problem.filename or "a control group"
        raise EngineError("engine.cgroup", f"can't {what}: {name}: {problem.strerror}") from problem


def _write_control(path: str, content: str) -> None:
    """Write a control file in one call.

    A buffered file would report the kernel's rejection only at its close.

    Raises: OSError, with the path, if the kernel rejects the content.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, content.encode("ascii"))
    except OSError as problem:
        problem.filename = path
        raise
    finally:
        os.close(descriptor)


def _read_field(path: str, name: str) -> int:
    with suppress(OSError):
        for line in Path(path).read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
