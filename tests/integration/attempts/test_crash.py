"""The daemon is killed at every step of an attempt: one verdict, at most two runs, no leftovers."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd.clock import UlidGenerator
from assayd.ports.engine import LABEL_CONTAINER, LABEL_GENERATION
from assayd_client import DaemonUnreachable, Document
from support.daemons.daemon_process import DaemonProcess, new_home
from support.daemons.faulty_daemon import Step
from support.engines.oci import needs_oci
from support.texts.extractors import GOOD, PROCESSES, endless, extractor

pytestmark = pytest.mark.engine

FAULTY = Path(__file__).resolve().parents[2] / "support/daemons/faulty_daemon.py"

STARTS_AND_DIES_WITHIN_S = 240.0
"""A whole start with its isolation check, on a machine that is busy with other things."""
RUNS_AFTER_DYING_AT = {
    Step.ACCEPTED: 1,
    Step.CHECKED: 1,
    Step.LEASED: 1,
    Step.JOURNALLED: 2,
    Step.RAN: 2,
    Step.JUDGED: 2,
    Step.BUNDLED: 2,
    Step.RECORDED: 1,
}
"""A run counts from the moment at which it is on record."""
WITH_A_CONTAINER = {Step.LEASED, Step.JOURNALLED, Step.RAN}
"""Steps at which an engine has something of the attempt; these run on each engine, the others on one."""
OCI = pytest.param("oci", marks=needs_oci)
EACH_ENGINE = ["docker", OCI]
ONE_ENGINE = [OCI] if os.geteuid() == 0 else ["docker"]
on_each_engine = pytest.mark.parametrize("mortal", EACH_ENGINE, indirect=True)
on_one_engine = pytest.mark.parametrize("mortal", ONE_ENGINE, indirect=True)


class Mortal(DaemonProcess):
    """A daemon that dies at a given step."""

    def __init__(self, engine: str) -> None:
        home = new_home()
        self._trap = home / "trap"
        # What is made ready at each of its births would take most of the time.
        settings = {"POOL__DEFAULT_TARGET": "0", "ANALYSIS__WORKERS": "1"}
        super().__init__(engine, home=home, settings=settings, program=(sys.executable, FAULTY, self._trap))

    def die_at(self, step: Step, submission: Document) -> str:
        """Submit an attempt during which the daemon dies; return the attempt's id."""
        attempt_id = UlidGenerator().new()
        self.set_trap(step)
        with self.client() as client, pytest.raises(DaemonUnreachable):
            client.submit(submission, wait_s=60, attempt_id=attempt_id)
        assert self.wait() == -signal.SIGKILL
        assert not self._trap.exists()
        return attempt_id

    def set_trap(self, step: Step) -> None:
        self._trap.write_text(step)

    def finished(self, attempt_id: str) -> Document:
        with self.client() as client:
            return client.attempt(attempt_id, wait_s=60)


@pytest.fixture(scope="module")
def mortal(request: pytest.FixtureRequest) -> Iterator[Mortal]:
    """Return the daemon that all deaths share; each test leaves it running, with its state."""
    mortal = Mortal("oci" if request.param == "oci" else request.getfixturevalue("docker_host"))
    try:
        mortal.start()
        yield mortal
    finally:
        mortal.dispose()


def runs(daemon: DaemonProcess, attempt_id: str) -> list[int]:
    rows = daemon.rows("SELECT run_number FROM runs WHERE attempt_id = ? ORDER BY run_number", attempt_id)
    return [row["run_number"] for row in rows]


