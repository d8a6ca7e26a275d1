"""Measures how a unit spends its time: computing, in run-queue delay, or waiting for something.

A unit times out when its CPU time, or the elapsed time without its run-queue delay, reaches the limit.
Run-queue delay is the time in which its tasks could have run but waited for a processor. After three times
the limit, a unit times out in any case. Therefore, a unit that sleeps ends at its limit, while a program on
a busy host still gets its full CPU time.

The kernel reports the run-queue delay of each task (`tasks`) until the task ends. It is therefore read
periodically. This also detects tasks that are currently waiting, and accounts for tasks that start and end
between two readings. If the kernel doesn't report the delay, no time counts as waiting.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from .tasks import KernelTask

    class UnitTasks(Protocol):
        """The tasks of a unit, and their CPU time."""

        def tasks(self) -> Iterable[KernelTask]:
            """Return the current tasks."""
            ...

        def used_s(self) -> float:
            """Return a CPU time in seconds that increases only while the unit uses CPU time."""
            ...


MOST = 3.0
"""A unit is over after so many times its limit, whatever it waited for."""
LOOK_S = 0.05
"""How often tasks are looked at."""
_COST = 20
"""Looks take no more than one part in so many of the time."""
_MOST_OWED_S = 0.1


class UnitClock:
    """The clock of one unit; it starts when it is created.

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
        self._next_look = self._began + LOOK_S
        self._owed_s = 0.0
        self.used_s = self.starved_s = 0.0

    def next_check_at(self) -> float:
        """Return the monotonic time of the next check: the next reading, or when the unit may time out."""
        return min(self._next_look, self._expires_at())

    def is_over(self) -> bool:
        """Return whether the unit has timed out. Take a reading if it is due, or the time may be up."""
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
        self._owed_s += self._waited_s(passed_s) + self._kept_s()
        starved_s = min(self._owed_s, idle_s)
        # Late measurements are corrected, but several tasks that wait at once don't accumulate credit.
        self._owed_s = min(self._owed_s - starved_s, _MOST_OWED_S)
        self.used_s, self._looked = used_s, now
        self.starved_s += starved_s
        self._next_look = now + max(LOOK_S, _COST * (self._now() - now))

    def _expires_at(self) -> float:
        return self._began + min(self._limit_s + self.starved_s, MOST * self._limit_s)

    def _waited_s(self, passed_s: float) -> float:
        """Return the run-queue delay of all tasks since the last reading in seconds."""
        before, ahead = self._seen, self._ahead
        self._seen, self._ahead = {}, {}
        waited_s = 0.0
        for task in self._below.tasks():
            at = task.pid, task.tid
            self._seen[at] = task
            waited_s += self._task_waited_s(task, before.get(at), ahead.get(at, 0.0), passed_s)
        return waited_s

    def _task_waited_s(
        self, task: KernelTask, before: KernelTask | None, ahead_s: float, passed_s: float
    ) -> float:
        """Return one task's run-queue delay; `ahead_s` of it was counted before the kernel reported it."""
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
