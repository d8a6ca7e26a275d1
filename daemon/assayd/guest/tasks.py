"""The kernel's statistics of tasks (processes and threads): their run time and run-queue delay."""

from __future__ import annotations

import os

from .suppress import suppress
from .value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from functools import partial
else:
    from _functools import partial

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
        """Return the run-queue delay since the last call, in seconds."""
        waited_s = 0.0 if self._file is None else int(os.pread(self._file, 128, 0).split()[1]) * _NS
        passed_s, self._before_s = waited_s - self._before_s, waited_s
        return max(passed_s, 0.0)


def read_tasks(pids: Iterable[int]) -> Iterator[KernelTask]:
    """Yield the tasks of processes; yield nothing if the kernel provides no statistics."""
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError, ValueError):
                    yield _read_task(pid, int(name))


def read_first_task(pid: int) -> Iterator[KernelTask]:
    """Yield only the first task of a process; yield nothing if the kernel provides no statistics."""
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
