"""Detects messages that were read from the queue but not claimed, and drains the nodes that read them.

If a program reads messages but claims no run, it is a node that hangs, or it uses a stolen broker account.
The broker reports the number of waiting messages, and the database the number of published attempts that no
node has claimed; the difference is the number of messages that were read but not claimed. The broker also
counts the messages that it delivers to each node's account, which shows the node. Without an account for each
node, `QueueReaderMonitor` does nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import structlog
from celery import Celery
from sqlalchemy import Connection, bindparam, func, select

from assayd.errors import RequestError, StoreError
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd_cluster.gateway.broker_accounts import BrokerAccounts
from assayd_cluster.gateway.failing_nodes import NodeFailureCounter
from assayd_cluster.gateway.outbox import AWAY
from assayd_cluster.tables import NOW, dispatches, nodes

log = structlog.get_logger()


CHECK_INTERVAL_S = 5.0
LOOKS = 4
"""Number of consecutive checks in which a message must be missing to count as taken."""
RECENT_WINDOW_S = 600.0
SLOTS = 60

_RUN = tables.runs.c
_SELECT_IN_HAND = select(_RUN.run_number).where(
    _RUN.attempt_id == dispatches.c.attempt_id, _RUN.expires_at > NOW
)
_UNCLAIMED = (
    select(func.count())
    .select_from(dispatches)
    .where(dispatches.c.published_at.is_not(None), ~_SELECT_IN_HAND.exists())
)

QUIET_S = 10.0
"""Seconds after a node's last claim for which its messages aren't counted: the broker's numbers are up to 5 s
old.
"""
GROWTHS = 3
"""Number of checks at which a node must have received further messages; a hung node soon receives no more."""
_CLAIMING = (
    select(_RUN.daemon_id)
    .distinct()
    .where(
        _RUN.daemon_id.in_(bindparam("nodes", expanding=True)),
        _RUN.leased_at > NOW - int(QUIET_S * 1_000_000),
    )
)
_CAPACITIES = select(nodes.c.name, nodes.c.capacity)


def count_unclaimed(connection: Connection) -> int:
    """Count the published attempts of all gateways that no node has claimed."""
    return int(connection.execute(_UNCLAIMED).scalar_one())


class SlidingWindowCounter:
    """A counter of the events in the last `RECENT_WINDOW_S` seconds, accurate to a sixtieth of this time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: deque[tuple[int, int]] = deque(maxlen=SLOTS)
        """The counts as pairs of a slot's number and its count."""

    def note(self) -> None:
        """Count one event at the current time."""
        slot = self._current_slot()
        newest, count = self._counts[-1] if self._counts else (slot, 0)
        if newest != slot:
            count = 0
        elif self._counts:
            self._counts.pop()
        self._counts.append((slot, count + 1))

    @property
    def count(self) -> int:
        """Return the number of events in the last `RECENT_WINDOW_S` seconds."""
        oldest = self._current_slot() - SLOTS
        return sum(count for slot, count in self._counts if slot > oldest)

    def _current_slot(self) -> int:
        return int(self._clock() * SLOTS / RECENT_WINDOW_S)


