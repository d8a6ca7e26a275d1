"""Nodes whose runs bring no verdicts: how long one may keep a run, and when it gets no more work.

Such a node hangs, or an attacker controls it. Each gateway counts what it sees itself; that a node is drained
is on record for all of them. The last node that takes work is never drained.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

import structlog
from sqlalchemy import bindparam, exists, update

from assayd.errors import RequestError
from assayd.model.run import Limits
from assayd.store.access import DatabaseAccess
from assayd_cluster.gateway.broker_accounts import BrokerAccounts
from assayd_cluster.gateway.nodes import takes_work
from assayd_cluster.nodes import Drained
from assayd_cluster.tables import nodes

log = structlog.get_logger()

CONTAINERS = 2
"""An attempt has a container for its run, and one for a trial."""
WAITING_S = 60.0
"""How long an attempt may wait on its node for a container, and for all that isn't its run."""
MOST_OVERDUE = 3
OVERDUE_WITHIN_S = 600.0
MOST_LOST = 20
"""Runs that a node lost one after another."""

_OTHER = nodes.alias("other")
_DRAIN = (
    update(nodes)
    .where(
        nodes.c.name == bindparam("node"),
        nodes.c.drained == Drained.NO,
        exists().where(_OTHER.c.name != bindparam("node"), takes_work(_OTHER)),
    )
    .values(drained=Drained.BY_GATEWAY)
)


def longest_run_s(limits: Limits) -> float:
    """Return how long a node may keep a run of an attempt with these limits."""
    return CONTAINERS * limits.timeout_s + WAITING_S


class FailingNodes:
    """Counts runs without a verdict by node, and drains a node that has too many of them.

    Its accounts of the broker are suspended, so that it can't take messages from the queue either.
    """

    def __init__(
        self,
        access: DatabaseAccess,
        accounts: BrokerAccounts,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._accounts = accounts
        self._monotonic = monotonic
        self._overdue: dict[str, deque[float]] = {}
        self._lost: Counter[str] = Counter()

    def note_verdict(self, node: str) -> None:
        """Note that a node brought a verdict."""
        self._lost.pop(node, None)

    async def note_lost(self, node: str) -> None:
        """Note that a node says of a run that it came to no verdict. Raises: StoreError."""
        self._lost[node] += 1
        if self._lost[node] >= MOST_LOST:
            del self._lost[node]
            await self._drain(node)

    async def note_overdue(self, node: str) -> None:
        """Note that a run was taken back from a node. Raises: StoreError."""
        times = self._overdue.setdefault(node, deque(maxlen=MOST_OVERDUE))
        times.append(self._monotonic())
        if len(times) == MOST_OVERDUE and times[-1] - times[0] <= OVERDUE_WITHIN_S:
            times.clear()
            await self._drain(node)

    async def _drain(self, node: str) -> None:
        wanted = {"node": node}
        drained = await self._access.write(
            lambda connection: connection.execute(_DRAIN, wanted).rowcount == 1
        )
        log.error("node.failing", node=node, drained=drained)
        if drained:
            try:
                await self._accounts.suspend(node)
            except RequestError as trouble:  # its claims are refused anyway
                log.error("account.not_suspended", node=node, code=trouble.code)
