"""A gateway and its node together: traces across the broker, and verdicts from nodes that sign."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd_attestation import signatures
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


@pytest.fixture
def signing(tmp_path: Path) -> Iterator[GatewayProcess]:
    """Return a gateway with a key, in front of a node with a different key."""
    for name in ("gateway.key", "node.key"):
        signatures.create_key_pair(tmp_path / name)
    gateway = GatewayProcess("oci", settings={"POOL__DEFAULT_TARGET": "0"})
    gateway.settings["ATTESTATION__KEY"] = str(tmp_path / "gateway.key")
    gateway.host.settings["ATTESTATION__KEY"] = str(tmp_path / "node.key")
    gateway.start()
    yield gateway
    gateway.dispose()


def test_bundles_of_a_gateway_are_signed_with_its_key(signing: GatewayProcess, tmp_path: Path) -> None:
    code, chatty, lines = tmp_path / "good.py", tmp_path / "chatty.py", tmp_path / "items.jsonl"
    code.write_text(GOOD)
    chatty.write_text(f"Here it is:\n\n```python\n{GOOD}```\n")
    lines.write_text("\n".join(json.dumps(extractor(each)) for each in (GOOD, GOOD + "\n")))
    path = ("--sample-path", "/data/ACME/2024/report.csv")

    def verify(*arguments: str | Path, key: str = "gateway") -> tuple[int, str]:
        done = signing.assay("verify", *arguments, "--key", tmp_path / f"{key}.key.pub")
        return done.returncode, done.stdout + done.stderr

    assert signing.assay("validate", "extractor", chatty, *path).returncode == 0
    signing.assay("artifacts", "last", "--extract", tmp_path / "bundle")
    assert signing.assay("batch", "run", lines, "--name", "both").returncode == 0
    (tmp_path / "batch.json").write_text(signing.assay("batch", "attestation", "both").stdout)

    assert (
        verify(tmp_path / "bundle", "--kind", "extractor", "--policy", "extractor", "--max-age", "1h")[0] == 0
    )
    assert verify(tmp_path / "bundle", key="node")[0] == 1
    assert verify(code, "--attestation", tmp_path / "bundle/attestation.json")[0] == 0  # without the prose
    assert verify(chatty, "--attestation", tmp_path / "bundle/attestation.json")[0] == 1
    assert verify(tmp_path / "batch.json", "--batch", "--policy", "extractor")[0] == 0
    said = signing.assay(
        "verify", tmp_path / "bundle", "--key", tmp_path / "gateway.key.pub", "--json"
    ).stdout
    predicate = json.loads(said)["predicate"]
    assert (predicate["attempt"]["node"], predicate["cases"]) == ("node-1", {"passed": 1})
    assert predicate["sandbox"]["image"]["digest"].startswith("sha256:")
    assert predicate["limits"]["memory_mb"] == 100


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
