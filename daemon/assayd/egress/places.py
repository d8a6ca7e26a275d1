"""A fair semaphore: a user can take another slot only while holding fewer slots than are free.

A single user gets half of the slots, the next user a quarter, and so on, so that a new user always finds a
free slot.

Source: Choudhury and Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque


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
        """Wait for a slot for this user, and take it."""
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
        """Release a slot."""
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
                given |= self._serve_owner(owner)

    def _serve_owner(self, owner: int) -> bool:
        """Assign a slot to one waiter of a user, if the user may take another slot."""
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
