"""The daemon's side of executors: which one gets an attempt, and what happens when one ends."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from assayd.aio import Deadline
from assayd.analysis.analyst import CheckedSubmission
from assayd.analysis.processes import StartedWorker, WorkerParents, WorkerProcess
from assayd.attempts.execution import AttemptAbandonedError, FinishedAttempt, Job
from assayd.errors import AssaydError, StoreError
from assayd.executors import front
from assayd.executors.front import MAX_EXECUTOR_LOSSES, MAX_SILENT_CHECKS, DaemonParts, Executor, ExecutorSet
from assayd.executors.worker import AssignedRun, ExecutorStatus, Link
from assayd.fair_queue import FairSemaphore
from assayd.kinds.registry import find_validator
from assayd.metrics import SampleKey, Samples
from assayd.model.attempt import State
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AttemptRun
from assayd.model.run import Limits
from assayd.model.submission import Submission
from assayd.store.jobs import DatabaseJobStore
from support.stores.stored_attempts import Make

LIMITS = Limits(timeout_s=10, unit_timeout_s=1, memory_bytes=2**20, max_processes=1)
CREATED: SampleKey = (
    "assayd_engine_errors",
    "assayd_engine_errors_total",
    (),
)
IDLE: SampleKey = (
    "assayd_containers",
    "assayd_containers",
    (("state", "idle"),),
)


SILENT = "silent"
"""The problem of an executor that doesn't report its status."""


class Process:
    """An executor process that is played in this process; `played` plays it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self.played: Played

    def kill(self) -> None:
        self.end(-signal.SIGKILL)

    def end(self, status: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        self.returncode = status
        self.played.link.close()
        self._ended.set()

    async def wait(self) -> int | None:
        await self._ended.wait()
        return self.returncode


class Played:
    """The other end of an executor's connection."""

    def __init__(self, process: Process, *, problem: str | None = "") -> None:
        self.process = process
        self.said: list[tuple[str, tuple[Any, ...]]] = []
        self.heard = asyncio.Event()
        self._problem = problem
        names = ("images", "rules", "run", "cancel", "answer", "check")
        handlers = {name: self._remember(name) for name in names}
        self.link = Link({**handlers, "start": self._on_start, "stop": lambda: process.end(0)}, lambda: None)

    def _remember(self, name: str) -> Any:
        def remember(*values: Any) -> None:
            self.said.append((name, values))
            self.heard.set()

        return remember

    def _on_start(self, start: object) -> None:
        if self._problem is None:
            self.process.end(1)
        elif self._problem != SILENT:
            self.report(self._problem)

    def report(self, problem: str = "", samples: Samples | None = None) -> None:
        row = HealthRow(check="containers", status=HealthStatus.OK, detail="none")
        status = ExecutorStatus(problem=problem, tried=True, containers=row, samples=samples or {})
        self.link.send("status", status)

    async def hear(self, name: str) -> tuple[Any, ...]:
        """Wait for a message, remove it and return its values."""
        while True:
            self.heard.clear()
            for message in self.said:
                if message[0] == name:
                    self.said.remove(message)
                    return message[1]
            await self.heard.wait()

    async def finish(self, run: AssignedRun | None = None) -> None:
        """Finish an attempt, by default the next one."""
        run = run or (await self.hear("run"))[0]
        attempt = replace(run.attempt, bundle="a/b/c")
        done = FinishedAttempt(attempt=attempt, report=b"{}", execution=None)
        self.link.send("done", attempt.id, [], done, {"lease": 1.0}, b"packed", None)


@dataclass
class Parents:
    """Plays the parent of executors; `problems` are the problems of those that it forks, in order."""

    problems: list[str | None] = field(default_factory=list)
    forked: list[Played] = field(default_factory=list)
    added: asyncio.Event = field(default_factory=asyncio.Event)

    async def fork(self) -> StartedWorker:
        ours, theirs = socket.socketpair()
        process = Process(len(self.forked))
        problem = self.problems.pop(0) if self.problems else ""
        process.played = Played(process, problem=problem)
        for stream in (ours, theirs):
            stream.setblocking(False)
        await process.played.link.open(theirs)
        self.forked.append(process.played)
        self.added.set()
        return StartedWorker(process=cast("WorkerProcess", process), stream=ours)

    async def close(self) -> None:
        for _ in range(3):  # Closed transports report their end in later iterations of the loop.
            await asyncio.sleep(0)

    async def wait_for(self, count: int) -> Played:
        """Wait until so many executors have been started; return the last one."""
        while len(self.forked) < count:
            self.added.clear()
            await self.added.wait()
        return self.forked[count - 1]


