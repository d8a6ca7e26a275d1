"""Gateway and nodes are upgraded one after the other under load; adjacent minor versions work together."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from assayd import __version__
from support.cluster.load import Load
from support.cluster.whole import WholeCluster

pytestmark = pytest.mark.cluster

_MAJOR, _MINOR = (int(number) for number in __version__.split(".")[:2])
NEXT = f"{_MAJOR}.{_MINOR + 1}.0"
BEYOND = f"{_MAJOR}.{_MINOR + 2}.0"
MODULES = {
    "gateway": "assayd_cluster.gateway.__main__",
    "worker": "assayd_cluster.node.__main__",
    "daemon": "assayd.__main__",
}


def test_everything_is_upgraded_under_load_without_a_lost_attempt(
    cluster: WholeCluster, load: Load, figures: dict[str, object]
) -> None:
    began = time.monotonic()
    with _under_load(load) as sent:
        for names in (("gateway",), ("node-1-worker", "node-1-daemon"), ("node-2-worker", "node-2-daemon")):
            _upgrade(cluster, names, NEXT)
            cluster.wait_for_nodes({"node-1", "node-2"})
    outcome = load.outcome(sent)

    took_s = round(time.monotonic() - began, 1)
    figures["rolling upgrade"] = {"attempts": len(sent), "all verdicts after s": took_s}
    assert (outcome.lost, outcome.wrong) == ([], [])
    assert cluster.verdicts(sent) == len(sent)
    assert cluster.versions() == {NEXT}


def test_a_node_two_minors_away_takes_no_work_and_says_why(cluster: WholeCluster, load: Load) -> None:
    _upgrade(cluster, ("gateway", "node-1-worker", "node-2-worker"), __version__)
    _upgrade(cluster, ("node-2-worker",), BEYOND)
    cluster.wait_for_nodes({"node-1"})

    ids = load.send(10)
    outcome = load.outcome(ids)

    assert (outcome.lost, outcome.wrong) == ([], [])
    assert "minor" in cluster.why("node-2")
    assert cluster.nodes_of(ids) == {"node-1"}


def _upgrade(cluster: WholeCluster, names: tuple[str, ...], version: str) -> None:
    """Stop programs in order, and start them with another version number."""
    for name in names:
        part = cluster.part(name)
        part.send(signal.SIGTERM)
        cluster.wait_until(f"the end of {name}", part.ended)
    for name in reversed(names):
        part, module = cluster.part(name), MODULES[name.rpartition("-")[2]]
        start = f"import assayd; assayd.__version__ = {version!r}; from {module} import main; exit(main())"
        before = part.command[:2] if "oci.sh" in part.command[0] else []
        part.command = [*before, sys.executable, "-c", start]
        part.start()


@contextmanager
def _under_load(load: Load) -> Iterator[list[str]]:
    """Submit attempts continuously while the body runs; yields the ids of all attempts."""
    sent: list[str] = []
    enough = threading.Event()

    def send() -> None:
        while not enough.wait(0.5):
            sent.extend(load.send(4, slow_s=1.0))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        enough.set()
        thread.join()
