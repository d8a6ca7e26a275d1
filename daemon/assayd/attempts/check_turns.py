"""Turns for static checks that record nothing, so that they don't delay other users' large texts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from weakref import WeakValueDictionary

from assayd.byte_budget import LARGE_BYTES
from assayd.fair_queue import FairSemaphore

MOST_LARGE = 2
"""Large submissions in memory for static checks, of all users: read, each takes many times its size."""


class CheckTurns:
    """Limits static checks to one per user, and to a few large submissions at a time, in users' turn."""

    def __init__(self) -> None:
        self._users: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._large = FairSemaphore(MOST_LARGE)
        self._numbers = count()

    @asynccontextmanager
    async def of_user(self, uid: int) -> AsyncIterator[None]:
        """Wait until no other check of this user is running."""
        lock = self._users.setdefault(uid, asyncio.Lock())
        async with lock:
            yield

    @asynccontextmanager
    async def of_size(self, uid: int, size: int) -> AsyncIterator[None]:
        """Wait until a submission of `size` bytes may be read and kept in memory during its analysis."""
        if size <= LARGE_BYTES:
            yield
            return
        async with self._large.hold(uid, "", str(next(self._numbers))):
            yield
