"""Manages all processes below the runner: reaps, counts and kills them.

If the runner is PID 1 of a container, these are all other processes in its namespace. Otherwise (in tests),
the runner is a subreaper and finds its descendants in `/proc`, so that it kills the same processes and no
others.
"""

from __future__ import annotations

import os
import time

from . import kernel
from .substitutes import Value, suppress
from .usage import read_cpu_time_s, read_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

    from .usage import Cgroup, KernelTask
else:
    import _signal as signal

_REAP_LIMIT_S = 20.0
_REAP_TURN_S = 0.02
_DEAD = frozenset("ZX")


class ReapedProcess(Value):
    """One reaped process with its resource usage."""

    pid: int
    status: int
    cpu_s: float
    peak_memory_bytes: int


class ProcessesRemainError(RuntimeError):
    """An exception raised when killed processes didn't exit in time."""


class UnconfinedChildError(RuntimeError):
    """An exception raised when a child ended before it dropped its privileges and received its request."""


class DescendantProcesses:
    """The descendants of this process."""

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup
        self._reaped_s = 0.0
        self._spared: set[int] = set()
        self._is_init = os.getpid() == 1
        if not self._is_init:
            kernel.become_subreaper()

    def exclude(self, pid: int) -> None:
        """Exclude a trusted process, which lives as long as the attempt, from counting and killing."""
        self._spared.add(pid)

    def reap(self) -> Iterator[ReapedProcess]:
        """Yield every exited descendant that this process can reap. This call never blocks."""
        with suppress(ChildProcessError):
            while (ended := _wait(os.WNOHANG)) is not None:
                self._reaped_s += ended.cpu_s
                yield ended

    def has_no_processes(self) -> bool:
        """Return whether no process remains, running or unreaped; ignore spared processes."""
        # In this order, so that the second check finds a process that ends between the two.
        if self._spared and self._find_running():
            return False
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return bool(self._spared) and ended is None

    def tasks(self) -> Iterator[KernelTask]:
        """Return the kernel's data about the tasks of all descendants."""
        return read_tasks(self._list_pids())

    def _list_pids(self) -> list[int]:
        """Return the PIDs of all descendants, including unreaped ones."""
        if self._is_init:
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        return list(_find_descendants(os.getpid(), {pid: parent for pid, parent, _ in _iter_processes()}))

    def used_s(self) -> float:
        """Return a CPU time in seconds that increases only by the CPU time of all descendants.

        Outside a container, the kernel has no separate counter for the descendants; the time of descendants
        that were never waited for is then missing.
        """
        if self._is_init and (counted_s := self._cgroup.cpu_s()) is not None:
            return counted_s - time.process_time()
        return self._reaped_s + read_cpu_time_s(self._list_pids())

    def count(self) -> int:
        """Return the number of running descendants, including stopped ones."""
        return 0 if self.has_no_processes() else len(self._find_running())

    def kill_all(self) -> Iterator[ReapedProcess]:
        """Kill and reap all processes; yield the reaped processes.

        SIGCHLD must be blocked. Raises: ProcessesRemainError, if processes remain after a few seconds.
        """
        end = time.monotonic() + _REAP_LIMIT_S
        while not self.has_no_processes():
            self._kill_once()
            yield from self.reap()
            signal.sigtimedwait({signal.SIGCHLD}, _REAP_TURN_S)
            if time.monotonic() > end:
                raise ProcessesRemainError(f"{self.count()} processes do not go away")

    def _kill_once(self) -> None:
        if self._is_init and not self._spared:
            # One call kills them all, because a concurrent fork fails while the signal is pending.
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return
        for pid in self._find_running():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _find_running(self) -> set[int]:
        parents = {pid: parent for pid, parent, state in _iter_processes() if state not in _DEAD}
        found = set(parents) - {1} if self._is_init else _find_descendants(os.getpid(), parents)
        return found - self._spared


def _find_descendants(root: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    generation = {root}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        found |= generation
    return found


def _iter_processes() -> Iterator[tuple[int, int, str]]:
    """Yield the PID, parent and state of every visible process."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            # The name in parentheses is the process's own choice; the last one closes it.
            state, parent, *_ = stat.read().rpartition(b")")[2].split()
            yield int(name), int(parent), state.decode()


def _wait(options: int) -> ReapedProcess | None:
    pid, status, usage = os.wait4(-1, options)
    if pid == 0:
        return None
    return ReapedProcess(
        pid=pid,
        status=status,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_memory_bytes=usage.ru_maxrss * 1024,
    )
