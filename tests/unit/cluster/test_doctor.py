from datetime import UTC, datetime

import pytest

from assayd.documents.cluster import NodeState
from assayd.metrics import Metrics
from assayd.model.health import Health
from assayd.store.access import DatabaseAccess
from assayd_cluster.gateway.metrics import ClusterMetrics
from assayd_cluster.gateway.readiness import broker_row, node_rows
from assayd_cluster.nodes import DatabaseNodes, Node, Outbox


def node(state: NodeState, why: str = "") -> Node:
    return Node(
        name=state.replace("_", "-"),
        state=state,
        why=why,
        capacity=4,
        in_hand=1,
        version="0.1.0",
        engine="oci",
        beat_at=datetime(2026, 1, 1, tzinfo=UTC),
        silent_s=1.0,
    )


@pytest.mark.parametrize(
    ("problem", "outbox", "status"),
    [
        ("", Outbox(published=3), Health.OK),
        ("", Outbox(unpublished=3, oldest_s=1), Health.OK),
        ("", Outbox(unpublished=3, oldest_s=60), Health.WARN),
        ("the broker doesn't accept messages", Outbox(unpublished=3, oldest_s=1), Health.FAIL),
    ],
)
def test_how_the_way_to_the_broker_is(problem: str, outbox: Outbox, status: Health) -> None:
    row = broker_row(problem, outbox)
    assert (row.status, bool(row.remedy)) == (status, status is not Health.OK)


def test_every_node_has_a_row_with_its_reason() -> None:
    rows = node_rows(
        [node("ready"), node("draining", "drained"), node("not_ready", "canary failed"), node("lost")]
    )
    assert [row.status for row in rows] == [Health.OK, Health.WARN, Health.FAIL, Health.FAIL]
    assert rows[2].detail == "canary failed"
    assert "assay node resume draining" in rows[1].remedy
    assert all(row.remedy for row in rows[1:])


def test_cluster_without_a_node_fails() -> None:
    assert [row.status for row in node_rows([])] == [Health.FAIL]


def test_gauges_show_what_is_there_and_forget_what_is_gone() -> None:
    metrics = Metrics()
    cluster = ClusterMetrics(metrics.registry)
    cluster.show([node("ready"), node("lost")], Outbox(unpublished=2, oldest_s=7, published=5, gateways=2))
    shown = metrics.render().decode()
    for line in (
        'assayd_cluster_nodes{state="ready"} 1.0',
        'assayd_cluster_nodes{state="draining"} 0.0',
        'assayd_cluster_outbox_depth{state="unpublished"} 2.0',
        "assayd_cluster_outbox_age_seconds 7.0",
        'assayd_cluster_node_capacity{node="lost"} 4.0',
    ):
        assert line in shown
    cluster.show([node("ready")], Outbox())
    assert 'node="lost"' not in metrics.render().decode()


async def test_empty_outbox_has_nothing_that_waits(database: DatabaseAccess) -> None:
    assert await DatabaseNodes(database).outbox() == Outbox()
