"""One run of 600 attempts and a batch, while in turn every part of the cluster dies, hangs or is cut off.

The work never ends between two faults: the next comes while the last one's attempts are still on their way.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import pytest

from assayd_client.errors import ClientError
from support.cluster.load import Load
from support.cluster.whole import Link, WholeCluster, cut_off

pytestmark = pytest.mark.cluster

EACH = 100
AWAY_S = 40.0
"""Longer than the delivery timeout, and than a node counts as alive."""
BUSY_S = 900.0
"""Within which all that has piled up is done, on a machine that has ten times the work it has cores for."""
BOTH_FULL = 8
"""As many attempts as both nodes take at once."""
RESTART_S = 2.0
"""As long as a service manager takes."""
NODE_1 = ("node-1-worker", "node-1-daemon")
NODES = {"node-1", "node-2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one part, and the repair of that part."""

    name: str
    harm: Callable[[], None]
    mend: Callable[[], None]
    work: str | None = None
    """The node that has work in hand when it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survived:
    """A fault that the cluster has survived: its time, and the attempts around it."""

    came_at: float
    under_way: list[str]
    attempts: list[str]
    down_s: float
    whole_s: float
    load: float


def test_600_attempts_and_a_batch_outlive_every_fault_in_turn(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    batch = load.submissions(EACH)
    survived: dict[str, Survived] = {}
    late = 0
    with cut_off(cluster, "node-2") as link:
        cluster.wait_for_nodes(NODES)
        for fault in _faults(cluster, link, [json.dumps(document).encode() + b"\n" for document, _ in batch]):
            sent = [attempt for past in survived.values() for attempt in past.attempts]
            survived[fault.name] = _survive(cluster, load, fault, sent)
            late = max(late, cluster.late_verdicts())
        outcomes = {name: load.outcome(past.attempts, within_s=BUSY_S) for name, past in survived.items()}
        cluster.wait_until("the batch", lambda: cluster.client.batch("in-turn")["state"] == "finished")
        cluster.wait_until("what is left of late runs", lambda: cluster.unfinished() == 0)

    figures["in turn"] = {name: _figures(cluster, past) for name, past in survived.items()}
    attempts = [attempt for past in survived.values() for attempt in past.attempts]
    figures["in turn, second runs"] = cluster.second_runs(attempts)
    assert {name: outcome.lost for name, outcome in outcomes.items() if outcome.lost} == {}
    assert {name: outcome.wrong for name, outcome in outcomes.items() if outcome.wrong} == {}
    assert len(set(attempts)) == 6 * EACH
    assert cluster.verdicts(attempts) == cluster.ends(attempts) == 6 * EACH
    counts = cluster.client.batch("in-turn")["counts"]
    validated = sum(verdict == "validated" for _, verdict in batch)
    assert (counts["validated"], counts["failed"], counts["total"]) == (validated, EACH - validated, EACH)
    assert late > 0


def _faults(cluster: WholeCluster, link: Link, lines: list[bytes]) -> list[Fault]:
    def upload(broken_off: bool) -> Iterator[bytes]:
        for number, line in enumerate(lines):
            if broken_off and number == EACH // 2:
                cluster.send(("gateway",), signal.SIGKILL)
            yield line

    def kill_gateway() -> None:
        with pytest.raises(ClientError):
            cluster.client.send_batch(upload(broken_off=True), name="in-turn")

    def start_gateway() -> None:
        cluster.restart("gateway")
        cluster.wait_for_gateway()
        answered = cluster.client.send_batch(upload(broken_off=False), name="in-turn")
        assert answered["counts"]["total"] == EACH, answered

    def after(wait_s: float, mend: Callable[[], object]) -> Callable[[], None]:
        def mended() -> None:
            time.sleep(wait_s)
            mend()

        return mended

    def send(number: signal.Signals) -> Callable[[], None]:
        return lambda: cluster.send(NODE_1, number)

    started = cluster.started
    return [
        Fault(
            name="node killed",
            harm=send(signal.SIGKILL),
            mend=after(RESTART_S, lambda: cluster.restart(*NODE_1)),
            work="node-1",
        ),
        Fault(
            name=f"node stopped for {AWAY_S:g} s",
            harm=send(signal.SIGSTOP),
            mend=after(AWAY_S, send(signal.SIGCONT)),
            work="node-1",
        ),
        Fault(name="RabbitMQ killed", harm=cluster.kill_broker, mend=started.broker.start),
        Fault(
            name="PostgreSQL killed",
            harm=cluster.kill_database,
            mend=after(RESTART_S, started.database.start),
        ),
        Fault(name="gateway killed", harm=kill_gateway, mend=start_gateway),
        Fault(name=f"link cut for {AWAY_S:g} s", harm=link.cut, mend=after(AWAY_S, link.heal), work="node-2"),
    ]


def _survive(cluster: WholeCluster, load: Load, fault: Fault, sent: list[str]) -> Survived:
    """Submit attempts, cause the fault halfway, and wait until the cluster is complete again."""
    began = time.time()
    before = [
        *load.send(EACH // 2 - BOTH_FULL, slow_s=3.0),
        *load.send(BOTH_FULL, slow_s=8.0, kinds=["slow"]),
    ]
    if fault.work is not None:
        cluster.wait_for_work(fault.work, since=began)
    came_at = time.time()
    fault.harm()
    with ThreadPoolExecutor(1) as pool:
        after = pool.submit(load.send, EACH - EACH // 2)
        fault.mend()
        mended_at = time.time()
        attempts = [*before, *after.result()]
    cluster.wait_for_gateway()
    cluster.wait_for_nodes(NODES, since=mended_at)
    return Survived(
        came_at=came_at,
        under_way=[*sent, *before],
        attempts=attempts,
        down_s=mended_at - came_at,
        whole_s=time.time() - mended_at,
        load=round(os.getloadavg()[0], 1),
    )


def _figures(cluster: WholeCluster, past: Survived) -> dict[str, object]:
    """Return the effects of the fault in seconds after it."""
    came_at = past.came_at
    late = [at for at in cluster.ended_at(past.under_way) if at > came_at]
    last_at = max(cluster.ended_at(past.attempts))
    began = [came_at, *cluster.began_at(came_at, last_at)]
    return {
        "attempts": len(past.attempts),
        "load of the machine": past.load,
        "away for s": round(past.down_s, 1),
        "all parts work again after s": round(past.down_s + past.whole_s, 1),
        "no run began for s": round(max(after - before for before, after in pairwise(began)), 1),
        "under way when it came": len(late),
        "all of these have verdicts after s": round(max(late, default=came_at) - came_at, 1),
        "all sent around it after s": round(last_at - came_at, 1),
    }
