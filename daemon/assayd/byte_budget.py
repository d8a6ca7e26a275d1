"""A budget of bytes, shared by all users, for bodies and waiting documents held in memory.

A user can't hold more bytes than are free, so that a new user always finds free bytes, regardless of how
many users fill the budget.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import count
from time import perf_counter
from typing import TypeVar

from assayd.errors import RequestError
from assayd.fair_queue import FairSemaphore, UserThrottle
from assayd.program import release_free_memory

SMALL_BYTES = 64 * 2**10
"""Inputs larger than this are parsed in a thread, so that they don't block the event loop."""
LARGE_BYTES = 2**20
"""Inputs larger than this are read one at a time, because a parsed input takes many times its size."""
OPERATORS_SHARE = 8
"""The divisor for the operators' share: an eighth of the budget is reserved for operators."""
T = TypeVar("T")


class ByteBudget:
    """A number of bytes of memory, shared by all users.

    Args:
        total_bytes: the bytes for all users; only operators may use the last eighth.
        pace: throttles users whose large texts are parsed.
        operators: users without a quota, in addition to users whom a caller marks as operators.
    """

    def __init__(
        self, total_bytes: int, *, pace: UserThrottle | None = None, operators: frozenset[int] | None = None
    ) -> None:
        self._total = total_bytes
        self._operators = frozenset({0, os.geteuid()}) if operators is None else operators
        self._known_operators: set[int] = set()
        self._held: Counter[int] = Counter()
        self._reading = FairSemaphore(1)
        self._parsing = FairSemaphore(1)
        self.pace = pace or UserThrottle()
        self._numbers = count()

    @property
    def held(self) -> int:
        """Return the number of reserved bytes."""
        return self._held.total()

    def acquire(self, uid: int, size: int, *, operator: bool = False) -> None:
        """Reserve bytes for a user.

        Raises: RequestError ``queue.full``, retryable unless `size` exceeds the whole budget.
        """
        is_operator = operator or uid in self._operators or uid in self._known_operators
        most = self._total if is_operator else self._total - self._total // OPERATORS_SHARE
        if size + self.held + (0 if is_operator else self._held[uid]) > most:
            room = f"limits.queue_mb ({self._total / 2**20:g}) has no room for {size} more bytes of this user"
            later = "try again later" if size <= most else "send less, or have an operator raise the limit"
            message = f"{room}, who holds {self._held[uid]}; {later}"
            raise RequestError("queue.full", message, retryable=size <= most)
        self._held[uid] += size

    def release(self, uid: int, size: int) -> None:
        """Release reserved bytes of a user."""
        self._held[uid] -= size
        if not self._held[uid]:
            del self._held[uid]

    @contextmanager
    def reserve_growing(self, uid: int, *, operator: bool | None = None) -> Iterator[GrowingReservation]:
        """Yield a reservation that can grow. Release its bytes when the body ends.

        Args:
            uid: the user whose share is charged.
            operator: whether the user is an operator through a group; this also applies to the user's bytes
                in the queue. If None, the value of the last call applies.
        """
        if operator is not None:
            (self._known_operators.add if operator else self._known_operators.discard)(uid)
        growing = GrowingReservation(self, uid)
        try:
            yield growing
        finally:
            growing.resize(0)

    @asynccontextmanager
    async def reading(self, size: int, uid: int) -> AsyncIterator[None]:
        """Hold the turn for reading an input of `size` bytes while the body runs.

        An input of up to `LARGE_BYTES` needs no turn.

        Users take turns. A throttled user waits before the turn, because other users wait for its end.
        """
        if size <= LARGE_BYTES:
            yield
            return
        async with self._hold_throttled_turn(self._reading, uid):
            try:
                yield
            finally:
                await asyncio.to_thread(release_free_memory)

    @asynccontextmanager
    async def wait_to_parse(self, uid: int, size: int = 0) -> AsyncIterator[None]:
        """Hold the only turn for parsing while the body runs. Users take turns, and throttled users wait.

        Parsing threads compete with the event loop for the interpreter. If several were parsing at once, all
        other work would wait for each of them whenever it needs the interpreter.

        Args:
            uid: the user.
            size: the bytes to parse. If they are so many that the user holds the turn of `reading`, the user
                isn't throttled again.
        """
        rested = size > LARGE_BYTES
        turn = self._turn(self._parsing, uid) if rested else self._hold_throttled_turn(self._parsing, uid)
        async with turn:
            began = perf_counter()
            try:
                yield
            finally:
                self.pace.record_use(uid, perf_counter() - began)

    async def parse(self, text: bytes, uid: int, parse: Callable[[bytes], T]) -> T:
        """Parse bytes and return the result.

        More than `SMALL_BYTES` are parsed in a thread, at the user's turn.

        For more than `LARGE_BYTES`, the caller must hold the turn of `reading`.
        """
        if len(text) <= SMALL_BYTES:
            return parse(text)
        async with self.wait_to_parse(uid, len(text)):
            return await asyncio.to_thread(parse, text)

    async def parse_in_turn(self, text: bytes, uid: int, parse: Callable[[bytes], T]) -> T:
        """Parse bytes and return the result.

        For more than `LARGE_BYTES`, wait for the turn of `reading` first.
        """
        async with self.reading(len(text), uid):
            return await self.parse(text, uid, parse)

    def _turn(self, turns: FairSemaphore, uid: int) -> AbstractAsyncContextManager[None]:
        return turns.hold(uid, "", str(next(self._numbers)))

    @asynccontextmanager
    async def _hold_throttled_turn(self, turns: FairSemaphore, uid: int) -> AsyncIterator[None]:
        while True:
            await asyncio.sleep(self.pace.get_throttle_delay_s(uid))
            async with self._turn(turns, uid):
                if self.pace.get_throttle_delay_s(uid):
                    continue  # another of its texts was parsed meanwhile: read the budget again
                yield
                return


class GrowingReservation:
    """The bytes of a budget that one request has reserved."""

    def __init__(self, budget: ByteBudget, uid: int) -> None:
        self._budget = budget
        self._uid = uid
        self._size = 0

    def resize(self, size: int) -> None:
        """Change the reservation to the given number of bytes.

        Raises: RequestError ``queue.full``, if there are too few free bytes to enlarge it.
        """
        if size > self._size:
            self._budget.acquire(self._uid, size - self._size)
        else:
            self._budget.release(self._uid, self._size - size)
        self._size = size