class Jobs:
    """A journal of runs; a run is recorded once `commit` is set."""

    unsynced = None

    def __init__(self) -> None:
        self.runs: list[AttemptRun] = []
        self.commit = asyncio.Event()
        self.commit.set()
        self.trouble: StoreError | None = None

    async def lease(self, run: AttemptRun) -> None:
        await self.commit.wait()
        if self.trouble is not None:
            raise self.trouble
        self.runs.append(run)


@dataclass
class Bench:
    """A set of played executors."""

    executors: ExecutorSet
    parents: Parents
    jobs: Jobs
    swept: list[int]
    images: dict[str, Sequence[str]]


@asynccontextmanager
async def running(
    count: int = 2, slots: int = 8, problems: Sequence[str | None] = ()
) -> AsyncIterator[Bench]:
    parents, jobs, swept = Parents(list(problems)), Jobs(), list[int]()
    images: dict[str, Sequence[str]] = {}

    async def sweep(number: int) -> None:
        swept.append(number)

    async def attach(*_: object) -> Mapping[str, bytes]:
        return {}

    async def require_image(*_: object) -> None:
        pass

    parts = DaemonParts(
        jobs=cast("DatabaseJobStore", jobs),
        require_image=require_image,
        attachments=attach,
        slots=FairSemaphore(slots),
        require_run_left=refuse_third_run,
        sweep=sweep,
        images=lambda: dict(images),
    )
    executors = ExecutorSet(count, cast("WorkerParents", parents), lambda number: number, parts)
    async with executors.opened():
        yield Bench(executors, parents, jobs, swept, images)


def refuse_third_run(job: Job) -> None:
    if job.attempt.run_number >= 2:
        raise AssaydError("attempt.interrupted", "interrupted twice")


@dataclass
class Started:
    """An attempt that was passed to the executors."""

    job: Job
    task: asyncio.Task[FinishedAttempt]
    emitted: list[tuple[str, dict[str, object]]]


def start(bench: Bench, number: int = 1, policy: str = "p") -> Started:
    validator, emitted = find_validator("extractor"), list[tuple[str, dict[str, object]]]()
    payload = validator.payload.model_validate({"code": "x = 1", "sample_paths": ["/a"]})
    job = Job(
        attempt=Make().attempt(number, kind="extractor", state=State.CHECKING),
        policy=ExecutionPolicy(name=policy, digest=policy),
        limits=LIMITS,
        validator=validator,
        deadline=Deadline(60),
        emit=lambda kind, body: emitted.append((kind, body)),
        read=Submission(kind="extractor", policy=policy, payload=payload, input_digest="d", document=b"{}"),
    )
    checked = CheckedSubmission(stages=(), payload=payload)
    return Started(job, asyncio.ensure_future(bench.executors.run(job, checked)), emitted)


def run_of(attempt_id: str, run_number: int = 1) -> AttemptRun:
    return replace(Make().run(), attempt_id=attempt_id, run_number=run_number)


async def test_attempts_go_to_the_least_busy_executor() -> None:
    async with running() as bench:
        await bench.executors.tried.wait()
        first, second = start(bench, 1), start(bench, 2)
        runs = [(await played.hear("run"))[0] for played in bench.parents.forked]

        assert [run.attempt.id for run in runs] == [first.job.attempt.id, second.job.attempt.id]
        for played, run in zip(bench.parents.forked, runs, strict=True):
            await played.finish(run)
        await asyncio.gather(first.task, second.task)


async def test_attempt_goes_to_an_executor_that_can_run_it() -> None:
    async with running(problems=["the engine doesn't answer", ""]) as bench:
        await bench.executors.tried.wait()
        attempt = start(bench)

        await bench.parents.forked[1].finish()

        assert (await attempt.task).report == b"{}"
        assert bench.executors.problem() == "executor 0: the engine doesn't answer"


async def test_executor_that_hangs_is_killed_and_its_attempt_runs_in_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front, "LOOK_S", 0.01)
    async with running(1, problems=["", SILENT]) as bench:
        await bench.executors.tried.wait()
        attempt = start(bench)
        replacement = await bench.parents.wait_for(2)
        monkeypatch.setattr(front, "LOOK_S", 60.0)
        replacement.report()

        await replacement.finish()

        assert (await attempt.task).report == b"{}"
        assert bench.parents.forked[0].process.returncode == -signal.SIGKILL
        assert bench.swept[0] == 0


