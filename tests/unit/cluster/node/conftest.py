"""A runner between a daemon that runs nothing and a gateway of a few dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd.ids import Ulids
from assayd_cluster.documents import NodeBeat
from assayd_cluster.node.daemon_link import DaemonLink
from assayd_cluster.node.forwarding import Forwarder
from assayd_cluster.node.gateway_link import GatewayLink
from assayd_cluster.node.running import Runner, Stopping, Tries
from support.cluster.stub_daemon import StubDaemon
from support.cluster.stub_gateway import Known, StubGateway
from support.cluster.unix_http import serving

QUICK = Tries(again_s=(0.01,), daemon_away_s=0.05)


class NodeParts:
    """The parts of one node, and what it speaks to."""

    def __init__(self, gateway: StubGateway, daemon: StubDaemon, link: GatewayLink, socket: Path) -> None:
        self.gateway = gateway
        self.daemon = daemon
        self.link = link
        self.stopping = Stopping()
        self.forwarder = Forwarder(link)
        self.runner = Runner(link, DaemonLink(socket), self.forwarder, self.stopping, QUICK)

    def attempt(self, **document: object) -> tuple[str, Known]:
        """Have the gateway know one more attempt."""
        attempt_id = Ulids().new()
        known = self.gateway.attempts[attempt_id] = Known(document={"kind": "script", **document})
        return attempt_id, known


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[NodeParts]:
    gateway, daemon = StubGateway(), StubDaemon()
    link = GatewayLink("node-1", f"http+unix://{tmp_path}/gateway.sock", token="t")
    with serving(tmp_path / "gateway.sock", gateway.answer), serving(tmp_path / "daemon.sock", daemon.answer):
        link.beat(NodeBeat(capacity=1, ready=True, version="1"))
        yield NodeParts(gateway, daemon, link, tmp_path / "daemon.sock")
    link.close()
