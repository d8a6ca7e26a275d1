"""A gateway and its node together: traces across the broker, verdicts of nodes that sign."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd_attestation import keys
from support.cluster.broker import needs_broker
from support.cluster.gateway_process import GatewayProcess, cluster_servers
from support.collector import collecting
from support.engines.oci import needs_oci
from support.stores.postgres import PostgresServer, needs_postgres
from support.texts.extractors import GOOD, extractor

pytestmark = [needs_broker, needs_oci, needs_postgres]

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(scope="module", autouse=True)
def servers(postgres: PostgresServer) -> Iterator[None]:
    with cluster_servers(postgres):
        yield


def test_attempt_of_a_node_that_signs_gets_its_verdict(tmp_path: Path) -> None:
    keys.create(tmp_path / "key")
    gateway = GatewayProcess("oci", settings={"POOL__DEFAULT_TARGET": "0"})
    gateway.host.settings["ATTESTATION__KEY"] = str(tmp_path / "key")
    try:
        gateway.start()
        with gateway.client() as client:
            attempt = client.submit(extractor(GOOD), wait_s=60)
    finally:
        gateway.dispose()
    assert attempt["verdict"] == "validated"
    assert "attestation.json" not in [artifact["name"] for artifact in attempt["artifacts"]]


def test_trace_goes_on_across_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        gateway = GatewayProcess("oci", settings={"POOL__DEFAULT_TARGET": "0"})
        for process, name in ((gateway, "gateway"), (gateway.host, "node")):
            process.settings |= {
                "TRACING__ENDPOINT": collector.endpoint,
                "TRACING__SERVICE_NAME": name,
            }
        try:
            gateway.start()
            monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-{CALLER}-01")
            with gateway.client() as client:
                assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"
            at_gateway, at_node = collector.wait_for("attempt", 2)
            (dispatch,) = collector.wait_for("dispatch")
            collector.wait_for("unit")
        finally:
            gateway.dispose()
    assert (at_gateway.service, at_gateway.parent_id) == ("gateway", CALLER)
    assert (dispatch.service, dispatch.parent_id, dispatch.kind) == (
        "gateway",
        at_gateway.span_id,
        "producer",
    )
    assert (at_node.service, at_node.parent_id) == ("node", dispatch.span_id)
    assert at_node.facts["attempt_id"] == at_gateway.facts["attempt_id"]
    assert {span.trace_id for span in collector.spans} == {TRACE}
