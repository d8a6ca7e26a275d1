"""Tracks nodes whose runs end without verdicts, limits how long they hold runs, and drains them.

Such a node hangs, or an attacker controls it. Each gateway counts only the runs that it observes; the
drained state of a node is stored for all gateways. The last node that accepts work is never drained. A node
is also never drained because of the attempts of a single tenant, who could have submitted them for this
purpose. Nodes that don't even claim runs are found by `queue_watch.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog
from sqlalchemy import BigInteger, bindparam, exists, literal, select, update

from assayd.aio import MOST
from assayd.errors import RequestError
from assayd.kind import Kind
from assayd.model.run import Limits
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd_cluster.gateway.broker_accounts import BrokerAccounts
from assayd_cluster.nodes import DrainState, build_accepts_work_condition
from assayd_cluster.tables import NOW, nodes

log = structlog.get_logger()

WAITING_S = 60.0
"""Seconds for which an attempt can wait for a container on its node, and for everything except its run."""
MAX_OVERDUE_RUNS = 3
OVERDUE_WINDOW_S = 600.0
MAX_LOST_RUNS = 20
"""Number of consecutive lost runs after which a node is drained."""

_OTHER = nodes.alias("other")
_DRAIN = (
    update(nodes)
    .where(
        nodes.c.name == bindparam("node"),
        nodes.c.drained == DrainState.NO,
        exists().where(_OTHER.c.name != bindparam("node"), build_accepts_work_condition(_OTHER)),
    )
    .values(drained=DrainState.BY_GATEWAY)
)
_RUN, _VERDICT = tables.runs.c, tables.verdicts.c
_HAS_VERDICT = (
    select(literal(1))
    .where(
        _RUN.daemon_id == bindparam("node"),
        _RUN.leased_at > NOW - bindparam("lasted", type_=BigInteger),
        exists().where(_VERDICT.attempt_id == _RUN.attempt_id, _VERDICT.run_number == _RUN.run_number),
    )
    .limit(1)
)
"""Whether a node has returned the verdict of a run that it claimed in a period until now."""


def may_have_trial(kind: Kind) -> bool:
    """Return whether attempts of a kind can have a second container, for a trial."""
    return type(kind).plan_trial is not Kind.plan_trial


def compute_longest_run_s(limits: Limits, *, trial: bool) -> float:
    """Return the seconds for which a node may keep a run of an attempt with these limits.

    On a busy node, each container's deadline is extended to up to `MOST` times its time.
    """
    return (2 if trial else 1) * MOST * limits.timeout_s + WAITING_S


def _has_reached_limit(most: int, of_tenant: Counter[int]) -> bool:
    """Return whether `most` runs failed, of which one tenant's runs count for at most two thirds."""
    return sum(min(count, most * 2 // 3) for count in of_tenant.values()) >= most


class NodeFailureCounter:
    """A counter of each node's runs without a verdict, which drains a node that has too many of them.

    The broker accounts of a drained node are suspended, so that the node can't read messages from the
    queue.
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
        self._kept: dict[str, list[tuple[float, set[int]]]] = {}
        """The recent faults in which a node kept runs, by node: their times, and the tenants of the runs."""
        self._lost: dict[str, tuple[float, Counter[int]]] = {}
        """When each node lost its first run since its last verdict here, and its lost runs by tenant."""

    def record_verdict(self, node: str) -> None:
        """Record that a node has sent a verdict, which clears its count of lost runs."""
        self._lost.pop(node, None)

    async def record_lost_run(self, node: str, tenant: int) -> None:
        """Record that a node has lost a run of a tenant's attempt. Drain the node if it has lost too many.

        Raises: StoreError, if the database fails.
        """
        since, lost = self._lost.setdefault(node, (self._monotonic(), Counter()))
        lost[tenant] += 1
        if _has_reached_limit(MAX_LOST_RUNS, lost):
            del self._lost[node]
            lasted = {"node": node, "lasted": int((self._monotonic() - since) * 1_000_000)}
            brought = await self._access.read(
                lambda connection: connection.execute(_HAS_VERDICT, lasted).scalar()
            )
            if brought is None:  # a node can bring its verdicts to another gateway
                await self.drain(node)

    async def record_kept_run(self, node: str, tenant: int, *, began_s: float = 0.0) -> None:
        """Record that a node has kept a run of a tenant's attempt, or more runs than it may have.

        Drain the node if this happens too often.

        If this began (`began_s` seconds ago) before the node's last failure, it is part of that failure: if a
        daemon restarts, all of its runs fail together. Because successive failures can be `began_s` seconds
        apart, they are remembered for longer.

        Raises: StoreError, if the database fails.
        """
        now = self._monotonic()
        within_s = OVERDUE_WINDOW_S + (MAX_OVERDUE_RUNS - 1) * began_s
        recent = [one for one in self._kept.get(node, ()) if now - one[0] <= within_s]
        if recent and now - began_s < recent[-1][0]:
            recent[-1][1].add(tenant)
        else:
            recent.append((now, {tenant}))
        self._kept[node] = recent
        if len(recent) >= MAX_OVERDUE_RUNS and len(set().union(*(tenants for _, tenants in recent))) > 1:
            del self._kept[node]
            await self.drain(node)

    async def drain(self, node: str) -> None:
        """Drain a node unless no other node accepts work, and suspend its accounts.

        Raises: StoreError, if the database fails.
        """
        wanted = {"node": node}
        drained = await self._access.write(
            lambda connection: connection.execute(_DRAIN, wanted).rowcount == 1
        )
        log.error("node.failing", node=node, drained=drained)
        if drained:
            await self.suspend(node)

    async def suspend(self, node: str) -> None:
        """Revoke the permission of a node's accounts to read the queue. Only log a failure of the broker."""
        try:
            await self._accounts.suspend(node)
        except RequestError as trouble:  # a drained node's claims are refused anyway
            log.error("account.not_suspended", node=node, code=trouble.code)
