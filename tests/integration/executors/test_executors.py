"""Executors on the OCI engine: equal verdicts, and nothing lost or left, whichever process is killed."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from assayd.clock import UlidGenerator
from assayd.documents import canonical
from assayd.kinds.registry import load_own_validators
from assayd.ports.engine import LABEL_CONTAINER, LABEL_EXECUTOR, LABEL_GENERATION
from assayd_client import DaemonUnreachable, Document
from assayd_client.errors import NotReady
from support.daemons.daemon_process import ROOT, DaemonProcess, new_home
from support.daemons.faulty_daemon import Step
from support.engines.oci import needs_oci
from support.texts.extractors import GOOD, PROCESSES, endless, extractor

pytestmark = [pytest.mark.engine, needs_oci]

FAULTY = ROOT / "tests/support/daemons/faulty_daemon.py"
RUNS_AFTER_AN_EXECUTOR_DIED_AT = {
    Step.CHECKED: 1,
    Step.LEASED: 1,
    Step.JOURNALLED: 2,
    Step.RAN: 2,
    Step.JUDGED: 2,
    Step.BUNDLED: 2,
}
RUNS_AFTER_THE_DAEMON_DIED_AT = {Step.ACCEPTED: 1, Step.CHECKED: 1, Step.JOURNALLED: 2, Step.RECORDED: 1}


class Mortal(DaemonProcess):
    """A daemon with two executors; the daemon or an executor dies at a given step."""

    def __init__(self, *, executors_die: bool) -> None:
        home = new_home()
        self._trap = home / "trap"
        variables = [f"FAULTY_TRAP={self._trap}", f"PYTHONPATH={ROOT / 'tests'}"]
        program = ["env", *variables, sys.executable, FAULTY, self._trap]
        if executors_die:
            program.append("support.daemons.faulty_executor")
        settings = {"POOL__DEFAULT_TARGET": "0", "EXECUTORS": "2"}
        super().__init__("oci", home=home, settings=settings, program=program)

    def set_trap(self, step: Step) -> None:
        self._trap.write_text(step)

    def wait_for_all_executors(self) -> None:
        """Wait until each executor that has ended is replaced by one that is ready."""
        for number in (0, 1):
            self.log.wait_for_last("sandbox.ready", after="executor.lost", executor=number)

    def executors(self) -> list[int]:
        """Return the executor processes, without their parent."""
        parents = [pid for pid in self.workers() if b"executor" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return [child for parent in parents for child in children(parent)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


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


def make_mortal(*, executors_die: bool) -> Iterator[Mortal]:
    mortal = Mortal(executors_die=executors_die)
    try:
        mortal.start()
        yield mortal
    finally:
        mortal.dispose()


@pytest.fixture(scope="module")
def daemon() -> Iterator[Mortal]:
    """Return a daemon whose executors can be killed at a step."""
    yield from make_mortal(executors_die=True)


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    """Return a daemon that can be killed at a step."""
    yield from make_mortal(executors_die=False)


def run_numbers(daemon: DaemonProcess, attempt_id: str) -> list[int]:
    rows = daemon.rows("SELECT run_number FROM runs WHERE attempt_id = ? ORDER BY run_number", attempt_id)
    return [row["run_number"] for row in rows]


def assert_nothing_is_lost_or_left(daemon: DaemonProcess, attempt_id: str) -> None:
    """Check database, bundles and containers after the verdict of an attempt."""
    (row,) = daemon.rows("SELECT * FROM verdicts WHERE attempt_id = ?", attempt_id)
    assert (daemon.state / "artifacts" / row["bundle"] / "manifest.json").is_file()
    bundles = list((daemon.state / "artifacts").rglob(f"*{attempt_id}*/manifest.json"))
    assert len(bundles) == 1
    runs = daemon.rows("SELECT * FROM runs WHERE attempt_id = ? ORDER BY run_number", attempt_id)
    daemon.log.wait_for("container.removed", container=runs[-1]["container_ulid"])
    used = {run["container_ulid"] for run in runs}
    assert used.isdisjoint(each.labels[LABEL_CONTAINER] for each in daemon.containers())


@pytest.mark.parametrize("step", RUNS_AFTER_AN_EXECUTOR_DIED_AT)
def test_attempt_gets_one_verdict_though_its_executor_died(daemon: Mortal, step: Step) -> None:
    daemon.wait_for_all_executors()
    daemon.set_trap(step)

    with daemon.client() as client:
        attempt = client.submit(extractor(GOOD), wait_s=60)

    assert (attempt["verdict"], attempt["cause"]) == ("validated", "completed")
    assert run_numbers(daemon, attempt["id"]) == list(range(1, RUNS_AFTER_AN_EXECUTOR_DIED_AT[step] + 1))
    daemon.log.wait_for("executor.lost", status=-signal.SIGKILL)
    assert_nothing_is_lost_or_left(daemon, attempt["id"])


def test_attempt_whose_executors_died_twice_is_not_run_a_third_time(daemon: Mortal) -> None:
    daemon.wait_for_all_executors()
    with daemon.client() as client:
        attempt = client.submit(endless())
        states = (e.body["state"] for e in client.events(attempt["id"]) if e.kind == "state")
        running = (state for state in states if state == "running")
        for _ in range(2):
            assert next(running)
            for pid in daemon.executors():
                os.kill(pid, signal.SIGKILL)
        attempt = client.attempt(attempt["id"], wait_s=60)

    assert (attempt["verdict"], attempt["error"]["code"]) == ("error", "attempt.interrupted")
    assert run_numbers(daemon, attempt["id"]) == [1, 2]


def test_many_attempts_get_one_verdict_each_though_executors_die(daemon: Mortal) -> None:
    patient = Retrying(
        retry=retry_if_exception_type(NotReady), wait=wait_fixed(0.05), stop=stop_after_delay(30)
    )

    def submit(_: int) -> Document:
        with daemon.client() as client:
            return patient.copy()(client.submit, extractor(GOOD), wait_s=60)

    finished: list[Document] = []
    with ThreadPoolExecutor(6) as threads:
        for step in RUNS_AFTER_AN_EXECUTOR_DIED_AT:
            daemon.wait_for_all_executors()
            daemon.set_trap(step)
            finished += threads.map(submit, range(6))

    assert {attempt["verdict"] for attempt in finished} == {"validated"}
    assert {len(run_numbers(daemon, attempt["id"])) for attempt in finished} == {1, 2}
    for attempt in finished:
        assert_nothing_is_lost_or_left(daemon, attempt["id"])


@pytest.mark.parametrize("step", RUNS_AFTER_THE_DAEMON_DIED_AT)
def test_attempt_gets_one_verdict_though_the_daemon_died(mortal: Mortal, step: Step) -> None:
    attempt_id, executors = UlidGenerator().new(), mortal.executors()
    mortal.set_trap(step)
    with mortal.client() as client, pytest.raises(DaemonUnreachable):
        client.submit(extractor(GOOD), wait_s=60, attempt_id=attempt_id)
    assert mortal.wait() == -signal.SIGKILL
    assert len(executors) == 2
    assert all(map(ends, executors))

    mortal.start()

    with mortal.client() as client:
        attempt = client.attempt(attempt_id, wait_s=60)
    assert (attempt["verdict"], attempt["cause"]) == ("validated", "completed")
    assert run_numbers(mortal, attempt_id) == list(range(1, RUNS_AFTER_THE_DAEMON_DIED_AT[step] + 1))
    assert list((mortal.state / "artifacts").rglob(".tmp-*")) == []


def test_daemon_without_executors_removes_the_containers_of_former_ones(mortal: Mortal) -> None:
    with mortal.client() as client:
        attempt = client.submit(endless())
        next(e for e in client.events(attempt["id"]) if e.kind == "unit" and e.body["status"] == "started")
    left = {each.engine_id for each in mortal.containers() if LABEL_EXECUTOR in each.labels}
    mortal.kill()
    mortal.settings["EXECUTORS"] = "0"

    mortal.start()

    assert left
    assert left.isdisjoint(each.engine_id for each in mortal.containers())
    generation = mortal.log.wait_for("daemon.ready")["generation"]
    assert {each.labels[LABEL_GENERATION] for each in mortal.containers()} <= {generation}
    with mortal.client() as client:
        client.cancel(attempt["id"])
        assert client.attempt(attempt["id"], wait_s=60)["verdict"] == "cancelled"
    mortal.stop()
    mortal.settings["EXECUTORS"] = "2"
    mortal.start()


def test_stopped_daemon_leaves_no_executor_and_no_container(mortal: Mortal) -> None:
    with mortal.client() as client:
        client.submit(extractor(GOOD), wait_s=60)
    processes = [*mortal.workers(), *mortal.executors()]
    assert mortal.containers()

    code = mortal.stop()

    assert code == 0
    assert all(map(ends, processes))
    assert mortal.containers() == []
    assert list(mortal.state.rglob(".tmp-*")) == []
    mortal.start()


def test_doctor_and_metrics_cover_all_executors(mortal: Mortal) -> None:
    with mortal.client() as client:
        client.submit(extractor(GOOD), wait_s=60)
    with mortal.http() as http:
        rows = {row["check"]: row["status"] for row in http.get("/v1/doctor").json()["checks"]}
        text = http.get("/metrics").text

    assert rows["executor 0"] == rows["executor 1"] == rows["isolation"] == "ok"
    creations = re.search(r'assayd_engine_call_duration_seconds_count{call="create"} (\d+)', text)
    # The isolation checks of the daemon and of both executors, and the attempt.
    assert creations is not None
    assert int(creations[1]) > 3


def test_reports_are_the_same_with_and_without_executors(mortal: Mortal) -> None:
    plain = DaemonProcess("oci", settings={"POOL__DEFAULT_TARGET": "0", "EXECUTORS": "0"})
    try:
        plain.start()
        for submission in samples():
            reports = []
            for daemon in (plain, mortal):
                with daemon.client() as client:
                    attempt = client.submit(submission, wait_s=60)
                    kinds = {event.kind for event in client.events(attempt["id"])}
                reports.append(
                    {**list_constants(attempt), "events": kinds, "files": bundle_names(daemon, attempt)}
                )
            first, second = reports
            different = {place for place in first | second if first.get(place) != second.get(place)}
            assert different == set(), submission["kind"]
    finally:
        plain.dispose()


def samples() -> Iterator[Document]:
    """Return a submission of each kind that passes, and one that its static stages refuse."""
    for kind in load_own_validators().values():
        sample = next(one for one in kind.samples if one.needs_container)
        yield {"kind": kind.name, "payload": json.loads(canonical(sample.payload))}
    yield extractor(PROCESSES)


VARIABLE = re.compile(r".*(_ms|bytes|_at|_id)|id|bundle.*|artifacts|warm|sha256|kernel.*")


def list_constants(value: object, place: str = "") -> dict[str, object]:
    """Return the values of a document by place, without times, sizes, ids and digests."""
    if not isinstance(value, dict | list):
        return {place: value}
    found: dict[str, object] = {}
    for name, one in value.items() if isinstance(value, dict) else enumerate(value):
        if not VARIABLE.fullmatch(str(name)):
            found |= list_constants(one, f"{place}/{name}")
    return found


def bundle_names(daemon: DaemonProcess, attempt: Document) -> list[str]:
    """Return the names of a bundle's files, without their times."""
    return sorted(re.sub(r"_\d{8}T.*Z", "", path.name) for path in daemon.bundle(attempt).rglob("*"))
