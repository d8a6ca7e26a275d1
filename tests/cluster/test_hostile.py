"""Honest attempts next to a hostile tenant, a captured node and a stolen account: the smallest size."""

from __future__ import annotations

import pytest
from bench.cluster_hostile import TAKEN, beside_node, beside_tenant, honest, stolen_account

from support.cluster.whole import WholeCluster

pytestmark = pytest.mark.cluster

HONEST = 20
SECONDS = 20.0
MOST_TIMES = 10
"""How much slower than in quiet an honest attempt may be on a machine that also runs the attackers."""


def test_honest_attempts_are_judged_next_to_a_hostile_tenant_and_a_captured_node(
    cluster: WholeCluster, figures: dict[str, object]
) -> None:
    quiet = honest(cluster, HONEST, 0)
    tenant = beside_tenant(cluster, HONEST, SECONDS)
    node = beside_node(cluster, HONEST, SECONDS)
    figures["hostile"] = {"quiet": quiet, "tenant": tenant, "node": node}
    for each in (quiet, tenant, node):
        assert each["verdicts"] == HONEST
    assert sum(tenant["answered"].values()) > 0
    assert sum(node["answered"].values()) > 0
    assert max(tenant["p50_ms"], node["p50_ms"]) < MOST_TIMES * quiet["p95_ms"]


def test_account_of_a_revoked_token_takes_nothing_and_what_it_took_is_judged(
    cluster: WholeCluster, figures: dict[str, object]
) -> None:
    seen = stolen_account(cluster)
    figures["stolen account"] = seen
    assert (seen["verdicts"], seen["lost"], seen["can connect again"]) == (TAKEN, [], False)
