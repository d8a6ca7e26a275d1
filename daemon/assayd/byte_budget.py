"""One budget of bytes for what outsiders make the daemon hold: bodies on their way in, and what waits.

No user may hold more than is free, so that however many fill it, an idle user finds room.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from time import perf_counter

from assayd import memory
from assayd.errors import RequestError
from assayd.fair_queue import FairSemaphore
from assayd.pace import UserThrottle

LARGE_BYTES = 2**20
"""A larger text is read alone: once read, it takes many times its size."""
OPERATORS_SHARE = 8
"""An eighth of the budget is kept for operators."""


class ByteBudget:
    """A number of bytes in memory that all users share.

    Args:
        total_bytes: for everybody; operators alone may use the last eighth.
        pace: of users whose large texts are parsed.
        operators: users without a quota, in addition to those that a caller marks as operators.
    """

    def __init__(
        self, total_bytes: int, *, pace: UserThrottle | None = None, operators: frozenset[int] | None = None
    ) -> None:
        self._total = total_bytes
        self._operators = frozenset({0, os.geteuid()}) if operators is None else operators
        self._said_to_be: set[int] = set()
        self._held: Counter[int] = Counter()
        self._reading = FairSemaphore(1)
        self._parsing = FairSemaphore(1)
        self.pace = pace or UserThrottle()
        self._numbers = count()

    @property
    def held(self) -> int:
        """Return how many bytes are held."""
        return self._held.total()

    def acquire(self, uid: int, size: int, *, operator: bool = False) -> None:
        """Take so many bytes for a user. Raises: RequestError ``queue.full``, retryable if they can fit."""
        is_operator = operator or uid in self._operators or uid in self._said_to_be
        most = self._total if is_operator else self._total - self._total // OPERATORS_SHARE
        if size + self.held + (0 if is_operator else self._held[uid]) > most:
            room = f"limits.queue_mb ({self._total / 2**20:g}) has no room for {size} more bytes of this user"
            later = "try again later" if size <= most else "send less, or have an operator raise the limit"
            message = f"{room}, who holds {self._held[uid]}; {later}"
            raise RequestError("queue.full", message, retryable=size <= most)
        self._held[uid] += size

    def release(self, uid: int, size: int) -> None:
        """Release so many bytes."""
        self._held[uid] -= size
        if not self._held[uid]:
            del self._held[uid]

    @contextmanager
    def growing(self, uid: int, *, operator: bool | None = None) -> Iterator[GrowingReservation]:
        """Yield a reservation that can grow; release its bytes when the body ends.

        Args:
            uid: in whose name.
            operator: whether that user is an operator by a group, which also applies to the bytes in the
                queue. None: as in the last call.
        """
        if operator is not None:
            (self._said_to_be.add if operator else self._said_to_be.discard)(uid)
        growing = GrowingReservation(self, uid)
        try:
            yield growing
        finally:
            growing.resize(0)

    @asynccontextmanager
    async def reading(self, size: int, uid: int) -> AsyncIterator[None]:
        """Wait until no other large text is being read, if this one is large; users take turns."""
        if size <= LARGE_BYTES:
            yield
            return
        async with self._reading.hold(uid, "", str(next(self._numbers))):
            try:
                yield
            finally:
                await asyncio.to_thread(memory.give_back)

    @asynccontextmanager
    async def parsing(self, uid: int) -> AsyncIterator[None]:
        """Wait until no other thread parses, users in turn, and until this user need not rest.

        Threads that parse compete with the event loop for the interpreter: with several at once, everything
        else waits for each of them whenever it wants to go on.
        """
        while True:
            await asyncio.sleep(self.pace.rest_s(uid))
            async with self._parsing.hold(uid, "", str(next(self._numbers))):
                if self.pace.rest_s(uid):
                    continue  # another of its texts was parsed meanwhile
                began = perf_counter()
                try:
                    yield
                finally:
                    self.pace.used(uid, perf_counter() - began)
                return


class GrowingReservation:
    """The bytes of a budget that one request has reserved."""

    def __init__(self, budget: ByteBudget, uid: int) -> None:
        self._budget = budget
        self._uid = uid
        self._size = 0

    def resize(self, size: int) -> None:
        """Hold so many bytes from now on. Raises: RequestError ``queue.full``."""
        if size > self._size:
            self._budget.acquire(self._uid, size - self._size)
        else:
            self._budget.release(self._uid, self._size - size)
        self._size = size
