"""What the time of a unit goes into: it computes, it waits for a processor, or it waits for something else.

A unit is over when it has used its limit of processor time, or when that much time has passed less what
its tasks waited for a processor while they could have run; at three times the limit in any case. So a
sleeper ends at its limit, and a program on a busy machine gets what it was promised.

The kernel tells of each task how long it waited (`tasks`), and forgets that when the task ends. Hence a
look from time to time, which also finds tasks that wait just now, or that come and go between two looks.
Where the kernel does not say, nothing counts as waiting.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from .tasks import KernelTask

    class Below(Protocol):
        """The tasks of a unit, and their processor time."""

        def tasks(self) -> Iterable[KernelTask]:
            """Return the tasks that there are."""
            ...

        def used_s(self) -> float:
            """Return a processor time that only grows by what the unit uses."""
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

    As of the last look: `used_s` is the processor time of all that the unit started, `starved_s` the time
    in which it could have run, had there been a processor for it, or for who takes its output.

    Args:
        limit_s: processor time that the unit may use.
        below: the processes that it started.
        kept_s: returns how long it was kept waiting by the runner, itself without a processor, since the
            last call.
        now: the time.
        tasks: the tasks that it has started so far.
    """

    def __init__(
        self,
        limit_s: float,
        below: Below,
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

    def next_at(self) -> float:
        """Return when to ask again, by the monotonic clock: at the next look, or when the time may be up."""
        return min(self._next_look, self._expires_at())

    def is_over(self) -> bool:
        """Return whether the unit has had its time. Looks when that is due, or when the answer may be yes."""
        if self._now() < self.next_at():
            return False
        self.look()
        return self.used_s >= self._limit_s or self._looked >= self._expires_at()

    def look(self) -> None:
        """Add what went by since the last look."""
        now = self._now()
        passed_s = now - self._looked
        used_s = max(self._below.used_s() - self._used_before_s, self.used_s)
        idle_s = max(passed_s - (used_s - self.used_s), 0.0)
        self._owed_s += self._waited_s(passed_s) + self._kept_s()
        starved_s = min(self._owed_s, idle_s)
        # What is known late is made good, but waiting of several at once is no stock to draw on.
        self._owed_s = min(self._owed_s - starved_s, _MOST_OWED_S)
        self.used_s, self._looked = used_s, now
        self.starved_s += starved_s
        self._next_look = now + max(LOOK_S, _COST * (self._now() - now))

    def _expires_at(self) -> float:
        return self._began + min(self._limit_s + self.starved_s, MOST * self._limit_s)

    def _waited_s(self, passed_s: float) -> float:
        """Return how many seconds the tasks waited since the last reading, together."""
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
        """Return what one task waited; `ahead_s` of it was counted before the kernel told of it."""
        if before is None:
            # Those like it that came and went between two looks left no trace, so it speaks for them.
            return passed_s if task.is_runnable() else min(task.waited_s, passed_s)
        told_s = task.waited_s - before.waited_s
        stood_still = (task.slices, task.ran_s) == (before.slices, before.ran_s)
        waits = stood_still and task.is_runnable()
        found_s = passed_s if waits else max(told_s - ahead_s, 0.0)
        if (left_s := ahead_s + found_s - told_s) > 0:
            self._ahead[task.pid, task.tid] = left_s
        return found_s
