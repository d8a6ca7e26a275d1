"""Places shared by users: each user can take another one while it has fewer than are free.

One user alone gets half of them, the next a quarter, and so on: somebody new finds one.

Source: Choudhury and Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque


class ThresholdSemaphore:
    """A semaphore of so many slots; those who wait get one in turn, users alternating."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: Counter[int] = Counter()
        self._waiting: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def free(self) -> int:
        """Count the free places."""
        return self._free

    async def acquire(self, owner: int) -> None:
        """Take a place, as soon as there is one for this user."""
        if owner not in self._waiting and self._may(owner):
            self._take(owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(owner)  # the place came at the same moment
            raise

    def release(self, owner: int) -> None:
        """Release a place."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._hand_out()

    def _may(self, owner: int) -> bool:
        return self._free > 0 and self._held[owner] < max(self._free, 1)

    def _take(self, owner: int) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _hand_out(self) -> None:
        """Assign places to waiters, until no waiter can have one."""
        given = True
        while given:
            given = False
            for owner in list(self._waiting):
                given |= self._serve(owner)

    def _serve(self, owner: int) -> bool:
        """Return one waiting connection of a user its place, if it may have one."""
        waiting = self._waiting[owner]
        while waiting and waiting[0].done():  # it was cancelled meanwhile
            waiting.popleft()
        served = bool(waiting) and self._may(owner)
        if served:
            self._take(owner)
            waiting.popleft().set_result(None)
            self._waiting.move_to_end(owner)
        if not waiting:
            del self._waiting[owner]
        return served
