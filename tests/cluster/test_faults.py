"""Every part of a cluster dies, hangs or is cut off while it works: nothing is lost, doubled or wrong."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from assayd.client.errors import ClientError
from support.cluster.load import Load
from support.cluster.whole import WholeCluster, cut_off

pytestmark = pytest.mark.cluster

EACH = 100
STOPPED_S = 40.0
"""Longer than the delivery timeout, and than a node counts as alive."""


def _through(
    cluster: WholeCluster, load: Load, figures: dict[str, object], name: str, fault: Callable[[], None]
) -> None:
    """Send attempts, have the fault come in the middle of them, and see what becomes of all."""
    before = load.send(EACH // 2, slow_s=3.0)
    began = time.monotonic()
    fault()
    after = load.send(EACH - EACH // 2, slow_s=0.3)
    outcome = load.outcome([*before, *after])
    figures[name] = {
        "attempts": EACH,
        "all verdicts after s": round(outcome.last_at - began, 1),
        "second runs": cluster.second_runs([*before, *after]),
    }
    assert outcome.lost == []
    assert outcome.wrong == []
    assert cluster.verdicts([*before, *after]) == EACH
    cluster.wait_for_nodes({"node-1", "node-2"})


def test_without_faults_every_attempt_gets_its_verdict(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    _through(cluster, load, figures, "none", lambda: None)


def test_a_node_that_is_killed_with_work_in_hand_loses_none_of_it(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    parts = ("node-1-worker", "node-1-daemon")

    def fault() -> None:
        cluster.wait_for_work("node-1")
        cluster.send(parts, signal.SIGKILL)
        time.sleep(2)  # as long as a service manager takes
        cluster.restart(*parts)

    _through(cluster, load, figures, "node killed", fault)


def test_a_worker_that_is_killed_goes_on_with_what_its_daemon_has(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    def fault() -> None:
        cluster.wait_for_work("node-2")
        cluster.send(("node-2-worker",), signal.SIGKILL)
        cluster.restart("node-2-worker")

    _through(cluster, load, figures, "worker killed", fault)


def test_a_daemon_that_is_killed_has_its_runs_repeated(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    def fault() -> None:
        cluster.wait_for_work("node-2")
        cluster.send(("node-2-daemon",), signal.SIGKILL)
        cluster.restart("node-2-daemon")

    _through(cluster, load, figures, "daemon killed", fault)


def test_a_node_that_hangs_beyond_the_delivery_timeout_comes_back_too_late(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    parts = ("node-1-worker", "node-1-daemon")

    def fault() -> None:
        cluster.wait_for_work("node-1")
        cluster.send(parts, signal.SIGSTOP)
        threading.Timer(STOPPED_S, cluster.send, (parts, signal.SIGCONT)).start()

    _through(cluster, load, figures, f"node stopped for {STOPPED_S:g} s", fault)


def test_the_broker_may_die(cluster: WholeCluster, load: Load, figures: dict[str, object]) -> None:
    def fault() -> None:
        cluster.kill_broker()
        cluster.started.broker.start()

    _through(cluster, load, figures, "RabbitMQ killed", fault)


def test_the_database_may_die(cluster: WholeCluster, load: Load, figures: dict[str, object]) -> None:
    def fault() -> None:
        cluster.kill_database()
        time.sleep(2)
        cluster.started.database.start()

    _through(cluster, load, figures, "PostgreSQL killed", fault)


def test_the_gateway_may_die_in_the_middle_of_an_upload(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    lines = load.lines(EACH)

    def half() -> Iterator[bytes]:
        yield from lines[: EACH // 2]
        cluster.send(("gateway",), signal.SIGKILL)
        yield from lines[EACH // 2 :]

    def fault() -> None:
        with pytest.raises(ClientError):
            cluster.client.send_batch(half(), name="interrupted")
        cluster.restart("gateway")
        cluster.wait_for_gateway()
        batch = cluster.client.send_batch(iter(lines), name="interrupted")
        assert batch["counts"]["total"] == EACH, batch

    _through(cluster, load, figures, "gateway killed", fault)
    cluster.wait_until("the batch", lambda: cluster.client.batch("interrupted")["state"] == "finished")
    counts = cluster.client.batch("interrupted")["counts"]
    assert counts["validated"] + counts["failed"] == EACH, counts


def test_a_node_that_is_cut_off_and_comes_back_does_no_harm(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    with cut_off(cluster, "node-2") as link:
        cluster.wait_for_nodes({"node-1", "node-2"})

        def fault() -> None:
            cluster.wait_for_work("node-2")
            link.cut()
            threading.Timer(STOPPED_S, link.heal).start()

        _through(cluster, load, figures, f"link cut for {STOPPED_S:g} s", fault)


def test_no_attempt_is_left_anywhere_when_all_is_done(cluster: WholeCluster) -> None:
    cluster.wait_until("what is left of late runs", lambda: cluster.unfinished() == 0)
