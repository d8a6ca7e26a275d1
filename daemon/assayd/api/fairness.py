"""How users share one server: the order in which their input is processed, and connections per user.

Parsing and starting a request takes processor time before anything is known about it. Without turns, a user
whose many connections send at the same moment delays all other users until all of that input is processed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from time import perf_counter

from assayd.fair_queue import FairQueue, UserThrottle


class Turns:
    """A queue of work from all connections of a server; each iteration of the event loop does one piece."""

    def __init__(self, pace: UserThrottle | None = None) -> None:
        self._waiting: FairQueue[tuple[int, Callable[[], None]]] = FairQueue()
        self._pace = pace or UserThrottle()
        self._is_due = False
        self._resting: asyncio.TimerHandle | None = None

    def take(self, user: int, key: str, work: Callable[[], None]) -> None:
        """Do this work now or at a later turn; do nothing if work with this key is already waiting."""
        if key in self._waiting:
            return
        self._pace.note(user)
        if self._is_due or user in self._waiting.users() or self._pace.rest_s(user):
            self._waiting.put(user, "", key, (user, work))
            self._schedule_turn()
        else:
            self._run_work(user, work)

    def forget(self, key: str) -> None:
        """Remove the work with this key from the queue if it is still waiting."""
        if key in self._waiting:
            self._waiting.remove(key)

    def _run_work(self, user: int, work: Callable[[], None]) -> None:
        self._schedule_turn()  # before the work: an error in it must not leave the others waiting
        began = perf_counter()
        try:
            work()
        finally:
            self._pace.used(user, perf_counter() - began)

    def _schedule_turn(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Begin a turn: do the waiting work of users who aren't throttled."""
        self._is_due = False
        if self._resting is not None:
            self._resting.cancel()
        rests = {user: rest_s for user in self._waiting.users() if (rest_s := self._pace.rest_s(user))}
        item = self._waiting.pop_other_user(rests)
        if item is not None:
            self._run_work(*item)
        elif rests:
            self._resting = asyncio.get_running_loop().call_later(min(rests.values()), self._schedule_turn)


OPERATORS_SHARE = 8
"""An eighth of all places is for operators."""


class Places:
    """The connection slots of a server; a running request whose client has disconnected also holds a slot.

    Except for operators, a user can't hold more slots than are free. Each further user can therefore get
    half of the remaining slots, regardless of how many idle connections others hold.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[Hashable] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """Return the number of occupied slots."""
        return self._total

    def take(self, user: Hashable, *, is_operator: bool = False) -> bool:
        """Take a slot, and return whether one was available."""
        kept = 0 if is_operator else self._limit // OPERATORS_SHARE
        free = self._limit - kept - self._total
        if free <= 0 or (not is_operator and self._held[user] > free):
            return False
        self._held[user] += 1
        self._total += 1
        return True

    def give_back(self, user: Hashable) -> None:
        """Release a slot."""
        self._total -= 1
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
