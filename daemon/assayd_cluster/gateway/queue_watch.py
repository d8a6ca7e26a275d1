"""Sees messages that were taken from the queue and not claimed, and attempts published again.

A program that takes messages and claims none is a node that hangs, or has a stolen account of the broker. The
broker says how many messages wait, the database how many published attempts no node has: the rest was taken.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NoReturn

import structlog
from celery import Celery
from sqlalchemy import Connection, func, select

from assayd.errors import StoreError
from assayd.store import tables
from assayd_cluster.clock import NOW
from assayd_cluster.gateway.publisher import AWAY
from assayd_cluster.tables import dispatches

log = structlog.get_logger()

LOOKED_EVERY_S = 5.0
LOOKS = 4
"""Messages count as taken if they were missing at each of the last looks."""
RECENT_S = 600.0
SLOTS = 60

_RUN = tables.runs.c
_IN_HAND = select(_RUN.run_number).where(_RUN.attempt_id == dispatches.c.attempt_id, _RUN.expires_at > NOW)
_UNCLAIMED = (
    select(func.count())
    .select_from(dispatches)
    .where(dispatches.c.published_at.is_not(None), ~_IN_HAND.exists())
)


def count_unclaimed(connection: Connection) -> int:
    """Count the attempts of all gateways that were published and are in no node's hands."""
    return int(connection.execute(_UNCLAIMED).scalar_one())


class _Lately:
    """Counts what happened in the last `RECENT_S` seconds, to a sixtieth of that."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: deque[tuple[int, int]] = deque(maxlen=SLOTS)
        """Number of a slot, and the count in it."""

    def note(self) -> None:
        """Count one."""
        slot = self._slot()
        newest, count = self._counts[-1] if self._counts else (slot, 0)
        if newest != slot:
            count = 0
        elif self._counts:
            self._counts.pop()
        self._counts.append((slot, count + 1))

    @property
    def count(self) -> int:
        """Return how often it happened."""
        oldest = self._slot() - SLOTS
        return sum(count for slot, count in self._counts if slot > oldest)

    def _slot(self) -> int:
        return int(self._clock() * SLOTS / RECENT_S)


class QueueWatch:
    """Counts messages that are missing in the queue, and attempts published again lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._missing: deque[int] = deque(maxlen=LOOKS)
        self._again = _Lately(clock)
        self._passed_on = _Lately(clock)

    @property
    def taken(self) -> int:
        """Return how many messages were taken and not claimed for `LOOKS` times `LOOKED_EVERY_S` seconds."""
        return max(0, min(self._missing)) if len(self._missing) == LOOKS else 0

    @property
    def published_again(self) -> int:
        """Return how many attempts were published again in the last `RECENT_S` seconds."""
        return self._again.count

    @property
    def passed_on(self) -> int:
        """Return how many attempts were published again because a node claimed them that takes no work."""
        return self._passed_on.count

    def note_published_again(self) -> None:
        """Count an attempt that no node has claimed, or whose node is gone."""
        self._again.note()

    def note_passed_on(self) -> None:
        """Count an attempt that came to a node which takes no work."""
        self._passed_on.note()

    def note(self, *, waiting: int, unclaimed: int) -> None:
        """Take in how many messages wait, and how many attempts no node has, counted in this order."""
        self._missing.append(unclaimed - waiting)

    async def keep(self, queue: WaitingMessages, unclaimed: Callable[[], Awaitable[int]]) -> NoReturn:
        """Look again and again."""
        try:
            while True:
                await asyncio.sleep(LOOKED_EVERY_S)
                await self._look(queue, unclaimed)
        finally:
            queue.close()

    async def _look(self, queue: WaitingMessages, unclaimed: Callable[[], Awaitable[int]]) -> None:
        try:
            waiting = await asyncio.to_thread(queue.count)
            self.note(waiting=waiting, unclaimed=await unclaimed())
        except (*AWAY, StoreError) as trouble:
            self._missing.clear()
            log.warning("queue.not_looked_at", problem=type(trouble).__name__)


class WaitingMessages:
    """Asks the broker how many messages wait; that needs no right on the queue. For one thread at a time."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery
        self._queue = celery.conf.task_default_queue
        self._connection: Any = None

    def count(self) -> int:
        """Return how many wait. Raises: one of AWAY."""
        try:
            if self._connection is None:
                limits = {"read_timeout": LOOKED_EVERY_S, "write_timeout": LOOKED_EVERY_S}
                self._connection = self._celery.connection_for_write(transport_options=limits)
                self._connection.connect()
            with self._connection.channel() as channel:
                return int(channel.queue_declare(self._queue, passive=True).message_count)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*AWAY):
                connection.collect()
