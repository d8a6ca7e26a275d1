"""How users share one server: whose input is next, and how many connections each user may have.

Parsing and starting a request takes processor time before anything is known about it. Without turns, a user
with many connections that send at the same moment keeps all others waiting for all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from time import perf_counter

from assayd.fair_queue import FairQueue

PIECES = 8
"""Pieces of work that are done in one turn of the event loop."""
TURN_S = 0.001
"""How long one turn may work before the rest waits for the next; a piece that was begun is finished."""


class Turns:
    """The pieces of work that wait, of all connections of one server."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._waiting: FairQueue[Callable[[], None]] = FairQueue()
        self._clock = clock
        self._left = PIECES
        self._left_s = TURN_S
        self._is_due = False

    def take(self, user: int, key: str, work: Callable[[], None]) -> None:
        """Do this work now, or in a later turn. A key that waits already isn't queued twice."""
        if key in self._waiting:
            return
        self._expect_next()
        if self._has_time and not len(self._waiting):
            self._do(work)
        else:
            self._waiting.put(user, "", key, work)

    def forget(self, key: str) -> None:
        """Drop the work under this key, if it still waits."""
        if key in self._waiting:
            self._waiting.remove(key)

    def _expect_next(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    @property
    def _has_time(self) -> bool:
        return self._left > 0 and self._left_s > 0

    def _do(self, work: Callable[[], None]) -> None:
        self._left -= 1
        began = self._clock()
        try:
            work()
        finally:
            self._left_s -= self._clock() - began

    def _begin(self) -> None:
        """Begin a turn of the event loop with what waits."""
        self._is_due = False
        self._left, self._left_s = PIECES, TURN_S
        while self._has_time and len(self._waiting):
            self._expect_next()  # before the work: an error in it must not leave the others waiting
            self._do(self._waiting.pop())


OPERATORS_SHARE = 8
"""An eighth of all places is for operators."""


class Places:
    """The places of one server, one per connection or per request whose client has gone.

    Nobody but operators may hold more than are free, so that each further user finds half of the rest,
    however many others hold idle connections.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[Hashable] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """Return how many places are held."""
        return self._total

    def take(self, user: Hashable, *, is_operator: bool = False) -> bool:
        """Take a place, and return whether there was one."""
        kept = 0 if is_operator else self._limit // OPERATORS_SHARE
        free = self._limit - kept - self._total
        if free <= 0 or (not is_operator and self._held[user] > free):
            return False
        self._held[user] += 1
        self._total += 1
        return True

    def give_back(self, user: Hashable) -> None:
        """Free a place."""
        self._total -= 1
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
