"""What our asyncio code shares: one deadline per attempt, pauses, cleanup that cannot be cancelled away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

BACK_OFF_S = 0.5
MOST_BACK_OFF_S = 30.0


MOST = 3.0
"""A deadline comes after so many times its time, whatever is not counted."""
_TICK_S = 0.1
_PUNCTUAL_S = 0.01


class Deadline:
    """The moment by which something must be over, which may also be declared to be now.

    One object is passed down through everything that an attempt does. `cancel()` ends every scope that
    is open, and every one that is opened later. Time in which the event loop stood still is not counted, nor
    what `leave_out` names; at three times its time the deadline comes in any case.
    """

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._scopes: set[asyncio.Timeout] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.cancelled = False
        self.restart(timeout_s)

    def restart(self, timeout_s: float) -> None:
        """Count `timeout_s` seconds from now. No scope may be open."""
        self._began, self._timeout_s = self._loop.time(), timeout_s
        self._late_s = self._left_out_s = 0.0

    def leave_out(self, total_s: float) -> None:
        """Do not count so many seconds of the time since it began."""
        self._left_out_s = max(total_s, self._left_out_s)

    def cancel(self) -> None:
        """Declare that the time is up now."""
        self.cancelled = True
        self._end_scopes()

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        """Bound the body. Raises: TimeoutError when the time is up or was declared to be."""
        when = self._loop.time() if self.cancelled else None
        async with asyncio.timeout_at(when) as scope:
            self._scopes.add(scope)
            if self._timer is None:
                self._set_timer()
            try:
                yield
            finally:
                self._scopes.discard(scope)
                if not self._scopes and self._timer is not None:
                    self._timer.cancel()
                    self._timer = None

    def _up_at(self) -> float:
        passing_s = self._timeout_s + self._late_s + self._left_out_s
        return self._began + min(passing_s, MOST * self._timeout_s)

    def _set_timer(self) -> None:
        tick_s = max(_TICK_S, self._timeout_s / 1000)
        due = min(self._loop.time() + tick_s, self._up_at())
        self._timer = self._loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        """Look whether the time is up; a loop that comes late was busy with something else."""
        late_s = self._loop.time() - due
        self._late_s += late_s if late_s > _PUNCTUAL_S else 0.0
        if self._loop.time() >= self._up_at():
            self._timer = None
            self._end_scopes()
        else:
            self._set_timer()

    def _end_scopes(self) -> None:
        for scope in self._scopes:
            # An expired one is already being cancelled, and can't be cancelled again.
            if not scope.expired():
                scope.reschedule(self._loop.time())


class Signal:
    """Wakes all waiters, each time. Take `next` first, then check the state, then wait for it."""

    def __init__(self) -> None:
        self._next: asyncio.Event | None = None

    @property
    def next(self) -> asyncio.Event:
        """Return the event of the next change. Created on demand, since usually no task waits."""
        if self._next is None:
            self._next = asyncio.Event()
        return self._next

    def give(self) -> None:
        """Wake all tasks that have taken `next`."""
        if self._next is not None:
            self._next.set()
            self._next = None


async def pause(time_s: float, *, unless: asyncio.Event) -> None:
    """Let time pass, but no more once something is the case."""
    try:
        # Not `wait_for`: that of Python 3.11 loses a cancellation that comes together with the event.
        async with asyncio.timeout(time_s):
            await unless.wait()
    except TimeoutError:
        return


def back_off_s(failures: int) -> float:
    """Return how many seconds to wait after so many failures in a row: exponential, with jitter."""
    jitter_s = random.uniform(0, BACK_OFF_S)  # noqa: S311 - spreads retries, keeps no secret
    return min(BACK_OFF_S * 2.0 ** min(failures - 1, 10) + jitter_s, MOST_BACK_OFF_S)


def back_off(state: RetryCallState) -> float:
    """Return the same as tenacity's `wait`: seconds before the next try, by the number of tries so far."""
    return back_off_s(state.attempt_number)


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Return a TaskGroup that raises an error of its body unchanged, after its tasks have ended.

    A bare TaskGroup would wrap that error into a group. The body must see to it that its tasks end.
    """
    problem: Exception | None = None
    async with asyncio.TaskGroup() as group:
        try:
            yield group
        except Exception as raised:  # noqa: BLE001 - raised again below
            problem = raised
    if problem is not None:
        raise problem


async def together(*works: Coroutine[object, object, None]) -> None:
    """Run all of them to their ends; the first problem ends the others and is raised by itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as problems:
        raise problems.exceptions[0] from None


async def finish(work: Coroutine[object, object, T], *, timeout_s: float) -> T:
    """Run cleanup to its end even when the caller is cancelled meanwhile, but not longer than a time.

    Raises: CancelledError after the cleanup, when the caller was cancelled; TimeoutError when the
    cleanup took too long; whatever the cleanup raises.
    """
    task = asyncio.ensure_future(asyncio.wait_for(work, timeout_s))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as request:
            cancelled = request
    if cancelled is not None:
        raise cancelled
    return task.result()


async def first_that_opens(
    places: Sequence[str], open_one: Callable[[str], Awaitable[T]], *, until: float
) -> T:
    """Open the first of several places that can be opened; each has its share of the time that is left.

    Args:
        places: at least one.
        open_one: opens a place. Any error but an OSError ends the search.
        until: when the time is over, by the clock of the event loop.

    Raises: OSError, TimeoutError: what the last place failed with.
    """
    now = asyncio.get_running_loop().time
    for left in range(len(places), 1, -1):
        with suppress(OSError):
            async with asyncio.timeout((until - now()) / left):
                return await open_one(places[-left])
    async with asyncio.timeout_at(until):
        return await open_one(places[-1])
