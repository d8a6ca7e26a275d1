"""Whether a cluster can run attempts: when a node lives that takes work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

import structlog

from assayd.errors import EngineError, StoreError
from assayd.metrics import Metrics
from assayd.model.health import Health, HealthRow
from assayd_cluster.gateway.doctor import ClusterDoctor
from assayd_cluster.gateway.metrics import ClusterMetrics
from assayd_cluster.gateway.nodes import Census, Nodes
from assayd_cluster.nodes import DatabaseNodes

log = structlog.get_logger()

LOOKED_EVERY_S = 1.0
IN_FLIGHT = 2
"""Attempts that are with the broker or a node at once, for each that the nodes run at once."""


class ClusterReadiness:
    """Implements `attempts.execution.Readiness` by what nodes say of themselves."""

    def __init__(
        self, nodes: Nodes, seen: DatabaseNodes, metrics: ClusterMetrics, doctor: ClusterDoctor
    ) -> None:
        self._nodes = nodes
        self._seen = seen
        self._metrics = metrics
        self._doctor = doctor
        self.tried = asyncio.Event()
        self.census = Census()
        self.problem = "no node has been looked for yet"
        self.resize: Callable[[int], None] = lambda _: None
        """Told how many attempts may be under way here."""

    def ready(self) -> tuple[bool, str]:
        """Return whether a node takes work, and why not."""
        return not self.problem, self.problem

    async def prepare(self) -> None:
        """Look for nodes once; the gateway serves in any case."""
        await self.look()
        self.tried.set()

    async def keep_ready(self) -> NoReturn:
        """Look for nodes, again and again."""
        while True:
            await asyncio.sleep(LOOKED_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """See which nodes live, and how many attempts may be under way."""
        try:
            self.census = await self._nodes.census()
            self._metrics.show(await self._seen.list(), await self._seen.outbox())
        except StoreError as trouble:
            self.problem = "the database is in trouble; see the gateway's log"
            log.error("nodes.not_read", code=trouble.code)
            return
        capacity = self.census.capacity
        self.problem = "" if capacity else _none_takes_work(self.census)
        self.resize(-(-capacity * IN_FLIGHT // self.census.gateways))

    async def keep_sweeping(self) -> None:
        """Sweep nothing: what nodes leave behind is theirs."""

    async def image_digest(self, name: str) -> str:
        """Return which image stands behind a name on the nodes that take work.

        Raises: EngineError ``image.missing``, also where nodes have different ones.
        """
        found = {node.images.get(name) for node in self.census.nodes if node.consumes} - {None}
        if len(found) == 1 and (digest := found.pop()) is not None:
            return digest
        has = "has it" if not found else "has the same as the others"
        raise EngineError("image.missing", f"image {name}: not every node {has}; build it on each of them")

    def show(self, metrics: Metrics) -> None:
        """Set no gauge of containers: they are the nodes' own. Those of the cluster are set at each look."""

    async def examine(self) -> Sequence[HealthRow]:
        """Examine database, broker and nodes."""
        await self.look()
        return await self._doctor.rows()

    async def examine_isolation(self) -> HealthRow:
        """Return who tries the isolation."""
        detail = "each node tries that of its own host, and takes no work where it does not hold"
        return HealthRow(check="isolation", status=Health.OK, detail=detail)


def _none_takes_work(census: Census) -> str:
    if not census.nodes:
        return "no node lives: none has been heard of for 15 seconds"
    return f"none of {len(census.nodes)} nodes takes work; operators see the reasons with `assay nodes`"
