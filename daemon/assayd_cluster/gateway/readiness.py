"""Reports whether a cluster can run attempts, which requires a live node that accepts work.

The module also implements the checks of `assay doctor` for a cluster: its database, broker and bundles, and
every node with the reason if it accepts no work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import NoReturn

import structlog
from sqlalchemy import select, text

from assayd.aio import BroadcastEvent
from assayd.errors import EngineError, RequestError, StoreError
from assayd.metrics import Metrics
from assayd.model.health import HealthRow, HealthStatus
from assayd.ports.artifacts import ArtifactStore
from assayd.store.access import DatabaseAccess
from assayd_cluster.documents import MAX_CAPACITY
from assayd_cluster.gateway.broker_accounts import BrokerAccounts, QueueReaderAccounts
from assayd_cluster.gateway.metrics import ClusterMetrics
from assayd_cluster.gateway.outbox import MessagePublisher
from assayd_cluster.gateway.queue_watch import RECENT_WINDOW_S, QueueMonitor
from assayd_cluster.nodes import FULL, ClusterSnapshot, DatabaseNodes, Node, NodeTable, OutboxState
from assayd_cluster.tables import tokens

log = structlog.get_logger()

SLOW_S = 0.25
"""Seconds above which a query counts as slow."""
WAITS_S = 30.0
"""Seconds for which an attempt can wait for the broker before the health check reports a problem."""
HEALTH = {
    "ready": HealthStatus.OK,
    "draining": HealthStatus.WARN,
    "not_ready": HealthStatus.FAIL,
    "lost": HealthStatus.FAIL,
    "stopped": HealthStatus.OK,
}


class ClusterHealthChecks:
    """The health checks of the components and services that a gateway needs."""

    def __init__(
        self,
        *,
        access: DatabaseAccess,
        nodes: DatabaseNodes,
        publisher: MessagePublisher,
        artifacts: ArtifactStore,
        accounts: BrokerAccounts,
        queue: QueueMonitor,
    ) -> None:
        self._accounts = accounts
        self._queue = queue
        self._artifacts = artifacts
        self._access = access
        self._nodes = nodes
        self._publisher = publisher

    async def rows(self) -> Sequence[HealthRow]:
        """Return the health rows of the database, broker, accounts, messages, bundles and nodes.

        If the database fails, return only its row.
        """
        try:
            database = await self._check_database()
            nodes, outbox = await asyncio.gather(self._nodes.list(), self._nodes.read_outbox_state())
        except StoreError as trouble:
            remedy = "check that PostgreSQL runs, and read the gateway's log"
            return [HealthRow(check="database", status=HealthStatus.FAIL, detail=trouble.code, remedy=remedy)]
        broker, bundles = (
            build_broker_health_row(self._publisher.problem, outbox),
            await self._check_bundles(),
        )
        accounts, messages = await self._check_accounts(), build_message_health_row(self._queue)
        return [database, broker, accounts, messages, bundles, *build_node_health_rows(nodes)]

    async def _check_accounts(self) -> HealthRow:
        try:
            readers = await self._accounts.list_readers()
            live = await self._access.read(lambda connection: set(connection.execute(_LIVE_TOKENS).scalars()))
        except RequestError as trouble:
            remedy = "see that the management API runs, and that its account is an administrator's"
            return HealthRow(
                check="broker accounts", status=HealthStatus.WARN, detail=trouble.message, remedy=remedy
            )
        return build_account_health_row(readers, live)

    async def _check_bundles(self) -> HealthRow:
        try:
            free = await self._artifacts.free_bytes()
        except StoreError as trouble:
            remedy = "check that the shared directory is mounted, or that the object storage answers"
            return HealthRow(check="bundles", status=HealthStatus.FAIL, detail=trouble.code, remedy=remedy)
        detail = f"reachable, {free // 2**20} MB free"
        return HealthRow(check="bundles", status=HealthStatus.OK, detail=detail)

    async def _check_database(self) -> HealthRow:
        began = time.monotonic()
        found = await self._access.read(lambda connection: connection.execute(_VERSION).scalar_one())
        took_s = time.monotonic() - began
        slow = took_s > SLOW_S
        return HealthRow(
            check="database",
            status=HealthStatus.WARN if slow else HealthStatus.OK,
            detail=f"PostgreSQL {found} answers in {took_s * 1000:.0f} ms",
            remedy="check its load and the network between" if slow else "",
            took_s=took_s,
        )


_LIVE_TOKENS = select(tokens.c.id).where(tokens.c.node.is_not(None), tokens.c.revoked_at.is_(None))
_VERSION = text("SELECT current_setting('server_version')")


def build_broker_health_row(problem: str, outbox: OutboxState) -> HealthRow:
    """Return the health row for the broker's connection and the waiting attempts."""
    waiting = f"{outbox.unpublished} attempts wait for it, the oldest for {outbox.oldest_s:.0f} s"
    remedy = "check that RabbitMQ runs; waiting attempts are then published"
    if problem:
        return HealthRow(
            check="broker", status=HealthStatus.FAIL, detail=f"{problem}; {waiting}", remedy=remedy
        )
    if outbox.unpublished and outbox.oldest_s > WAITS_S:
        return HealthRow(check="broker", status=HealthStatus.WARN, detail=waiting, remedy=remedy)
    detail = f"accepts messages; {outbox.published} attempts are in the queue or on a node"
    return HealthRow(check="broker", status=HealthStatus.OK, detail=detail)


