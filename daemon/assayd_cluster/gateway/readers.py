"""Finds nodes that read messages from the queue without claiming runs, and drains them.

The broker counts the messages that it delivers to each node's account. If a node keeps receiving messages
but begins no run at any gateway, an attacker controls it or uses its account. Without an account for each
node, this module does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn

import structlog
from sqlalchemy import Connection, bindparam, select

from assayd.errors import RequestError, StoreError
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd_cluster.clock import NOW
from assayd_cluster.gateway.broker_accounts import BrokerAccounts
from assayd_cluster.gateway.failing_nodes import NodeFailureCounter
from assayd_cluster.gateway.queue_watch import LOOKED_EVERY_S, QueueMonitor
from assayd_cluster.tables import nodes

log = structlog.get_logger()

QUIET_S = 10.0
"""How long after a node's last claim its messages aren't counted: the broker's numbers are up to 5 s old."""
GROWTHS = 3
"""At so many looks, a node must have received further messages; a hung node soon receives no more."""

_RUN = tables.runs.c
_CLAIMING = (
    select(_RUN.daemon_id)
    .distinct()
    .where(
        _RUN.daemon_id.in_(bindparam("nodes", expanding=True)),
        _RUN.leased_at > NOW - int(QUIET_S * 1_000_000),
    )
)
_CAPACITIES = select(nodes.c.name, nodes.c.capacity)


@dataclass(slots=True)
class _Reading:
    """The messages that a node had received at its last claim, and now; how often the number has grown."""

    claimed: int
    received: int
    growths: int = 0


class MessageReaders:
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
        """Look at the readers of the queue at regular intervals."""
        while True:
            await asyncio.sleep(LOOKED_EVERY_S)
            try:
                await self.check()
            except (RequestError, StoreError) as trouble:
                log.warning("readers.not_looked_at", code=trouble.code)

    async def check(self) -> None:
        """Drain nodes that read twice their capacity without a claim. Raises: RequestError, StoreError."""
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
