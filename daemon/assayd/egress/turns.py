"""Shares the event loop among the relay's connections, and limits the relay's total share.

Bytes from guest code and from hosts are processed in turns, with one turn per iteration of the event loop.
Turns alternate between users, then between each user's attempts. A turn lasts until its connection waits
for something. Its duration is measured, and a pause follows, so that the relay never exceeds its share of
the loop, regardless of the data that it receives.

`ThresholdSemaphore` is fair: a user can take another slot only while holding fewer slots than are free.

A single user gets half of the slots, the next user a quarter, and so on, so that a new user always finds a
free slot.

Source: Choudhury and Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from itertools import count
from time import perf_counter

from assayd.fair_queue import FairQueue


class ThresholdSemaphore:
    """A semaphore with a fixed number of slots. Waiting users get slots in turn."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: Counter[int] = Counter()
        self._waiting: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def free(self) -> int:
        """Return the number of free slots."""
        return self._free

    async def acquire(self, owner: int) -> None:
        """Take a slot for this user. Wait until the user may take one."""
        if owner not in self._waiting and self._can_take(owner):
            self._take_slot(owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(owner)  # The slot was assigned in the same moment as the cancellation.
            raise

    def release(self, owner: int) -> None:
        """Release a slot of this owner, and assign free slots to waiters."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._assign_slots()

    def _can_take(self, owner: int) -> bool:
        return self._free > 0 and self._held[owner] < max(self._free, 1)

    def _take_slot(self, owner: int) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _assign_slots(self) -> None:
        """Assign slots to waiters until no waiter may take another slot."""
        given = True
        while given:
            given = False
            for owner in list(self._waiting):
                given |= self._assign_slot_to_owner(owner)

    def _assign_slot_to_owner(self, owner: int) -> bool:
        """Assign a slot to one waiter of a user, if the user may take another slot.

        Return whether a slot was assigned.
        """
        waiting = self._waiting[owner]
        while waiting and waiting[0].done():  # cancelled in the meantime
            waiting.popleft()
        served = bool(waiting) and self._can_take(owner)
        if served:
            self._take_slot(owner)
            waiting.popleft().set_result(None)
            self._waiting.move_to_end(owner)
        if not waiting:
            del self._waiting[owner]
        return served


SHARE = 0.5
"""The fraction of the event loop's time for all connections."""
BURST_S = 0.02
"""Seconds of its share that an idle relay saves up, so that ordinary accesses don't pause."""

Turn = Callable[[], Awaitable[None]]
"""Waits for the next turn of a connection, and begins it."""


class TurnScheduler:
    """A scheduler of turns in the event loop: one at a time, alternating between users."""

    def __init__(
        self, *, share: float = SHARE, burst_s: float = BURST_S, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._share = share
        self._burst_s = burst_s
        self._clock = clock
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._keys = count()
        self._given = False
        self._began = 0.0
        self._paid_until = 0.0

    async def wait_for_turn(self, owner: int, lane: str) -> None:
        """Wait for a turn, which ends the next time the caller waits for something."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, lane, str(next(self._keys)), turn)
        if not self._given:
            self._given = True
            asyncio.get_running_loop().call_soon(self._grant_turn)
        await turn

    def _grant_turn(self) -> None:
        """Begin the next turn, and schedule the measurement of its duration."""
        loop = asyncio.get_running_loop()
        while len(self._waiting):
            turn = self._waiting.pop()
            if not turn.done():  # Otherwise, its connection was dropped.
                loop.call_soon(self._start_measurement)
                turn.set_result(None)
                loop.call_soon(self._end_turn)
                return
        self._given = False

    def _start_measurement(self) -> None:
        self._began = self._clock()

    def _end_turn(self) -> None:
        now = self._clock()
        self._paid_until = max(self._paid_until, now - self._burst_s) + (now - self._began) / self._share
        loop = asyncio.get_running_loop()
        if self._paid_until > now:
            loop.call_later(self._paid_until - now, self._grant_turn)
        else:
            loop.call_soon(self._grant_turn)