@pytest.mark.parametrize(
    ("sent", "killed"), [([0] * MAX_SILENT_CHECKS, True), ([0, 0, 0, 1, 0, 0, 0], False)]
)
async def test_executor_hangs_if_it_sends_nothing_between_several_looks(
    monkeypatch: pytest.MonkeyPatch, sent: Sequence[int], killed: bool
) -> None:
    process = Process(0)
    executor = Executor(0, cast("WorkerProcess", process), cast("DaemonParts", None), lambda: None)
    process.played = Played(process)
    executor.status = cast("ExecutorStatus", object())
    left = iter([*sent, None])

    async def look(waiting: set[asyncio.Future[int]], timeout: float) -> tuple[object, object]:
        if process.returncode is None and (more := next(left)) is not None:
            executor.link.received += more
            return (set(), waiting)
        if process.returncode is None:
            process.end(0)
        await next(iter(waiting))
        return (waiting, set())

    monkeypatch.setattr(asyncio, "wait", look)
    assert await executor.wait() == (-signal.SIGKILL if killed else 0)


async def test_attempt_waits_for_a_slot_in_the_state_leasing() -> None:
    async with running(slots=1) as bench:
        await bench.executors.tried.wait()
        first, second = start(bench, 1), start(bench, 2)
        run = (await bench.parents.forked[0].hear("run"))[0]

        assert second.job.attempt.state is State.LEASING
        assert not bench.parents.forked[1].said or bench.parents.forked[1].said[0][0] != "run"
        await bench.parents.forked[0].finish(run)
        await first.task
        await bench.parents.forked[0].finish()
        await second.task


async def test_events_and_timings_of_an_executor_are_those_of_the_attempt() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        attempt = start(bench)
        played = bench.parents.forked[0]
        run = (await played.hear("run"))[0]
        sent = [("state", {"state": "leasing"}), ("stage", {"name": "run"})]
        played.link.send("events", run.attempt.id, sent)

        await played.finish(run)
        await attempt.task

    assert attempt.emitted == sent
    assert attempt.job.attempt.state is State.LEASING
    assert attempt.job.timings_s["lease"] >= 1.0


async def test_policy_and_limits_are_sent_once() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        played = bench.parents.forked[0]
        for number in (1, 2):
            attempt = start(bench, number)
            await played.finish()
            await attempt.task

        assert [name for name, _ in played.said] == ["images", "rules"]


async def test_run_is_recorded_before_the_executor_is_answered() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        attempt, played = start(bench), bench.parents.forked[0]
        run = (await played.hear("run"))[0]
        attempt_id = run.attempt.id

        played.link.send("ask", 7, "lease", attempt_id, [], run_of(attempt_id), True)
        answer = await played.hear("answer")

        assert answer == (7, None, None, False)
        assert [one.attempt_id for one in bench.jobs.runs] == [attempt_id]
        assert (attempt.job.attempt.run_number, attempt.job.attempt.warm) == (1, True)
        await played.finish(run)
        await attempt.task


async def test_executor_is_told_that_a_run_cannot_be_recorded() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        bench.jobs.trouble = StoreError("store.full", "the disk is full", retryable=True)
        attempt, played = start(bench), bench.parents.forked[0]
        run = (await played.hear("run"))[0]

        played.link.send("ask", 7, "lease", run.attempt.id, [], run_of(run.attempt.id), True)
        answer = await played.hear("answer")

        assert answer == (7, None, ("store.full", "the disk is full", True), False)
        assert attempt.job.attempt.run_number == 0
        await played.finish(run)
        await attempt.task


async def test_attempt_of_a_lost_executor_runs_again_after_its_containers_are_removed() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        attempt, played = start(bench), bench.parents.forked[0]
        run = (await played.hear("run"))[0]
        played.link.send("ask", 7, "lease", run.attempt.id, [], run_of(run.attempt.id), True)
        await played.hear("answer")

        played.process.kill()
        again = await bench.parents.wait_for(2)
        run = (await again.hear("run"))[0]

        assert bench.swept == [0]
        assert (run.attempt.run_number, run.attempt.state) == (1, State.CHECKING)
        await again.finish(run)
        await attempt.task


async def test_run_that_is_being_recorded_when_its_executor_ends_counts() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        bench.jobs.commit.clear()
        attempt, played = start(bench), bench.parents.forked[0]
        run = (await played.hear("run"))[0]
        played.link.send("ask", 7, "lease", run.attempt.id, [], run_of(run.attempt.id), True)
        while not attempt_has_question(bench, run.attempt.id):
            await asyncio.sleep(0)

        played.process.kill()
        again = await started_replacement(bench)
        bench.jobs.commit.set()
        run = (await again.hear("run"))[0]

        assert run.attempt.run_number == 1
        await again.finish(run)
        await attempt.task


