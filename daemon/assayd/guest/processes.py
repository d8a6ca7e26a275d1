"""All processes below the runner: reaps, counts, kills and measures them.

If the runner is PID 1 of a container, these are all other processes in its namespace. Otherwise (in tests),
the runner is a subreaper and finds its descendants in `/proc`, so that it kills the same processes and no
others.

Measures what a unit uses: counters of the container, run time of tasks, and the unit's own clock.

A unit times out when its CPU time, or the elapsed time without its run-queue delay, reaches the limit.
Run-queue delay is the time in which its tasks could have run but waited for a processor. After three times
the limit, a unit times out in any case. Therefore, a unit that sleeps ends at its limit, while a program on
a busy host still gets its full CPU time.

The kernel reports the run-queue delay of each task until the task ends. It is therefore read
periodically. This also detects tasks that are currently waiting, and accounts for tasks that start and end
between two readings. If the kernel doesn't report the delay, no time counts as waiting.
"""

from __future__ import annotations

import os
import time

from . import kernel
from .substitutes import Value, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Iterator
    from functools import partial
    from typing import Protocol

    class UnitTasks(Protocol):
        """The tasks of a unit, and their CPU time."""

        def tasks(self) -> Iterable[KernelTask]:
            """Return the kernel tasks that the unit has now."""
            ...

        def used_s(self) -> float:
            """Return a CPU time in seconds that increases only while the unit uses CPU time."""
            ...
else:
    import _signal as signal
    from _functools import partial

ROOT = "/sys/fs/cgroup"


class Counters(Value):
    """Counters that only increase. The usage of a unit is the difference between two readings."""

    oom_kills: int
    pids_refused: int


class Cgroup:
    """The container's control group, version 1 or 2. Values are 0 if the files don't exist.

    The files are opened once and read repeatedly, twice per unit.
    """

    def __init__(self, root: str = ROOT) -> None:
        if os.path.exists(f"{root}/cgroup.controllers"):
            self.version = 2
            names = ("memory.events", "pids.events", "memory.current", "memory.peak")
            self._cpu = _open_or_none(f"{root}/cpu.stat")
        else:
            memory = (
                "memory/memory.oom_control",
                "memory/memory.usage_in_bytes",
                "memory/memory.max_usage_in_bytes",
            )
            names = (memory[0], "pids/pids.events", *memory[1:])
            self.version = 1 if os.path.exists(f"{root}/memory/memory.usage_in_bytes") else 0
            self._cpu = _open_or_none(f"{root}/cpuacct/cpuacct.usage") or _open_or_none(
                f"{root}/cpu,cpuacct/cpuacct.usage"
            )
        self._oom, self._pids, self._current, self._peak = (_open_or_none(f"{root}/{name}") for name in names)

    def read_counters(self) -> Counters:
        """Return the numbers of OOM kills and of processes refused by the process limit."""
        return Counters(
            oom_kills=_read_field(self._oom, b"oom_kill"), pids_refused=_read_field(self._pids, b"max")
        )

    def cpu_s(self) -> float | None:
        """Return the CPU time in seconds of all processes ever in the group, or None if it isn't counted."""
        if self.version == 2:
            used_s = _read_field(self._cpu, b"usage_usec") * 1e-6
        else:
            used_s = _parse_number(_read_file(self._cpu)) * 1e-9
        return used_s or None

    def memory_bytes(self) -> int:
        """Return the number of bytes of memory currently charged to the group."""
        return _parse_number(_read_file(self._current))

    def peak_memory_bytes(self) -> int:
        """Return the peak number of bytes of memory charged to the group."""
        return _parse_number(_read_file(self._peak))


def _open_or_none(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read_file(descriptor: int | None) -> bytes:
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, 4096, 0)
    except OSError:
        return b""


def _read_field(descriptor: int | None, name: bytes) -> int:
    for line in _read_file(descriptor).splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return _parse_number(value)
    return 0


def _parse_number(text: bytes) -> int:
    text = text.strip()
    return int(text) if text.isdigit() else 0


_NS = 1e-9
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_STATE, _TIMES = 0, slice(11, 15)


class KernelTask(Value):
    """The scheduling data of one task from ``/proc/PID/task/TID/schedstat``.

    The kernel updates `waited_s` at the end of each wait. `slices` counts how often the task was scheduled.
    `is_runnable` is true if the task is running or waiting for a processor.
    """

    pid: int
    tid: int
    ran_s: float
    waited_s: float
    slices: int
    is_runnable: Callable[[], bool]


