"""Whose input is worked on next: a few pieces and a moment per turn of the event loop, users in turn.

Parsing and starting a request takes processor time before anything is known about it. Without turns, a user
with many connections that send at the same moment keeps all others waiting for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
