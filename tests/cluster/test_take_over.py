"""A gateway is killed during a repair or a generation: another one takes over, and nothing is done twice."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd_client import Document, PlainClient
from support.cluster.whole import WholeCluster, whole_cluster

pytestmark = pytest.mark.cluster

PLAYER = """
import ctypes, json, signal, sys
from pathlib import Path

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with its gateway
folder, asked = Path(sys.argv[1]), sys.stdin.read()
with (folder / "asked").open("a") as file:
    file.write(".")
    file.flush()
    if file.tell() <= int((folder / "silent").read_text()):
        signal.pause()
print(json.dumps({"code": (folder / "answer").read_text(), "reason": "As asked."}))
"""
TAKEN_OVER_S = 40.0
"""15 seconds until a gateway counts as dead, a beat, and what this machine is slow."""
BROKEN = "result: int = 1 / 0\n"
RIGHT = "result: int = 3\n"
SLOW = "import time\ntime.sleep(6)\nresult: int = 3\n"


class Pair:
    """A cluster of two gateways and a node, with a scripted provider."""

    def __init__(self, cluster: WholeCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.first = cluster.client
        self.second = PlainClient(cluster.folder / "gateway-2.sock")

    def play(self, answer: str, *, silent: int) -> None:
        """Make the provider give no answer to the first `silent` requests, and this answer afterwards."""
        (self.folder / "answer").write_text(answer)
        (self.folder / "silent").write_text(str(silent))
        (self.folder / "asked").write_text("")

    def asked(self) -> int:
        """Return the number of requests to the provider."""
        return (self.folder / "asked").stat().st_size

    def kill_first(self) -> float:
        """Kill the gateway that drives the work; return the time."""
        self.cluster.send(("gateway",), signal.SIGKILL)
        return time.monotonic()

    def adopt_orphaned_work(self, kind: str, subject: str) -> None:
        """Wait until the other gateway drives the work."""
        statement = "SELECT count(*) FROM drivers d JOIN gateways g ON g.id = d.gateway_id "
        statement += "WHERE d.kind = %s AND d.subject = %s"
        taken = lambda: self.cluster.rows(statement, kind, subject)[0][0] == 1  # noqa: E731
        self.cluster.wait_until(f"another gateway with the {kind}", taken, TAKEN_OVER_S)

    def attempts(self) -> list[str]:
        """Return all attempts, oldest first."""
        return [row[0] for row in self.cluster.rows("SELECT id FROM attempts ORDER BY created_at, id")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("play")
    (folder / "player.py").write_text(PLAYER)
    argv = [sys.executable, str(folder / "player.py"), str(folder)]
    providers = {"played": {"type": "command", "argv": argv}}
    settings = {"ASSAYD_REPAIR__PROVIDERS": json.dumps(providers)}
    with whole_cluster(1, gateways=2, gateway_settings=settings) as cluster:
        yield Pair(cluster, folder)


@pytest.fixture
def pair(running: Pair) -> Iterator[Pair]:
    yield running
    if running.cluster.part("gateway").ended():
        running.cluster.restart("gateway")
    running.cluster.wait_for_gateway()


def begin_repair(pair: Pair, name: str) -> Document:
    """Start a repair at the first gateway; return the repair."""
    wanted = {"kind": "code", "payload": {"code": f"# {name}\n{BROKEN}"}, "repair": {"provider": "played"}}
    failed = pair.first.submit(wanted, wait_s=60)
    assert failed["verdict"] == "failed"
    [repair] = pair.first.repairs_of(failed["id"])["repairs"]
    pair.cluster.wait_until("the provider to be asked", lambda: pair.asked() > 0)
    return dict(repair)


def end_of(pair: Pair, repair: Document) -> Document:
    """Follow a repair at the second gateway until it ends; return it."""
    for _ in pair.second.repair_events(repair["id"]):
        pass
    return dict(pair.second.repair_state(repair["id"]))


def test_repair_whose_provider_was_being_asked_is_asked_again_by_the_other_gateway(
    pair: Pair, figures: dict[str, object]
) -> None:
    before = pair.attempts()
    pair.play(RIGHT, silent=1)
    repair = begin_repair(pair, "asked")
    killed_at = pair.kill_first()
    pair.adopt_orphaned_work("repair", repair["id"])
    pair.cluster.wait_until("the provider to be asked again", lambda: pair.asked() == 2, TAKEN_OVER_S)
    figures["repair taken over after s"] = round(time.monotonic() - killed_at, 1)

    ended = end_of(pair, repair)

    assert (ended["outcome"], [fix["verdict"] for fix in ended["attempts"]]) == ("repaired", ["validated"])
    made = [attempt for attempt in pair.attempts() if attempt not in before]
    assert made == [repair["attempt_id"], ended["attempts"][0]["attempt_id"]]
    assert pair.cluster.verdicts(made) == pair.cluster.ends(made) == 2
    assert pair.asked() == 2


def test_repair_whose_fix_was_being_run_waits_for_that_run_at_the_other_gateway(pair: Pair) -> None:
    before = pair.attempts()
    pair.play(SLOW, silent=0)
    repair = begin_repair(pair, "run")
    pair.cluster.wait_until("the run of the fix", lambda: len(runs_since(pair, before)) == 2)
    pair.kill_first()

    ended = end_of(pair, repair)

    assert (ended["outcome"], [fix["verdict"] for fix in ended["attempts"]]) == ("repaired", ["validated"])
    made = [attempt for attempt in pair.attempts() if attempt not in before]
    assert made == [repair["attempt_id"], ended["attempts"][0]["attempt_id"]]
    assert pair.cluster.verdicts(made) == pair.cluster.ends(made) == 2
    assert pair.cluster.second_runs(made) == 0
    assert pair.asked() == 1


def test_generation_whose_provider_was_being_asked_goes_on_at_the_other_gateway(pair: Pair) -> None:
    before = pair.attempts()
    pair.play(RIGHT, silent=1)
    begun = pair.first.generate(kind="code", intent="three", context={}, provider="played")
    pair.cluster.wait_until("the provider to be asked", lambda: pair.asked() == 1)
    pair.kill_first()
    pair.adopt_orphaned_work("generation", begun["id"])

    for _ in pair.second.generation_events(begun["id"]):
        pass

    ended = pair.second.generation(begun["id"])
    assert ended["outcome"] == "validated"
    made = [attempt for attempt in pair.attempts() if attempt not in before]
    assert made == [ended["attempt_id"]]
    assert pair.cluster.verdicts(made) == pair.cluster.ends(made) == 1
    assert pair.asked() == 2


def runs_since(pair: Pair, before: list[str]) -> list[str]:
    """Return the attempts that have had a run since then."""
    return [row[0] for row in pair.cluster.rows("SELECT attempt_id FROM runs") if row[0] not in before]
