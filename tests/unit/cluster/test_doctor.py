from datetime import UTC, datetime

import pytest

from assayd.documents.cluster import NodeState
from assayd.metrics import Metrics
from assayd.model.health import HealthStatus
from assayd.store.access import DatabaseAccess
from assayd_cluster.gateway.broker_accounts import QueueReaderAccounts
from assayd_cluster.gateway.metrics import ClusterMetrics
from assayd_cluster.gateway.queue_watch import LOOKS, RECENT_WINDOW_S, SLOTS, QueueMonitor
from assayd_cluster.gateway.readiness import (
    MAX_PASSED_ON,
    build_account_health_row,
    build_broker_health_row,
    build_message_health_row,
    build_node_health_rows,
)
from assayd_cluster.nodes import DatabaseNodes, Node, OutboxState


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
        ("", OutboxState(published=3), HealthStatus.OK),
        ("", OutboxState(unpublished=3, oldest_s=1), HealthStatus.OK),
        ("", OutboxState(unpublished=3, oldest_s=60), HealthStatus.WARN),
        ("the broker doesn't accept messages", OutboxState(unpublished=3, oldest_s=1), HealthStatus.FAIL),
    ],
)
def test_how_the_way_to_the_broker_is(problem: str, outbox: OutboxState, status: HealthStatus) -> None:
    row = build_broker_health_row(problem, outbox)
    assert (row.status, bool(row.remedy)) == (status, status is not HealthStatus.OK)


@pytest.mark.parametrize(
    ("readers", "status", "said"),
    [
        (None, HealthStatus.WARN, "share one account"),
        (QueueReaderAccounts(tokens={"A"}), HealthStatus.OK, "1 nodes' accounts"),
        (QueueReaderAccounts(tokens={"A", "B"}), HealthStatus.FAIL, "outlive their tokens"),
        (QueueReaderAccounts(tokens={"A"}, others=["node"]), HealthStatus.WARN, "'node' can read the queue"),
    ],
)
def test_who_can_read_the_queue(readers: QueueReaderAccounts | None, status: HealthStatus, said: str) -> None:
    row = build_account_health_row(readers, {"A"})
    assert row.status is status
    assert said in row.detail
    assert bool(row.remedy) == (status is not HealthStatus.OK)


def test_messages_that_someone_takes_are_shown() -> None:
    now = [0.0]
    queue = QueueMonitor(lambda: now[0])
    for _ in range(LOOKS - 1):
        queue.note(waiting=0, unclaimed=20)
    assert build_message_health_row(queue).status is HealthStatus.OK  # they may be on their way
    queue.note(waiting=0, unclaimed=20)
    assert queue.taken == 20
    assert build_message_health_row(queue).status is HealthStatus.FAIL
    assert queue.is_empty
    queue.note(waiting=20, unclaimed=20)  # they wait: nodes are busy
    assert not queue.is_empty
    assert build_message_health_row(queue).status is HealthStatus.OK


def test_attempts_that_were_published_again_are_shown_for_ten_minutes() -> None:
    now = [0.0]
    queue = QueueMonitor(lambda: now[0])
    queue.record_republished_attempt()
    assert build_message_health_row(queue).status is HealthStatus.WARN
    now[0] = RECENT_WINDOW_S + 1
    assert build_message_health_row(queue).status is HealthStatus.OK


def test_account_that_takes_most_messages_without_a_claim_is_named() -> None:
    queue = QueueMonitor(lambda: 0.0)
    queue.record_republished_attempt()
    queue.unclaimed_by_node = {"works": 0}
    assert "account of node" not in build_message_health_row(queue).detail
    queue.unclaimed_by_node = {"works": 1, "stolen": 7}
    assert build_message_health_row(queue).detail.endswith(
        "; the account of node stolen took 7 without a claim"
    )


def test_counts_of_attempts_published_again_take_no_more_room_however_many_there_are() -> None:
    now = [0.0]
    queue = QueueMonitor(lambda: now[0])
    for _ in range(3 * SLOTS):
        now[0] += RECENT_WINDOW_S / SLOTS
        for _ in range(10):
            queue.record_republished_attempt()
    assert len(queue._again._counts) == SLOTS
    assert queue.republished_attempts == 10 * SLOTS


def test_node_that_claims_again_and_again_although_it_is_drained_is_shown() -> None:
    queue = QueueMonitor(lambda: 0.0)
    for _ in range(MAX_PASSED_ON):
        queue.record_passed_on_attempt()
    assert (
        build_message_health_row(queue).status is HealthStatus.OK
    )  # messages that it had when it was drained
    queue.record_passed_on_attempt()
    row = build_message_health_row(queue)
    assert row.status is HealthStatus.WARN
    assert "nodes that take no work claimed" in row.detail


def test_runs_that_were_taken_back_from_nodes_are_shown_for_ten_minutes() -> None:
    now = [0.0]
    queue = QueueMonitor(lambda: now[0])
    queue.record_taken_back_run()
    row = build_message_health_row(queue)
    assert row.status is HealthStatus.WARN
    assert row.detail.startswith("1 runs taken back")
    assert "run.taken_back" in row.remedy
    now[0] = RECENT_WINDOW_S + 1
    assert build_message_health_row(queue).status is HealthStatus.OK


def test_every_node_has_a_row_with_its_reason() -> None:
    rows = build_node_health_rows(
        [node("ready"), node("draining", "drained"), node("not_ready", "canary failed"), node("lost")]
    )
    assert [row.status for row in rows] == [
        HealthStatus.OK,
        HealthStatus.WARN,
        HealthStatus.FAIL,
        HealthStatus.FAIL,
    ]
    assert rows[2].detail == "canary failed"
    assert "assay node resume draining" in rows[1].remedy
    assert all(row.remedy for row in rows[1:])


def test_node_that_was_stopped_in_order_is_no_failure_unless_all_were() -> None:
    assert [row.status for row in build_node_health_rows([node("ready"), node("stopped")])] == [
        HealthStatus.OK,
        HealthStatus.OK,
    ]
    assert [row.status for row in build_node_health_rows([node("stopped")])] == [
        HealthStatus.OK,
        HealthStatus.FAIL,
    ]


def test_lost_node_can_be_forgotten() -> None:
    [row] = build_node_health_rows([node("lost")])
    assert "assay node forget lost" in row.remedy


def test_cluster_without_a_node_fails() -> None:
    assert [row.status for row in build_node_health_rows([])] == [HealthStatus.FAIL]


def test_gauges_show_what_is_there_and_forget_what_is_gone() -> None:
    metrics = Metrics()
    cluster = ClusterMetrics(metrics.registry)
    cluster.update_gauges(
        [node("ready"), node("lost")], OutboxState(unpublished=2, oldest_s=7, published=5, gateways=2)
    )
    shown = metrics.render_metrics().decode()
    for line in (
        'assayd_cluster_nodes{state="ready"} 1.0',
        'assayd_cluster_nodes{state="draining"} 0.0',
        'assayd_cluster_outbox_depth{state="unpublished"} 2.0',
        "assayd_cluster_outbox_age_seconds 7.0",
        'assayd_cluster_node_capacity{node="lost"} 4.0',
    ):
        assert line in shown
    cluster.update_gauges([node("ready")], OutboxState())
    assert 'node="lost"' not in metrics.render_metrics().decode()


async def test_empty_outbox_has_nothing_that_waits(database: DatabaseAccess) -> None:
    assert await DatabaseNodes(database).read_outbox_state() == OutboxState()
