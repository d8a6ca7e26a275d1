"""Control groups of containers: made, limited, compared, read and removed, on version 1 and on version 2.

The runtime is told to leave control groups alone: it takes 10 ms less, and what the kernel counted stays
readable until we have read it. Which numbers are to hold is decided in `config`.
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

from assayd.engines.oci.kernel_files import read_text
from assayd.errors import EngineError

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids", "cpu")
DAEMON_GROUP = "assayd-daemon"
"""Where the daemon moves itself on version 2: a group with members can't delegate controllers."""
_SHARES = 1024
"""What version 1 calls a weight of 100."""
_KILL_FOR_S = 10.0
_AGAIN_S = 0.002
_MOVES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Where groups are made: folder per controller on version 1, one folder named "" on version 2."""

    version: int
    folders: Mapping[str, Path]
    others: tuple[Path, ...] = ()
    """The same of version 1's other controllers, where a runtime may make groups as well."""

    def group(self, name: str) -> ControlGroup:
        """Return the group of that name, whether or not it was made."""
        return ControlGroup(
            version=self.version,
            folders={key: str(folder / name) for key, folder in self.folders.items()},
            others=tuple(str(folder / name) for folder in self.others),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """One container's group: controller ("" on version 2) -> folder."""

    version: int
    folders: Mapping[str, str]
    others: Sequence[str] = ()

    def make(self, limits: Mapping[str, int]) -> None:
        """Make the group with its limits; nothing is left when that fails.

        Raises: EngineError ``engine.cgroup``.
        """
        with _told("make a control group"):
            try:
                for folder in self.folders.values():
                    os.mkdir(folder)  # noqa: PTH102 - a path object costs as much again
                    # Whatever the mask says: the container's own user reads there what the kernel counts.
                    os.chmod(folder, 0o755)  # noqa: PTH101, S103 - as above
                for path, value in self._settings(limits):
                    _write(path, value)
            except OSError:
                self._discard()
                raise

    def limit_pids(self, pids: int) -> None:
        """Set how many processes there may be, once the runtime's have ended.

        Raises: EngineError ``engine.cgroup``.
        """
        with _told("limit processes"):
            _write(f"{self._of('pids')}/pids.max", str(pids))

    def weigh(self, weight: int) -> None:
        """Set what it weighs for the processor, of 100; one that is gone is fine."""
        with _told("set a weight"), suppress(FileNotFoundError):
            _write(*self._weight(weight))

    def differences(self, limits: Mapping[str, int]) -> list[str]:
        """List in which ways the limits that the kernel holds are not those that were asked for."""
        found = []
        for path, wanted in self._settings(limits):
            try:
                held = " ".join(read_text(path).split())
            except OSError:
                held = "unreadable"
            if held != wanted:
                found.append(f"{Path(path).name} is {held!r}, expected {wanted!r}")
        return found

    def entries(self) -> list[str]:
        """Return the files into which a process that is one thread writes ``0`` to join.

        On version 1 by the file of threads: for that of processes the kernel lets a grace period pass, 10 to
        20 ms, in which nothing on the machine can fork or end (``cgroup_attach_lock`` in cgroup.c).
        """
        name = "tasks" if self.version == 1 else "cgroup.procs"
        return [f"{folder}/{name}" for folder in self.folders.values()]

    @property
    def visible(self) -> bool:
        """Whether the places are there in which it would be: else nothing is known of its processes."""
        return all(Path(folder).parent.is_dir() for folder in self.folders.values())

    def pids(self) -> list[int]:
        """Return the group's processes; none if the group no longer exists."""
        found: set[int] = set()
        for folder in self.folders.values():
            with suppress(FileNotFoundError, OSError):
                listed = Path(folder, "cgroup.procs").read_text(encoding="ascii")
                found |= {int(line) for line in listed.split()}
        return sorted(found)

    def oom_kills(self) -> int:
        """Return how many processes of the group the kernel killed for memory."""
        path, key = ("memory.oom_control", "oom_kill") if self.version == 1 else ("memory.events", "oom_kill")
        return _field(f"{self._of('memory')}/{path}", key)

    def pids_refused(self) -> int:
        """Return how many processes the kernel refused."""
        return _field(f"{self._of('pids')}/pids.events", "max")

    def peak_memory_bytes(self) -> int:
        """Return the most memory that was ever charged; 0 where the kernel does not tell."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        try:
            return int(Path(f"{self._of('memory')}/{name}").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def kill(self) -> None:
        """Kill every process of the group and wait until none is left.

        Raises: EngineError ``engine.cgroup_busy`` when one stays.
        """
        until = time.monotonic() + _KILL_FOR_S
        while pids := self.pids():
            if time.monotonic() > until:
                message = f"processes {pids[:5]} of a container didn't end within {_KILL_FOR_S:.0f} s"
                raise EngineError("engine.cgroup_busy", message, retryable=True)
            for pid in pids:
                self._kill_member(pid)

    def remove(self) -> None:
        """Remove the group, whose processes have ended, and see that it is gone.

        Raises: EngineError ``engine.cgroup_busy``.
        """
        until = time.monotonic() + _KILL_FOR_S
        for folder in (*self.folders.values(), *self.others):
            while True:
                try:
                    os.rmdir(folder)  # noqa: PTH106 - as above
                except FileNotFoundError:
                    break
                except OSError as problem:
                    # A process that was reaped just now may still be counted, and one may just have joined.
                    if time.monotonic() > until:
                        message = f"control group {folder} can't be removed: {problem.strerror}"
                        raise EngineError("engine.cgroup_busy", message, retryable=True) from problem
                    for pid in self.pids():
                        self._kill_member(pid)
                    time.sleep(_AGAIN_S)

    def _kill_member(self, pid: int) -> None:
        """Kill a process by a descriptor, so that a reused pid is never hit."""
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if pid in self.pids():
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    select.select([descriptor], [], [], _AGAIN_S * 10)
            finally:
                os.close(descriptor)

    def _settings(self, limits: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Return file and content of every limit, in the order in which they can be written."""
        memory, quota, period = limits["memory_bytes"], limits["cpu_quota_us"], limits["cpu_period_us"]
        yield f"{self._of('pids')}/pids.max", str(limits["pids"])
        if self.version == 1:
            rounded = str(memory - memory % os.sysconf("SC_PAGE_SIZE"))
            yield f"{self._of('memory')}/memory.limit_in_bytes", rounded
            yield f"{self._of('memory')}/memory.memsw.limit_in_bytes", rounded
            yield f"{self._of('memory')}/memory.swappiness", "0"
            yield f"{self._of('cpu')}/cpu.cfs_period_us", str(period)
            yield f"{self._of('cpu')}/cpu.cfs_quota_us", str(quota)
        else:
            yield f"{self._of('memory')}/memory.max", str(memory - memory % os.sysconf("SC_PAGE_SIZE"))
            yield f"{self._of('memory')}/memory.swap.max", "0"
            # The kernel is to kill the child that grew, not the runner that reports it.
            yield f"{self._of('memory')}/memory.oom.group", "0"
            yield f"{self._of('cpu')}/cpu.max", f"{quota} {period}"
        yield self._weight(limits["cpu_weight"])

    def _weight(self, weight: int) -> tuple[str, str]:
        if self.version == 1:
            return f"{self._of('cpu')}/cpu.shares", str(weight * _SHARES // 100)
        return f"{self._of('cpu')}/cpu.weight", str(weight)

    def _of(self, controller: str) -> str:
        return self.folders[controller if self.version == 1 else ""]

    def _discard(self) -> None:
        for folder in self.folders.values():
            with suppress(OSError):
                Path(folder).rmdir()


def find_hierarchy(own: str, root: Path = ROOT) -> Hierarchy:
    """Return where the groups of containers are made: below the daemon's own.

    Args:
        own: content of ``/proc/self/cgroup``.
        root: where control groups are mounted.

    Raises: EngineError ``engine.cgroup``, naming the controller that is missing.
    """
    paths = dict(_own_paths(own))
    if (root / "cgroup.controllers").exists():
        return Hierarchy(version=2, folders={"": _delegated(root, paths.get("", "/"))})
    folders = {}
    for name in CONTROLLERS:
        mounted = root / name
        if not (mounted / "cgroup.procs").exists():
            message = f"the kernel's controller {name!r} isn't mounted at {mounted}; mount it (cgroup v1)"
            raise EngineError("engine.cgroup", message)
        below = mounted / paths.get(name, "/").lstrip("/")
        # Inside another container, the path may be the invisible host's.
        folders[name] = below.resolve() if below.is_dir() else mounted.resolve()
    # The hierarchy without controllers is the one of version 2, in addition to the others.
    others = (
        root / (name.removeprefix("name=") or "unified") / path.lstrip("/") for name, path in paths.items()
    )
    also = {folder.resolve() for folder in others if folder.is_dir()} - set(folders.values())
    return Hierarchy(version=1, folders=folders, others=tuple(sorted(also)))


def _own_paths(text: str) -> Iterator[tuple[str, str]]:
    """Read ``/proc/PID/cgroup``: a line for each hierarchy, which version 2 has without a controller."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            yield name, path


def _delegated(root: Path, own: str) -> Path:
    """Return the group of version 2 that containers' are made in, with its controllers handed on."""
    base = root / own.lstrip("/")
    if base.name == DAEMON_GROUP:
        base = base.parent
    with _told(f"use the controllers of {base}; run the daemon in a delegated group (systemd: Delegate=yes)"):
        _see_controllers(base)
        if base != root:
            (base / DAEMON_GROUP).mkdir(exist_ok=True)
            _move_members(base, base / DAEMON_GROUP)
        handed = (base / "cgroup.subtree_control").read_text(encoding="ascii").split()
        for name in CONTROLLERS:
            if name not in handed:
                _write(f"{base}/cgroup.subtree_control", f"+{name}")
    return base


def _move_members(source: Path, target: Path) -> None:
    """Move every process: one that ends meanwhile is not missed, one that is started meanwhile follows."""
    for _ in range(_MOVES):
        pids = (source / "cgroup.procs").read_text(encoding="ascii").split()
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                _write(f"{target}/cgroup.procs", pid)


def _see_controllers(base: Path) -> None:
    """Raises: EngineError ``engine.cgroup``, naming what a group was not given."""
    given = (base / "cgroup.controllers").read_text(encoding="ascii").split()
    if absent := [name for name in CONTROLLERS if name not in given]:
        message = (
            f"control group {base} has no controller {' and no '.join(absent)}, "
            f"only {' '.join(given) or 'none'}; "
            "run the daemon in a delegated group (systemd: Delegate=yes; below the service manager of a user "
            "its own unit user@.service needs Delegate=cpu memory pids, too)"
        )
        raise EngineError("engine.cgroup", message)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        name = problem.filename or "a control group"
        raise EngineError("engine.cgroup", f"can't {what}: {name}: {problem.strerror}") from problem


def _write(path: str, content: str) -> None:
    """Write in one call: a buffered file would keep what the kernel refuses until it is closed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, content.encode("ascii"))
    except OSError as problem:
        problem.filename = path
        raise
    finally:
        os.close(descriptor)


def _field(path: str, name: str) -> int:
    with suppress(OSError):
        for line in Path(path).read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