def attempt_has_question(bench: Bench, attempt_id: str) -> bool:
    executor = bench.executors._running.get(0)
    return executor is not None and bool(executor.assigned[attempt_id].questions)


async def started_replacement(bench: Bench) -> Played:
    """Let the journal commit once the executor is known to be lost; return its replacement."""
    while not bench.swept:
        await asyncio.sleep(0)
    bench.jobs.commit.set()
    return await bench.parents.wait_for(2)


async def test_attempt_that_has_used_all_runs_is_not_run_again() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        attempt = start(bench)
        for number in (1, 2):
            played = await bench.parents.wait_for(number)
            run = (await played.hear("run"))[0]
            played.link.send("ask", 7, "lease", run.attempt.id, [], run_of(run.attempt.id, number), True)
            await played.hear("answer")
            played.process.kill()

        with pytest.raises(AssaydError) as raised:
            await attempt.task
    assert raised.value.code == "attempt.interrupted"


async def test_attempt_that_loses_many_executors_before_it_runs_ends() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        attempt = start(bench)
        for number in range(1, MAX_EXECUTOR_LOSSES + 1):
            played = await bench.parents.wait_for(number)
            await played.hear("run")
            played.process.kill()

        with pytest.raises(AssaydError) as raised:
            await attempt.task
    assert raised.value.code == "executor.lost"


async def test_lost_executor_that_is_replaced_keeps_the_daemon_ready() -> None:
    async with running(2) as bench:
        await bench.executors.tried.wait()
        bench.parents.forked[0].process.kill()

        await bench.parents.wait_for(3)

        assert bench.executors.problem() == ""


async def test_executor_that_cannot_start_is_the_reason_why_the_daemon_is_not_ready() -> None:
    async with running(2, problems=["", None]) as bench:
        await bench.executors.tried.wait()

        assert bench.executors.problem() == "executor 1: ended with status 1; see the daemon's log"
        statuses = [row.status for row in bench.executors.health_rows()]
        assert statuses == [HealthStatus.OK, HealthStatus.FAIL]


async def test_replacement_that_is_killed_before_it_is_ready_keeps_the_daemon_ready() -> None:
    async with running(2, problems=["", "", SILENT]) as bench:
        await bench.executors.tried.wait()
        bench.parents.forked[0].process.kill()
        replacement = await bench.parents.wait_for(3)
        await replacement.hear("images")

        replacement.process.kill()
        await bench.parents.wait_for(4)

        assert bench.executors.problem() == ""


async def test_cancellation_is_sent_to_the_executor() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        attempt, played = start(bench), bench.parents.forked[0]
        run = (await played.hear("run"))[0]

        attempt.job.cancel()

        assert await played.hear("cancel") == (run.attempt.id, False)
        await played.finish(run)
        await attempt.task


async def test_interrupted_attempt_of_a_lost_executor_is_left_to_the_next_start() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        attempt, played = start(bench), bench.parents.forked[0]
        await played.hear("run")

        attempt.job.abandon()
        assert (await played.hear("cancel"))[1] is True
        played.process.kill()

        with pytest.raises(AttemptAbandonedError):
            await attempt.task


async def test_images_are_sent_again_when_profiles_change() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        played = bench.parents.forked[0]
        assert await played.hear("images") == ({},)
        bench.images["numbers"] = ("mine",)

        bench.executors.send_images()

        assert await played.hear("images") == ({"numbers": ("mine",)},)


async def test_counts_of_a_lost_executor_stay_and_its_gauges_go() -> None:
    async with running(1) as bench:
        await bench.executors.tried.wait()
        bench.parents.forked[0].report(samples={CREATED: 2.0, IDLE: 1.0})
        while not bench.executors.samples():
            await asyncio.sleep(0)

        bench.parents.forked[0].process.kill()
        await bench.parents.wait_for(2)

        assert bench.executors.samples() == {CREATED: 2.0}


def test_executor_forgets_the_oldest_rules() -> None:
    sent: list[tuple[object, ...]] = []
    parts = cast("DaemonParts", None)
    executor = Executor(0, cast("WorkerProcess", None), parts, lambda: None)
    executor.link.send = lambda *message: sent.append(message)  # type: ignore[method-assign]

    for number in range(66):
        executor._send_rules(ExecutionPolicy(name="p", digest=str(number)), LIMITS)

    assert [message[4] for message in sent[-3:]] == [None, 0, 1]