def build_account_health_row(readers: QueueReaderAccounts | None, live: Collection[str]) -> HealthRow:
    """Return the health row for the queue's read access. `live` contains the ids of nodes' valid tokens."""

    def build_row(status: HealthStatus, detail: str, remedy: str = "") -> HealthRow:
        return HealthRow(check="broker accounts", status=status, detail=detail, remedy=remedy)

    if readers is None:
        remedy = "set cluster.broker_management_url_file, and create the nodes' tokens again"
        return build_row(
            HealthStatus.WARN, "all nodes share one account, which outlives a revoked token", remedy
        )
    if old := sorted(set(readers.tokens) - set(live)):
        detail = f"{len(old)} accounts of nodes outlive their tokens"
        return build_row(HealthStatus.FAIL, detail, f"`assay token revoke {old[0]}` again")
    if readers.others:
        detail = f"account {readers.others[0]!r} can read the queue, and comes with no token"
        return build_row(
            HealthStatus.WARN, detail, f"if no node uses it: rabbitmqctl delete_user {readers.others[0]}"
        )
    return build_row(HealthStatus.OK, f"{len(readers.tokens)} nodes' accounts, each with its token")


MAX_PASSED_ON = 2 * MAX_CAPACITY
"""Maximum number of messages that a drained node can already hold before it stops consuming."""


def build_message_health_row(queue: QueueMonitor) -> HealthRow:
    """Return the health row that reports whether messages are read from the queue without a claim."""
    minutes = f"{RECENT_WINDOW_S / 60:.0f} minutes"
    again = f"{queue.republished_attempts} attempts published again in the last {minutes}"
    node, messages = max(queue.unclaimed_by_node.items(), key=itemgetter(1), default=("", 0))
    if messages:
        again += f"; the account of node {node} took {messages} without a claim"
    remedy = "docs/operating/cluster.md#find-a-stolen-broker-account says how to find who takes them"
    if queue.taken:
        detail = f"{queue.taken} were taken from the queue and claimed by no node; {again}"
        return HealthRow(check="messages", status=HealthStatus.FAIL, detail=detail, remedy=remedy)
    if queue.republished_attempts:
        return HealthRow(check="messages", status=HealthStatus.WARN, detail=again, remedy=remedy)
    if queue.reclaimed_runs:
        detail = f"{queue.reclaimed_runs} runs taken back from nodes that reported nothing or kept them for"
        detail += f" too long, in the last {RECENT_WINDOW_S / 60:.0f} minutes"
        remedy = "`run.taken_back` in the gateway's log names the nodes; check their hosts"
        return HealthRow(check="messages", status=HealthStatus.WARN, detail=detail, remedy=remedy)
    if queue.passed_on_attempts > MAX_PASSED_ON:
        claimed, minutes = queue.passed_on_attempts, f"{RECENT_WINDOW_S / 60:.0f} minutes"
        detail = f"nodes that take no work claimed {claimed} in the last {minutes}"
        return HealthRow(check="messages", status=HealthStatus.WARN, detail=detail, remedy=remedy)
    return HealthRow(check="messages", status=HealthStatus.OK, detail="nodes claim those that they take")


def build_node_health_rows(nodes: Sequence[Node]) -> list[HealthRow]:
    """Return the health row of every node, and a failure if all are stopped or none has registered."""
    if not nodes:
        remedy = "start assayd-node on a host; docs/operating/cluster.md says how"
        return [
            HealthRow(
                check="nodes", status=HealthStatus.FAIL, detail="no node has registered yet", remedy=remedy
            )
        ]
    rows = [_build_node_health_row(node) for node in nodes]
    if all(node.state == "stopped" for node in nodes):
        detail = f"all {len(nodes)} were stopped in order"
        remedy = "start assayd-node on a host"
        rows.append(HealthRow(check="nodes", status=HealthStatus.FAIL, detail=detail, remedy=remedy))
    return rows