class RunQueueDelayMeter:
    """A measurement of the run-queue delay of the first thread of this process."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._file: int | None = None
        with suppress(FileNotFoundError):  # a kernel without these figures
            self._file = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self.measure_delay_s()

    def measure_delay_s(self) -> float:
        """Return the run-queue delay since the last call in seconds, or 0 if it isn't reported."""
        waited_s = 0.0 if self._file is None else int(os.pread(self._file, 128, 0).split()[1]) * _NS
        passed_s, self._before_s = waited_s - self._before_s, waited_s
        return max(passed_s, 0.0)


def read_tasks(pids: Iterable[int]) -> Iterator[KernelTask]:
    """Yield the tasks of processes. Yield nothing if the kernel provides no statistics."""
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError, ValueError):
                    yield _read_task(pid, int(name))


def read_first_task(pid: int) -> Iterator[KernelTask]:
    """Yield only the first task of a process. Yield nothing if the kernel provides no statistics."""
    with suppress(OSError, ValueError):
        yield _read_task(pid, pid)


def read_cpu_time_s(pids: Iterable[int]) -> float:
    """Return the processor time, in seconds, of processes and of their reaped children."""
    ticks = 0
    for pid in pids:
        ticks += sum(map(int, _read_stat_fields(f"/proc/{pid}/stat")[_TIMES]))
    return ticks * _TICK_S


def _read_task(pid: int, tid: int) -> KernelTask:
    ran, waited, slices = map(int, _read_small_file(f"/proc/{pid}/task/{tid}/schedstat").split())
    return KernelTask(
        pid=pid,
        tid=tid,
        ran_s=ran * _NS,
        waited_s=waited * _NS,
        slices=slices,
        is_runnable=partial(_is_runnable, pid, tid),
    )


def _is_runnable(pid: int, tid: int) -> bool:
    return _read_stat_fields(f"/proc/{pid}/task/{tid}/stat")[_STATE : _STATE + 1] == [b"R"]


def _read_stat_fields(path: str) -> list[bytes]:
    """Return the fields of a stat file, beginning with the state, or no fields if the task has ended."""
    with suppress(OSError):
        # The name in parentheses is the process's own choice; the last one closes it.
        return _read_small_file(path).rpartition(b")")[2].split()
    return []


