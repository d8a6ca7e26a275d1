"""A runner between a daemon that runs nothing and a gateway made of a few dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd.clock import UlidGenerator
from assayd_cluster.documents import NodeHeartbeat
from assayd_cluster.node.links import DaemonClient, GatewayClient
from assayd_cluster.node.running import EventForwarder, NodeRunner, RetryDelays, StopSignals
from support.cluster.stub_daemon import StubDaemon
from support.cluster.stub_gateway import Known, StubGateway
from support.cluster.unix_http import serving

QUICK = RetryDelays(retry_delays_s=(0.01,), daemon_away_s=0.05)


class NodeParts:
    """The parts of one node, and its daemon and gateway."""

    def __init__(self, gateway: StubGateway, daemon: StubDaemon, link: GatewayClient, socket: Path) -> None:
        self.gateway = gateway
        self.daemon = daemon
        self.link = link
        self.stopping = StopSignals()
        self.forwarder = EventForwarder(link)
        self.seconds = 0.0
        self._socket = socket
        self.runner = self.build_runner(QUICK)

    def build_runner(self, delays: RetryDelays) -> NodeRunner:
        """Build a runner that reads the time from `seconds`."""
        return NodeRunner(
            self.link,
            DaemonClient(self._socket),
            self.forwarder,
            self.stopping,
            delays,
            monotonic=lambda: self.seconds,
        )

    def attempt(self, **document: object) -> tuple[str, Known]:
        """Add an attempt to the gateway."""
        attempt_id = UlidGenerator().new()
        known = self.gateway.attempts[attempt_id] = Known(document={"kind": "script", **document})
        return attempt_id, known


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[NodeParts]:
    gateway, daemon = StubGateway(), StubDaemon()
    link = GatewayClient("node-1", f"http+unix://{tmp_path}/gateway.sock", token="t")
    with serving(tmp_path / "gateway.sock", gateway.answer), serving(tmp_path / "daemon.sock", daemon.answer):
        link.beat(NodeHeartbeat(capacity=1, ready=True, version="1"))
        yield NodeParts(gateway, daemon, link, tmp_path / "daemon.sock")
    link.close()
