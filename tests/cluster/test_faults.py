"""A node's worker or daemon is killed while it works: nothing is lost, doubled or wrong."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from support.cluster.load import Load
from support.cluster.whole import WholeCluster

pytestmark = pytest.mark.cluster

EACH = 100


def _through(
    cluster: WholeCluster, load: Load, figures: dict[str, object], name: str, fault: Callable[[], None]
) -> None:
    """Submit attempts, cause the fault halfway, and check the outcome of all attempts."""
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


def test_no_attempt_is_left_anywhere_when_all_is_done(cluster: WholeCluster) -> None:
    cluster.wait_until("what is left of late runs", lambda: cluster.unfinished() == 0)