def _read_small_file(path: str) -> bytes:
    """Read a small file without a file object, which would write to more shared memory pages."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1024)
    finally:
        os.close(descriptor)


MOST = 3.0
"""Multiple of its limit after which a unit times out, regardless of its run-queue delay."""
LOOK_S = 0.05
"""Minimum seconds between two readings."""
_MIN_COST_RATIO = 20
"""The time between two readings is at least this multiple of the time that a reading takes."""
_MAX_UNCOUNTED_WAIT_S = 0.1


class UnitClock:
    """The clock of one unit. It starts when it is created.

    The attributes have their values at the last reading: `used_s` is the CPU time of all processes of the
    unit; `starved_s` is the time in which the unit could have run, but no processor was free for the unit
    or for the runner that reads its output.

    Args:
        limit_s: the CPU time that the unit may use.
        below: the processes that the unit started.
        kept_s: returns the seconds since the last call for which the unit waited for the runner while the
            runner waited for a processor.
        now: returns the monotonic time.
        tasks: the tasks that the unit has started so far.
    """

    def __init__(
        self,
        limit_s: float,
        below: UnitTasks,
        kept_s: Callable[[], float] = lambda: 0.0,
        now: Callable[[], float] = time.monotonic,
        tasks: Iterable[KernelTask] | None = None,
    ) -> None:
        self._limit_s = limit_s
        self._below = below
        self._kept_s = kept_s
        self._now = now
        known = below.tasks() if tasks is None else tasks
        self._seen = {(task.pid, task.tid): task for task in known}
        self._ahead: dict[tuple[int, int], float] = {}
        self._used_before_s = below.used_s()
        self._began = self._looked = now()
        self._next_reading = self._began + LOOK_S
        self._uncounted_wait_s = 0.0
        self.used_s = self.starved_s = 0.0

    def next_check_at(self) -> float:
        """Return the monotonic time of the next check: the next reading, or when the unit may time out."""
        return min(self._next_reading, self._expires_at())

    def is_over(self) -> bool:
        """Return whether the unit has timed out.

        If a reading is due, or the time may be up, take a reading.
        """
        if self._now() < self.next_check_at():
            return False
        self.take_reading()
        return self.used_s >= self._limit_s or self._looked >= self._expires_at()

    def take_reading(self) -> None:
        """Take a reading, and add the times since the last one."""
        now = self._now()
        passed_s = now - self._looked
        used_s = max(self._below.used_s() - self._used_before_s, self.used_s)
        idle_s = max(passed_s - (used_s - self.used_s), 0.0)
        self._uncounted_wait_s += self._measure_wait_s(passed_s) + self._kept_s()
        starved_s = min(self._uncounted_wait_s, idle_s)
        # Late measurements are corrected, but several tasks that wait at once don't accumulate credit.
        self._uncounted_wait_s = min(self._uncounted_wait_s - starved_s, _MAX_UNCOUNTED_WAIT_S)
        self.used_s, self._looked = used_s, now
        self.starved_s += starved_s
        self._next_reading = now + max(LOOK_S, _MIN_COST_RATIO * (self._now() - now))

    def _expires_at(self) -> float:
        return self._began + min(self._limit_s + self.starved_s, MOST * self._limit_s)

    def _measure_wait_s(self, passed_s: float) -> float:
        """Return the run-queue delay of all tasks since the last reading in seconds."""
        before, ahead = self._seen, self._ahead
        self._seen, self._ahead = {}, {}
        waited_s = 0.0
        for task in self._below.tasks():
            at = task.pid, task.tid
            self._seen[at] = task
            waited_s += self._measure_task_wait_s(task, before.get(at), ahead.get(at, 0.0), passed_s)
        return waited_s

    def _measure_task_wait_s(
        self, task: KernelTask, before: KernelTask | None, ahead_s: float, passed_s: float
    ) -> float:
        """Return one task's run-queue delay since the last reading in seconds.

        `ahead_s` of it was counted before the kernel reported it.
        """
        if before is None:
            # Similar tasks that came and went between two samples left no trace, so this one represents them.
            return passed_s if task.is_runnable() else min(task.waited_s, passed_s)
        told_s = task.waited_s - before.waited_s
        stood_still = (task.slices, task.ran_s) == (before.slices, before.ran_s)
        waits = stood_still and task.is_runnable()
        found_s = passed_s if waits else max(told_s - ahead_s, 0.0)
        if (left_s := ahead_s + found_s - told_s) > 0:
            self._ahead[task.pid, task.tid] = left_s
        return found_s


_REAP_LIMIT_S = 20.0
_REAP_TURN_S = 0.02
_DEAD_STATES = frozenset("ZX")


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
        self._excluded: set[int] = set()
        self._is_init = os.getpid() == 1
        if not self._is_init:
            kernel.become_subreaper()

    def exclude(self, pid: int) -> None:
        """Exclude a trusted process, which lives as long as the attempt, from counting and killing."""
        self._excluded.add(pid)

    def reap(self) -> Iterator[ReapedProcess]:
        """Yield every exited descendant that this process can reap. This call never blocks."""
        with suppress(ChildProcessError):
            while (ended := _wait(os.WNOHANG)) is not None:
                self._reaped_s += ended.cpu_s
                yield ended

    def has_no_processes(self) -> bool:
        """Return whether no process remains, running or unreaped. Ignore excluded processes."""
        # In this order, so that the second check finds a process that ends between the two.
        if self._excluded and self._find_running():
            return False
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return bool(self._excluded) and ended is None

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
        """Kill and reap all processes. Yield the reaped processes.

        SIGCHLD must be blocked. Raises: ProcessesRemainError, if processes remain after 20 s.
        """
        end = time.monotonic() + _REAP_LIMIT_S
        while not self.has_no_processes():
            self._kill_once()
            yield from self.reap()
            signal.sigtimedwait({signal.SIGCHLD}, _REAP_TURN_S)
            if time.monotonic() > end:
                raise ProcessesRemainError(f"{self.count()} processes do not go away")

    def _kill_once(self) -> None:
        if self._is_init and not self._excluded:
            # One call kills them all, because a concurrent fork fails while the signal is pending.
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return
        for pid in self._find_running():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _find_running(self) -> set[int]:
        parents = {pid: parent for pid, parent, state in _iter_processes() if state not in _DEAD_STATES}
        found = set(parents) - {1} if self._is_init else _find_descendants(os.getpid(), parents)
        return found - self._excluded


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
