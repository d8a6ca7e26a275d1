"""Honest attempts next to a tenant and a node that do harm: all judged, and nearly as fast as without them.

`HOSTILE_ATTEMPTS` (30) and `HOSTILE_EVERY_S` (1) make it longer: 300 every 2 seconds take ten minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.cluster.hostile import (
    Honest,
    captured_node,
    endless_programs,
    profiles_of,
    send_honest,
    taking_messages,
    tenant,
)
from support.cluster.whole import WholeCluster, whole_cluster

pytestmark = pytest.mark.cluster

ATTEMPTS = int(os.environ.get("HOSTILE_ATTEMPTS", "30"))
QUIET = min(ATTEMPTS, 30)
EVERY_S = float(os.environ.get("HOSTILE_EVERY_S", "1"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[WholeCluster]:
    """Return a cluster whose broker lets a node hold a message for as long as an endless program runs."""
    with whole_cluster() as cluster:
        cluster.wait_for_nodes({"node-1", "node-2"})
        yield cluster


def honest(cluster: WholeCluster, *names: str, number: int = ATTEMPTS) -> Honest:
    return send_honest([tenant(cluster, name) for name in names], number, EVERY_S)


def test_captured_node_keeps_no_attempt_from_its_verdict(
    cluster: WholeCluster, figures: dict[str, object]
) -> None:
    quiet = honest(cluster, "quiet-node", number=QUIET)
    with captured_node(cluster, "captured", profiles_of(cluster)) as node:
        beside = honest(cluster, "honest-node", "honest-node-too")
    figures["captured node"] = {"quiet": quiet.figures(), "beside": beside.figures(), "answers": node.answers}
    assert beside.judged == ATTEMPTS
    refused = {f"{act}: {status}" for act, status in (("claim without a ticket", 403), ("foreign run", 403))}
    assert refused <= node.answers.keys()
    assert not {answer for answer in node.answers if answer.endswith(": 500")}
    forged = sum(count for (_, judge), count in beside.verdicts.items() if judge == "captured")
    assert forged > 0
    status, said = cluster.started.ask("POST", "/v1/nodes/captured/distrust")
    assert (status, said["marked"]) == (200, forged)


def test_attempts_that_follow_others_run_on_every_node(cluster: WholeCluster) -> None:
    client = tenant(cluster, "follows")
    steps = [{"name": "write", "type": "bash", "content": "echo 1"}]
    parent = client.submit({"kind": "pipeline", "payload": {"steps": steps}}, wait_s=60)
    payload = {"steps": steps, "pipeline_id": parent["id"]}

    def follow(number: int) -> tuple[str, str | None]:
        payloads = (payload, {**payload, "steps": []})
        document = {"kind": "pipeline", "payload": payloads[number % 2], "parent_id": parent["id"]}
        ended = client.submit(document, wait_s=60)
        return str(ended["verdict"]), ended["node"]

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(follow, range(40)))
    assert found == {("validated", "node-1"), ("validated", "node-2")}
    assert (cluster.why("node-1"), cluster.why("node-2")) == ("", "")


def test_stolen_account_of_the_broker_ends_with_its_token(
    cluster: WholeCluster, figures: dict[str, object]
) -> None:
    wanted = {"name": "stolen", "tenant": "nodes", "scopes": ["node"], "node": "stolen"}
    _, token = cluster.started.ask("POST", "/v1/tokens", wanted)
    with taking_messages(str(token["broker_url"]), most=5) as thief:
        client = tenant(cluster, "robbed")
        with ThreadPoolExecutor(1) as pool:
            robbed = pool.submit(send_honest, [client], 20, 0.2)
            cluster.wait_until("messages in the hands of the thief", lambda: thief.taken >= 1)
            status, _ = cluster.started.ask("DELETE", f"/v1/tokens/{token['id']}")
            assert status == 200
            cluster.wait_until("the end of the thief's connection", lambda: thief.cut_off)
            found = robbed.result()
    figures["stolen account"] = found.figures()
    assert found.judged == 20
    assert not thief.comes_in_again()


def test_account_whose_messages_are_never_claimed_is_cut_off(
    cluster: WholeCluster, figures: dict[str, object]
) -> None:
    wanted = {"name": "swallows", "tenant": "nodes", "scopes": ["node"], "node": "swallows"}
    _, token = cluster.started.ask("POST", "/v1/tokens", wanted)
    began = time.monotonic()
    with taking_messages(str(token["broker_url"]), most=5, acknowledges=True) as thief:
        client = tenant(cluster, "swallowed")
        with ThreadPoolExecutor(1) as pool:
            swallowed = pool.submit(send_honest, [client], 60, 1)
            cluster.wait_until("the end of the thief's connection", lambda: thief.cut_off)
            cut_off_s = time.monotonic() - began
            found = swallowed.result()
    figures["messages never claimed"] = {
        **found.figures(),
        "taken": thief.taken,
        "cut off after s": round(cut_off_s, 1),
    }
    assert found.judged == 60
    honest_nodes = "SELECT count(*) FROM nodes WHERE drained = 0 AND name = ANY(%s)"
    assert cluster.rows(honest_nodes, ["node-1", "node-2"]) == [(2,)]


def test_endless_programs_of_one_tenant_keep_no_other_waiting(
    cluster: WholeCluster, figures: dict[str, object]
) -> None:
    quiet = honest(cluster, "quiet-tenant", number=QUIET)
    with endless_programs(tenant(cluster, "hostile")):
        cluster.wait_until("endless programs", lambda: _running(cluster) >= 7)
        beside = honest(cluster, "honest-tenant")
    figures["hostile tenant"] = {"quiet": quiet.figures(), "beside": beside.figures()}
    assert (quiet.judged, beside.judged) == (QUIET, ATTEMPTS)
    assert beside.percentile_s(95) < 20  # an endless program runs for a minute and more


def _running(cluster: WholeCluster) -> int:
    statement = (
        "SELECT count(*) FROM runs JOIN dispatches USING (attempt_id) "
        "WHERE expires_at > extract(epoch from clock_timestamp()) * 1000000"
    )
    return int(cluster.rows(statement)[0][0])