def assert_nothing_is_lost_or_left(daemon: DaemonProcess, attempt_id: str) -> None:
    """Check database, bundles and engine after a crash, a restart and the verdict."""
    (row,) = daemon.rows("SELECT * FROM verdicts WHERE attempt_id = ?", attempt_id)
    assert daemon.rows("SELECT id FROM attempts WHERE id NOT IN (SELECT attempt_id FROM verdicts)") == []
    assert (daemon.state / "artifacts" / row["bundle"] / "manifest.json").is_file()
    assert list((daemon.state / "artifacts").rglob(".tmp-*")) == []
    earlier = {run["container_ulid"] for run in daemon.rows("SELECT * FROM runs")}
    generation = daemon.log.wait_for("daemon.ready")["generation"]
    for run in daemon.rows("SELECT * FROM runs WHERE generation = ?", generation):
        daemon.log.wait_for("container.removed", container=run["container_ulid"])
    assert earlier.isdisjoint(each.labels[LABEL_CONTAINER] for each in daemon.containers())
    assert {each.labels[LABEL_GENERATION] for each in daemon.containers()} <= {generation}


@on_each_engine
@pytest.mark.parametrize("step", [step for step in Step if step in WITH_A_CONTAINER])
def test_attempt_with_a_container_gets_one_verdict_though_the_daemon_died(mortal: Mortal, step: Step) -> None:
    dies_and_is_run_again(mortal, step)


@on_one_engine
@pytest.mark.parametrize("step", [step for step in Step if step not in WITH_A_CONTAINER])
def test_attempt_without_one_gets_one_verdict_though_the_daemon_died(mortal: Mortal, step: Step) -> None:
    dies_and_is_run_again(mortal, step)


def dies_and_is_run_again(mortal: Mortal, step: Step) -> None:
    attempt_id = mortal.die_at(step, extractor(GOOD))

    mortal.start()

    attempt = mortal.finished(attempt_id)
    assert (attempt["verdict"], attempt["cause"]) == ("validated", "completed")
    assert runs(mortal, attempt_id) == list(range(1, RUNS_AFTER_DYING_AT[step] + 1))
    assert attempt["run_number"] == RUNS_AFTER_DYING_AT[step]
    assert_nothing_is_lost_or_left(mortal, attempt_id)


@on_one_engine
@pytest.mark.parametrize("step", [Step.CHECKED, Step.BUNDLED])
def test_refused_attempt_gets_one_verdict_though_the_daemon_died(mortal: Mortal, step: Step) -> None:
    attempt_id = mortal.die_at(step, extractor(PROCESSES))

    mortal.start()

    attempt = mortal.finished(attempt_id)
    assert (attempt["verdict"], attempt["execution"]) == ("failed", None)
    assert_nothing_is_lost_or_left(mortal, attempt_id)


@on_one_engine
def test_attempt_that_saw_two_deaths_is_not_run_a_third_time(mortal: Mortal) -> None:
    attempt_id = mortal.die_at(Step.JOURNALLED, extractor(GOOD))
    mortal.set_trap(Step.JOURNALLED)
    mortal.spawn()
    assert mortal.wait(STARTS_AND_DIES_WITHIN_S) == -signal.SIGKILL

    mortal.start()

    attempt = mortal.finished(attempt_id)
    assert (attempt["verdict"], attempt["error"]["code"]) == ("error", "attempt.interrupted")
    assert runs(mortal, attempt_id) == [1, 2]
    assert_nothing_is_lost_or_left(mortal, attempt_id)


@on_each_engine
def test_killed_daemon_leaves_no_process_and_the_next_run_no_container(mortal: Mortal) -> None:
    with mortal.client() as client:
        attempt = client.submit(endless())
        next(e for e in client.events(attempt["id"]) if e.kind == "unit" and e.body["status"] == "started")
    workers = mortal.workers()
    before = {container.engine_id for container in mortal.containers()}

    mortal.kill()

    assert workers
    assert all(map(ends, workers))
    mortal.start()
    assert before.isdisjoint(container.engine_id for container in mortal.containers())
    with mortal.client() as client:
        client.cancel(attempt["id"])
    assert mortal.finished(attempt["id"])["verdict"] == "cancelled"
    assert_nothing_is_lost_or_left(mortal, attempt["id"])


def ends(pid: int) -> bool:
    """Wait until a process that isn't our child has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)
