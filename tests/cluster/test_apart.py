"""A node with its own network and clock: the link is cut, all of it dies at once, its clock jumps.

The nodes of `test_in_turn` share the clock with the gateway. Here the node's programs see another one.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster.load import Load
from support.cluster.whole import Link, WholeCluster, cut_off

pytestmark = pytest.mark.cluster

EACH = 50
IN_HAND = 4
CUT_S = 30.0
OFF_S = 10.0
JUMP = "+600s"
FAKETIME = "libfaketimeMT.so.1"
NODE = ("node-2-worker", "node-2-daemon")
NODES = {"node-1", "node-2"}


@contextmanager
def own_clock(cluster: WholeCluster, folder: Path) -> Iterator[Callable[[str], None]]:
    """Give the programs of node-2 a clock of their own while the body runs; returns what moves it."""
    file = folder / "clock"
    file.write_text("+0s")
    (library,) = Path("/usr/lib").glob(f"*/faketime/{FAKETIME}")
    faked = (f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_NO_CACHE=1")
    commands = {name: cluster.part(name).command for name in NODE}
    for name in NODE:
        part = cluster.part(name)
        part.command = ["env", *faked, "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1", *part.command]
        part.end(30)
        part.start()
    try:
        yield file.write_text  # type: ignore[misc]
    finally:
        for name, command in commands.items():
            cluster.part(name).command = command
            cluster.part(name).end(30)
            cluster.part(name).start()


def _through(cluster: WholeCluster, load: Load, fault: Callable[[], None]) -> dict[str, object]:
    """Send programs, have the fault come while the node works, send more; return the counts."""
    began = time.time()
    sent = load.send(EACH // 2 - IN_HAND) + load.send(IN_HAND, slow_s=8.0, kinds=["slow"])
    cluster.wait_for_work("node-2", since=began)
    fault()
    sent += load.send(EACH - EACH // 2)
    outcome = load.outcome(sent, within_s=600)
    cluster.wait_for_nodes(NODES, within_s=300)
    assert (outcome.lost, outcome.wrong) == ([], [])
    bundles = [name for name in sent if any(cluster.folder.glob(f"gateway/state/artifacts/*/*/*{name}*"))]
    return {
        "sent": len(sent),
        "verdicts": cluster.verdicts(sent),
        "ends": cluster.ends(sent),
        "bundles": len(bundles),
        "second runs": cluster.second_runs(sent),
        "took s": round(time.time() - began, 1),
    }


def test_node_that_is_cut_off_dies_and_lives_in_another_time_makes_no_verdict_wrong(
    cluster: WholeCluster, load: Load, figures: dict[str, object], tmp_path: Path
) -> None:
    with cut_off(cluster, "node-2") as link, own_clock(cluster, tmp_path) as set_clock:
        cluster.wait_for_nodes(NODES)
        faults = {
            "link cut for 30 s": lambda: _cut(link),
            "power off for 10 s": lambda: _power_off(cluster, link),
            "clock 10 minutes ahead": lambda: set_clock(JUMP),
            "clock back": lambda: set_clock("+0s"),
        }
        seen = {name: _through(cluster, load, fault) for name, fault in faults.items()}
    figures["apart"] = seen
    for name, counts in seen.items():
        found = [counts[each] for each in ("sent", "verdicts", "ends", "bundles")]
        assert (name, found) == (name, [EACH] * 4)


def _cut(link: Link) -> None:
    link.cut()
    time.sleep(CUT_S)
    link.heal()


def _power_off(cluster: WholeCluster, link: Link) -> None:
    """End all programs of the node without a word to anyone, and start them again later."""
    link.cut()
    cluster.send(NODE, signal.SIGKILL)
    time.sleep(OFF_S)
    link.heal()
    cluster.restart(*NODE)
