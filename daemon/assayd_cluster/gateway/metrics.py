"""Defines the metrics that a gateway has in addition to a daemon's, in the same registry.

Every gateway reports the shared values (nodes, outbox) from the database: dashboards must aggregate these
values as a maximum, and the other metrics as a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from assayd.documents.cluster import NodeState
from assayd_cluster.nodes import Node, OutboxState


class ClusterMetrics:
    """The Prometheus metrics that a gateway adds to the daemon's metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"assayd_cluster_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"assayd_cluster_{name}", text, labels, registry=registry)

        self.messages = counter(
            "messages", "Attempts to publish a message to the broker, by outcome.", "outcome"
        )
        self.republished = counter(
            "republished", "Attempts published again: no node claimed them, or one did that takes no work."
        )
        self.taken_back = counter(
            "taken_back",
            "Runs taken back from nodes that kept them, by reason (silent or overdue).",
            "reason",
        )
        self._taken = gauge("taken_unclaimed", "Messages taken from the queue that no node has claimed.")
        self.claims = counter("claims", "Claims by nodes, by outcome.", "outcome")
        self.verdicts = counter("verdicts", "Ended runs, by result.", "outcome")
        self.inherited = counter("inherited", "Attempts taken over from dead gateways.")
        self.refusals = counter("refusals", "Requests refused because of their token, by error code.", "code")
        self._nodes = gauge("nodes", "Nodes by state.", "state")
        self._capacity = gauge("node_capacity", "Attempts that a node runs at once.", "node")
        self._in_hand = gauge("node_in_hand", "Attempts that a node has in hand.", "node")
        self._silent = gauge("node_silent_seconds", "Seconds since a node's last heartbeat.", "node")
        self._gateways = gauge("gateways", "Live gateways.")
        self._outbox = gauge("outbox_depth", "Attempts without a verdict, by state.", "state")
        self._outbox_age = gauge(
            "outbox_age_seconds", "Seconds that the oldest unpublished attempt has waited for the broker."
        )

    def update_gauges(self, nodes: Sequence[Node], outbox: OutboxState, taken: int = 0) -> None:
        """Set the gauges to the current values, and remove the gauges of nodes that no longer exist."""
        states = [node.state for node in nodes]
        for state in get_args(NodeState):
            self._nodes.labels(state).set(states.count(state))
        for each in (self._capacity, self._in_hand, self._silent):
            each.clear()
        for node in nodes:
            self._capacity.labels(node.name).set(node.capacity)
            self._in_hand.labels(node.name).set(node.in_hand)
            self._silent.labels(node.name).set(node.silent_s)
        self._gateways.set(outbox.gateways)
        self._outbox.labels("unpublished").set(outbox.unpublished)
        self._outbox.labels("published").set(outbox.published)
        self._outbox_age.set(outbox.oldest_s)
        self._taken.set(taken)