class QueueMonitor:
    """A monitor of messages that are missing from the queue, and of recently republished attempts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._missing: deque[int] = deque(maxlen=LOOKS)
        self.is_empty = False
        """Whether no message waited at the last check; False if the broker didn't respond."""
        self.unclaimed_by_node: Mapping[str, int] = {}
        """How many messages the account of each node has received since the node last claimed a run."""
        self._again = SlidingWindowCounter(clock)
        self._passed_on = SlidingWindowCounter(clock)
        self._taken_back = SlidingWindowCounter(clock)

    @property
    def taken(self) -> int:
        """Return the number of messages that were read but not claimed during the last `LOOKS` checks.

        Return 0 before the first `LOOKS` checks.
        """
        return max(0, min(self._missing)) if len(self._missing) == LOOKS else 0

    @property
    def republished_attempts(self) -> int:
        """Return the number of attempts republished in the last `RECENT_WINDOW_S` seconds."""
        return self._again.count

    @property
    def passed_on_attempts(self) -> int:
        """Return the number of attempts republished because a node that accepts no work claimed them.

        Only the last `RECENT_WINDOW_S` seconds count.
        """
        return self._passed_on.count

    @property
    def reclaimed_runs(self) -> int:
        """Return the number of runs taken back from nodes in the last `RECENT_WINDOW_S` seconds."""
        return self._taken_back.count

    def record_taken_back_run(self) -> None:
        """Count a run that was taken back from its node."""
        self._taken_back.note()

    def record_republished_attempt(self) -> None:
        """Count a republished attempt that no node had claimed, or whose node was lost."""
        self._again.note()

    def record_passed_on_attempt(self) -> None:
        """Count an attempt that was delivered to a node that accepts no work."""
        self._passed_on.note()

    def note(self, *, waiting: int, unclaimed: int) -> None:
        """Record the number of waiting messages, and the later count of unclaimed attempts."""
        self._missing.append(unclaimed - waiting)
        self.is_empty = waiting == 0

    async def keep(self, queue: QueueLengthReader, unclaimed: Callable[[], Awaitable[int]]) -> NoReturn:
        """Measure the queue every `LOOKED_EVERY_S` seconds, until cancelled."""
        try:
            while True:
                await asyncio.sleep(CHECK_INTERVAL_S)
                await self._measure_queue(queue, unclaimed)
        finally:
            queue.close()

    async def _measure_queue(self, queue: QueueLengthReader, unclaimed: Callable[[], Awaitable[int]]) -> None:
        try:
            waiting = await asyncio.to_thread(queue.count)
            self.note(waiting=waiting, unclaimed=await unclaimed())
        except (*AWAY, StoreError) as trouble:
            self._missing.clear()
            self.is_empty = False
            log.warning("queue.not_looked_at", problem=type(trouble).__name__)


class QueueLengthReader:
    """A reader of the queue's length, which needs no permission for the queue. Not thread-safe."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery
        self._queue = celery.conf.task_default_queue
        self._connection: Any = None

    def count(self) -> int:
        """Return the number of waiting messages. Raises: one of `AWAY`, if the broker doesn't respond."""
        try:
            if self._connection is None:
                limits = {"read_timeout": CHECK_INTERVAL_S, "write_timeout": CHECK_INTERVAL_S}
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


@dataclass(slots=True)
class _Reading:
    """The messages that a node had received at its last claim, and now; how often the number has grown."""

    claimed: int
    received: int
    growths: int = 0


class QueueReaderMonitor:
    """A monitor of the nodes that read the queue, while attempts are republished that no node has claimed."""

    def __init__(
        self,
        access: DatabaseAccess,
        accounts: BrokerAccounts,
        failing: NodeFailureCounter,
        queue: QueueMonitor,
    ) -> None:
        self._access = access
        self._accounts = accounts
        self._failing = failing
        self._queue = queue
        self._readings: dict[str, _Reading] = {}

    async def keep(self) -> NoReturn:
        """Check the readers of the queue at regular intervals, until cancellation."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                await self.check()
            except (RequestError, StoreError) as trouble:
                log.warning("readers.not_looked_at", code=trouble.code)

    async def check(self) -> None:
        """Drain nodes that read more than twice their capacity without a claim.

        Do nothing while no attempts are republished.

        Raises: RequestError, if the broker's management API fails; StoreError, if the database fails.
        """
        if not self._queue.republished_attempts:
            self._readings.clear()
            self._queue.unclaimed_by_node = {}
            return
        received = await self._accounts.count_deliveries()
        if not received:
            return
        claiming, capacities = await self._access.read(lambda connection: _fetch(connection, received))
        for node, count in received.items():
            reading = self._readings.get(node)
            if reading is None or node in claiming or count < reading.received:
                self._readings[node] = _Reading(count, count)
                continue
            reading.growths += count > reading.received
            reading.received = count
            unclaimed = count - reading.claimed
            if reading.growths >= GROWTHS and unclaimed > 2 * capacities.get(node, 1):
                del self._readings[node]
                log.error("messages.unclaimed", node=node, messages=unclaimed)
                await self._stop(node, known=node in capacities)
        self._queue.unclaimed_by_node = {
            node: reading.received - reading.claimed for node, reading in self._readings.items()
        }

    async def _stop(self, node: str, *, known: bool) -> None:
        if known:
            await self._failing.drain(node)
        else:  # its account was used before the node itself has ever started
            await self._failing.suspend(node)


def _fetch(connection: Connection, received: Collection[str]) -> tuple[Collection[str], Mapping[str, int]]:
    """Return the nodes that have claimed runs lately, and the capacities of all nodes."""
    claiming = set(connection.execute(_CLAIMING, {"nodes": list(received)}).scalars())
    return claiming, {row.name: row.capacity for row in connection.execute(_CAPACITIES)}