def _build_node_health_row(node: Node) -> HealthRow:
    if node.state == "ready":
        detail = f"{node.in_hand} of {node.capacity} in hand, {node.version}, {node.engine}"
        return HealthRow(check=f"node {node.name}", status=HealthStatus.OK, detail=detail)
    if node.why == FULL:
        remedy = "if this continues, lower the node's `capacity`, or stop other work on its host"
        return HealthRow(check=f"node {node.name}", status=HealthStatus.WARN, detail=FULL, remedy=remedy)
    remedies = {
        "draining": f"`assay node resume {node.name}` lets it take attempts again",
        "not_ready": "run `assay doctor` on that host",
        "lost": f"start assayd-node on its host; if the host is gone: `assay node forget {node.name}`",
        "stopped": "",
    }
    return HealthRow(
        check=f"node {node.name}",
        status=HEALTH[node.state],
        detail=node.why or "takes no attempts",
        remedy=remedies[node.state],
    )


NODE_CHECK_INTERVAL_S = 1.0


class ClusterReadiness:
    """Determines from the reports of nodes whether the cluster can run attempts."""

    def __init__(
        self,
        nodes: NodeTable,
        seen: DatabaseNodes,
        metrics: ClusterMetrics,
        doctor: ClusterHealthChecks,
        queue: QueueMonitor,
    ) -> None:
        self._queue = queue
        self._nodes = nodes
        self._seen = seen
        self._metrics = metrics
        self._doctor = doctor
        self.tried = asyncio.Event()
        self.census = ClusterSnapshot()
        self.problem = "the gateway hasn't looked for nodes yet"
        self.changed = BroadcastEvent()
        """The signal that is sent after each check of the nodes."""

    def ready(self) -> tuple[bool, str]:
        """Return whether a node accepts work, and the reason if none does."""
        return not self.problem, self.problem

    async def prepare(self) -> None:
        """Check the nodes once. The gateway serves requests even if no node is ready."""
        await self.check_nodes()
        self.tried.set()

    async def keep_ready(self) -> NoReturn:
        """Check the nodes every `LOOKED_EVERY_S` seconds, until cancellation."""
        while True:
            await asyncio.sleep(NODE_CHECK_INTERVAL_S)
            await self.check_nodes()

    async def check_nodes(self) -> None:
        """Determine which nodes are alive, and how many attempts can be in progress at once.

        If the database fails, keep the last snapshot and set `problem`.
        """
        try:
            self.census = await self._nodes.read_snapshot()
            self._metrics.update_gauges(
                await self._seen.list(), await self._seen.read_outbox_state(), self._queue.taken
            )
        except StoreError as trouble:
            self.problem = "the database fails; see the gateway's log"
            log.error("nodes.not_read", code=trouble.code)
            return
        # While all nodes are full, attempts wait in the queue.
        usable = any(node.is_usable for node in self.census.nodes)
        self.problem = "" if usable else _explain_idle_nodes(self.census)
        self.changed.wake_all()

    async def sweep_periodically(self) -> None:
        """Do nothing, because nodes remove their own leftovers."""

    def image_problem(self, name: str) -> str:
        """Return an empty string, because each node refuses attempts whose image it lacks."""
        return ""

    async def image_digest(self, name: str) -> str:
        """Return the digest of an image by its name, as reported by the nodes that claim work.

        Raises: EngineError ``image.missing``, if no node has the image or nodes have different ones.
        """
        found = {node.images.get(name) for node in self.census.nodes if node.is_usable} - {None}
        if len(found) == 1 and (digest := found.pop()) is not None:
            return digest
        fault = "some nodes don't have it" if not found else "nodes have different versions"
        raise EngineError("image.missing", f"image {name}: {fault}; build it on each node")

    def update_gauges(self, metrics: Metrics) -> None:
        """Do nothing: nodes set the gauges for containers, and `check_nodes` sets those for the cluster."""

    async def run_health_checks(self) -> Sequence[HealthRow]:
        """Check the nodes, and return all health rows of the cluster."""
        await self.check_nodes()
        return await self._doctor.rows()

    async def check_isolation(self) -> HealthRow:
        """Return a row which states that the nodes check isolation."""
        detail = "each node checks its host's isolation, and takes no attempts if the check fails"
        return HealthRow(check="isolation", status=HealthStatus.OK, detail=detail)


def _explain_idle_nodes(census: ClusterSnapshot) -> str:
    if not census.nodes:
        return "no node has sent a heartbeat for 15 seconds"
    return f"none of {len(census.nodes)} nodes takes attempts; operators see the reasons with `assay nodes`"
