"""Shared asyncio helpers: one deadline per attempt, pauses, and cleanup that survives cancellation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

INITIAL_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0


MOST = 3.0
"""The factor by which the deadline's timeout can grow at most, because of uncounted time."""
_TICK_S = 0.1
_MAX_TICK_DELAY_S = 0.01


class Deadline:
    """A timeout that all steps of an attempt share. It can be restarted, extended or cancelled.

    `cancel()` makes all open scopes, and every later scope, raise TimeoutError. Time in which the event loop
    was blocked, and time passed to `exclude_time`, don't count. The deadline always expires after three times
    its timeout.
    """

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._scopes: set[asyncio.Timeout] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.cancelled = False
        self.restart(timeout_s)

    def restart(self, timeout_s: float) -> None:
        """Restart the countdown with `timeout_s` seconds. Call this only while no scope is open.

        A cancelled deadline stays cancelled.
        """
        self._began, self._timeout_s = self._loop.time(), timeout_s
        self._late_s = self._left_out_s = 0.0

    def exclude_time(self, total_s: float) -> None:
        """Exclude `total_s` seconds, in total since the start, from the timeout. Ignore a lower total."""
        self._left_out_s = max(total_s, self._left_out_s)

    def cancel(self) -> None:
        """Make the deadline expire immediately."""
        self.cancelled = True
        self._expire_scopes()

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        """Raise TimeoutError in the body when the deadline expires or is cancelled."""
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

    def _expires_at(self) -> float:
        passing_s = self._timeout_s + self._late_s + self._left_out_s
        return self._began + min(passing_s, MOST * self._timeout_s)

    def _set_timer(self) -> None:
        tick_s = max(_TICK_S, self._timeout_s / 1000)
        due = min(self._loop.time() + tick_s, self._expires_at())
        self._timer = self._loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        """Check whether the deadline has expired. Ignore delays caused by a busy event loop."""
        late_s = self._loop.time() - due
        self._late_s += late_s if late_s > _MAX_TICK_DELAY_S else 0.0
        if self._loop.time() >= self._expires_at():
            self._timer = None
            self._expire_scopes()
        else:
            self._set_timer()

    def _expire_scopes(self) -> None:
        for scope in self._scopes:
            # An expired timeout is already being raised and can't be rescheduled.
            if not scope.expired():
                scope.reschedule(self._loop.time())


class BroadcastEvent:
    """A repeatable broadcast event. Get `next` before checking the state, then wait for that event."""

    def __init__(self) -> None:
        self._next: asyncio.Event | None = None

    @property
    def next(self) -> asyncio.Event:
        """Return the event that the next `wake_all` sets. Create it if no other task waits yet."""
        if self._next is None:
            self._next = asyncio.Event()
        return self._next

    def wake_all(self) -> None:
        """Wake all tasks that wait for an event returned by `next`."""
        if self._next is not None:
            self._next.set()
            self._next = None


async def pause(time_s: float, *, unless: asyncio.Event) -> None:
    """Sleep for `time_s` seconds, or until the event `unless` is set."""
    try:
        # Not `wait_for`: that of Python 3.11 loses a cancellation that comes together with the event.
        async with asyncio.timeout(time_s):
            await unless.wait()
    except TimeoutError:
        return


def compute_backoff_delay_s(failures: int) -> float:
    """Return the exponential delay in seconds, with jitter, after `failures` consecutive failures.

    It is at most `MAX_BACKOFF_S`.
    """
    jitter_s = random.uniform(0, INITIAL_BACKOFF_S)  # noqa: S311 - spreads retries, keeps no secret
    return min(INITIAL_BACKOFF_S * 2.0 ** min(failures - 1, 10) + jitter_s, MAX_BACKOFF_S)


def compute_tenacity_delay_s(state: RetryCallState) -> float:
    """Return the seconds before the next try, as a `wait` callback for tenacity."""
    return compute_backoff_delay_s(state.attempt_number)


@asynccontextmanager
async def open_task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a TaskGroup that raises the body's error unwrapped, once its tasks have ended.

    A bare TaskGroup would wrap the error in an exception group. The body must ensure that all tasks end.
    """
    problem: Exception | None = None
    async with asyncio.TaskGroup() as group:
        try:
            yield group
        except Exception as raised:  # noqa: BLE001 - raised again below
            problem = raised
    if problem is not None:
        raise problem


async def run_concurrently(*works: Coroutine[object, object, None]) -> None:
    """Run all coroutines to completion. The first error cancels the others and is raised unwrapped."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as problems:
        raise problems.exceptions[0] from None


async def run_cleanup(work: Coroutine[object, object, T], *, timeout_s: float) -> T:
    """Run cleanup to completion within a timeout, even if the caller is cancelled in the meantime.

    Raises: CancelledError after the cleanup, if the caller was cancelled; TimeoutError, if the cleanup took
    too long; any error of the cleanup.
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


async def open_first_available(
    places: Sequence[str], open_one: Callable[[str], Awaitable[T]], *, until: float
) -> T:
    """Open the first available location. Divide the remaining time among the locations.

    Args:
        places: the locations; at least one.
        open_one: opens a location. Any error other than OSError ends the search.
        until: the time at which the timeout expires, by the event loop's clock.

    Raises: OSError or TimeoutError, if no location is available: the error that the last one raised.
    """
    now = asyncio.get_running_loop().time
    for left in range(len(places), 1, -1):
        with suppress(OSError):
            async with asyncio.timeout((until - now()) / left):
                return await open_one(places[-left])
    async with asyncio.timeout_at(until):
        return await open_one(places[-1])
