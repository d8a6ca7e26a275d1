"""The daemon's side of its executors: starts and replaces them, and sends them checked attempts.

An attempt goes to the least busy executor that can run it. If an executor ends, its containers are removed,
then its attempts run again. Runs that the journal contains count towards their maximum number.

`ExecutorReadiness` is the readiness of the daemon and all of its executors, with their health rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NoReturn

import structlog

from assayd.aio import compute_backoff_delay_s, open_task_group, pause
from assayd.analysis.analyst import CheckedSubmission
from assayd.analysis.processes import WorkerParents, WorkerProcess
from assayd.attempts.execution import WAITING_S, AttemptAbandonedError, FinishedAttempt, Job
from assayd.attempts.lifecycle import RequireImage
from assayd.errors import AssaydError, EngineError
from assayd.executors.worker import AssignedRun, ExecutorStatus, Link, RecordedSpan, describe_problem
from assayd.fair_queue import FairSemaphore
from assayd.metrics import Metrics, Samples, combine_samples, remove_gauges
from assayd.model.attempt import Attempt, State
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AttemptRun
from assayd.model.report import Verdict
from assayd.model.run import Limits, RunSpec
from assayd.ports.artifacts import BuildAttachments
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

MAX_RULES_KEPT = 64
"""The maximum number of pairs of policies and limits that an executor keeps."""
MAX_EXECUTOR_LOSSES = 5
"""The number of executors that can end during an attempt before it gets the verdict `error`, since the
attempt may be the reason.
"""
EXIT_TIMEOUT_S = 5.0
"""The seconds that an executor has to end after its connection has been closed."""
LOOK_S, MAX_SILENT_CHECKS = 15.0, 4
"""The seconds between two checks of an executor, and the number of checks without a new message after which
it counts as hanging.
"""
STOP_TIMEOUT_S = 60.0
"""Seconds that executors have to remove their containers when the daemon stops."""

Events = Sequence[tuple[str, dict[str, object]]]


class _ExecutorLostError(Exception):
    """An exception raised if the executor of an attempt has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonParts:
    """The parts of the daemon that its executors need.

    `jobs`, `require_image` and `attachments` answer their questions. An attempt in an executor holds one of
    the `slots`. `require_run_left` raises AssaydError if an attempt can't have another run. `sweep` removes
    all containers of the executor with a number, which has ended; it can raise EngineError. `images` returns
    the images that profiles name, each with those profiles.
    """

    jobs: DatabaseJobStore
    require_image: RequireImage
    attachments: BuildAttachments
    slots: FairSemaphore
    require_run_left: Callable[[Job], None]
    sweep: Callable[[int], Awaitable[None]]
    images: Callable[[], Mapping[str, Sequence[str]]]


@dataclass(slots=True)
class _AssignedJob:
    job: Job
    answer: asyncio.Future[FinishedAttempt]
    questions: set[asyncio.Task[None]] = field(default_factory=set)


class Executor:
    """One executor process, from the daemon's view.

    Args:
        number: the number of the executor, from 0.
        process: the process.
        parts: answer the executor's questions.
        changed: called after each change of the status.
    """

    def __init__(
        self, number: int, process: WorkerProcess, parts: DaemonParts, changed: Callable[[], None]
    ) -> None:
        self.number = number
        self.process = process
        self.status: ExecutorStatus | None = None
        self.assigned: dict[str, _AssignedJob] = {}
        self.isolation: asyncio.Future[HealthRow] | None = None
        self._parts = parts
        self._changed = changed
        self._rules: dict[tuple[object, ...], int] = {}
        self._next_rules = 0
        self.link = Link(
            {
                "status": self._on_status,
                "alive": lambda: None,
                "events": self._on_events,
                "ask": self._on_question,
                "done": self._on_done,
                "abandoned": self._on_abandoned,
                "broken": self._on_broken,
                "isolation": self._on_isolation,
            },
            self._on_lost,
        )

    @property
    def is_usable(self) -> bool:
        """Return whether attempts can run."""
        return self.status is not None and not self.status.problem

    def _on_lost(self) -> None:
        # It has ended, or is about to end.
        asyncio.get_running_loop().call_later(EXIT_TIMEOUT_S, self.kill)

    def kill(self) -> None:
        """Kill the process, if it is still running."""
        with suppress(ProcessLookupError):
            self.process.kill()

    async def wait(self) -> int | None:
        """Wait until the process has ended, and return its exit status, or None if it is unknown.

        If the process hangs, kill it, as the service manager does with a daemon that hangs.
        """
        ended = asyncio.ensure_future(self.process.wait())
        received, looks = 0, 0
        try:
            while not (await asyncio.wait({ended}, timeout=LOOK_S))[0]:
                hangs = self.status is not None and self.link.received == received
                received, looks = self.link.received, looks + 1 if hangs else 0
                if looks == MAX_SILENT_CHECKS:
                    log.error("executor.hangs", executor=self.number, attempts=len(self.assigned))
                    self.kill()
            return ended.result()
        finally:
            ended.cancel()

    def stop(self) -> None:
        """Tell the process to remove its containers and end. Kill it after `STOP_TIMEOUT_S` seconds."""
        self.link.send("stop")
        asyncio.get_running_loop().call_later(STOP_TIMEOUT_S, self.kill)

    async def run(self, job: Job, checked: CheckedSubmission) -> FinishedAttempt:
        """Run an attempt in this executor, and return the attempt with its verdict.

        Raises: AttemptAbandonedError, if the daemon stops before the outcome is decided; _ExecutorLostError,
        if the process ends; AssaydError, if the executor fails.
        """
        attempt_id = job.attempt.id
        answer: asyncio.Future[FinishedAttempt] = asyncio.get_running_loop().create_future()
        self.assigned[attempt_id] = _AssignedJob(job, answer)
        try:
            run = AssignedRun(
                attempt=job.attempt,
                rules=self._send_rules(job.policy, job.limits),
                submission=job.submission,
                checked=checked,
                request_id=job.request_id,
                trace=job.span.context,
            )
            self.link.send("run", run)
            # The executor applies the deadlines; this one only reports a cancellation.
            job.deadline.restart(10 * WAITING_S)
            with suppress(TimeoutError):
                async with job.deadline.scope():
                    await asyncio.wait({answer})
            if not answer.done():
                self.link.send("cancel", attempt_id, job.abandoned)
                await asyncio.wait({answer})
            return answer.result()
        finally:
            del self.assigned[attempt_id]

    async def fail_assigned_jobs(self) -> None:
        """Make the attempts of this ended executor fail once the journal's open transactions have ended."""
        questions = set[asyncio.Task[None]]().union(*(one.questions for one in self.assigned.values()))
        if questions:
            await asyncio.wait(questions)
        for one in self.assigned.values():
            if not one.answer.done():
                one.answer.set_exception(_ExecutorLostError())
        if self.isolation is not None and not self.isolation.done():
            self.isolation.set_result(_build_row("isolation", HealthStatus.FAIL, "the process has ended"))

    def _send_rules(self, policy: ExecutionPolicy, limits: Limits) -> int:
        """Send a policy and limits, unless the executor has them; return their number."""
        key = policy.name, policy.digest, policy.clamped, limits
        if (known := self._rules.get(key)) is not None:
            return known
        number = self._rules[key] = self._next_rules
        self._next_rules += 1
        forget = self._rules.pop(next(iter(self._rules))) if len(self._rules) > MAX_RULES_KEPT else None
        self.link.send("rules", number, policy, limits, forget)
        return number

    def _on_status(self, status: ExecutorStatus) -> None:
        self.status = status
        self._changed()

    def _on_isolation(self, row: HealthRow) -> None:
        if self.isolation is not None and not self.isolation.done():
            self.isolation.set_result(row)

    def _on_events(self, attempt_id: str, events: Events) -> None:
        job = self.assigned[attempt_id].job
        for kind, body in events:
            if kind == "state":
                job.change_state(State(str(body["state"])))
            else:
                job.emit(kind, body)

    def _on_question(
        self, number: int, question: str, attempt_id: str, events: Events, *values: object
    ) -> None:
        self._on_events(attempt_id, events)
        one = self.assigned[attempt_id]
        task = asyncio.create_task(self._answer(number, question, one.job, *values))
        one.questions.add(task)
        task.add_done_callback(one.questions.discard)

    async def _answer(self, number: int, question: str, job: Job, *values: object) -> None:
        answer, problem, engine = None, None, False
        try:
            match question, *values:
                case "lease", AttemptRun() as run, bool() as warm:
                    await self._parts.jobs.lease(run)
                    job.attempt = replace(job.attempt, run_number=run.run_number, warm=warm)
                case "image", RunSpec() as spec:
                    await self._parts.require_image(job, spec)
                case "attachments", Attempt() as attempt, Verdict() as verdict:
                    answer = dict(await self._parts.attachments(attempt, verdict))
        except AssaydError as raised:
            problem, engine = describe_problem(raised), isinstance(raised, EngineError)
        except Exception:
            log.exception("executor.not_answered", question=question, attempt_id=job.attempt.id)
            problem = "internal", "The daemon failed on this attempt; see its log.", False
        self.link.send("answer", number, answer, problem, engine)

    def _on_done(
        self,
        attempt_id: str,
        events: Events,
        finished: FinishedAttempt,
        timings_s: Mapping[str, float],
        contents: bytes | None,
        spans: RecordedSpan | None,
    ) -> None:
        self._on_events(attempt_id, events)
        one = self.assigned[attempt_id]
        if contents is not None and self._parts.jobs.unsynced is not None and finished.attempt.bundle:
            self._parts.jobs.unsynced.keep_serialized(finished.attempt.bundle, contents)
        if spans is not None:
            spans.replay(one.job.span)
        for step, took_s in timings_s.items():
            one.job.timings_s[step] = one.job.timings_s.get(step, 0.0) + took_s
        one.answer.set_result(finished)

    def _on_abandoned(self, attempt_id: str, run_number: int | None) -> None:
        self.assigned[attempt_id].answer.set_exception(AttemptAbandonedError(run_number))

    def _on_broken(self, attempt_id: str) -> None:
        message = "The daemon failed on this attempt; see its log."
        self.assigned[attempt_id].answer.set_exception(AssaydError("internal", message))


class ExecutorSet:
    """All executors of the daemon. `run` implements `lifecycle.RunElsewhere`.

    Args:
        count: the number of executors.
        parents: forks the processes.
        start: returns the first message to the executor with a number.
        parts: the parts of the daemon that executors need.
    """

    def __init__(
        self, count: int, parents: WorkerParents, start: Callable[[int], object], parts: DaemonParts
    ) -> None:
        self.count = count
        self._parents = parents
        self._start_message = start
        self._parts = parts
        self._running: dict[int, Executor] = {}
        self._problems = dict.fromkeys(range(count), "is starting")
        """Why an executor can't be started; empty while it runs, or while it is replaced."""
        self._ended_samples: Samples = {}
        self._changes = asyncio.Event()
        self._closing = asyncio.Event()
        self.tried = asyncio.Event()
        """Set once each executor is ready, or has failed to start or to become ready."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[ExecutorSet]:
        """Keep all executors running while the body runs; then stop them in order."""
        async with open_task_group() as tasks:
            for number in range(self.count):
                tasks.create_task(self._keep_running(number), name=f"executor-{number}")
            try:
                yield self
            finally:
                self._closing.set()
                for executor in self._running.values():
                    executor.stop()
        await self._parents.close()

    async def _keep_running(self, number: int) -> None:
        """Start an executor, and replace it whenever it ends."""
        failures = 0
        while not self._closing.is_set():
            try:
                executor = await self._start(number)
            except (AssaydError, OSError) as problem:
                self._problems[number] = f"can't start: {problem}"
                log.error("executor.not_started", executor=number, problem=str(problem))
                was_usable = False
            else:
                self._running[number] = executor
                if self._closing.is_set():
                    executor.stop()
                status = await executor.wait()
                was_usable = await self._replace(executor, status, failures)
            failures = 0 if was_usable else failures + 1
            self._update_problems()
            if failures:
                await pause(compute_backoff_delay_s(failures), unless=self._closing)

    async def _start(self, number: int) -> Executor:
        started = await self._parents.fork()
        executor = Executor(number, started.process, self._parts, self._update_problems)
        await executor.link.open(started.stream)
        executor.link.send("images", self._parts.images())
        executor.link.send("start", self._start_message(number))
        return executor

    async def _replace(self, executor: Executor, status: int | None, failures: int) -> bool:
        """Remove the containers of an ended executor, and let its attempts run again.

        Return whether the executor was usable.

        Args:
            executor: the executor.
            status: its exit status.
            failures: how many executors with its number have failed to become usable since the last usable
                one.
        """
        number, was_usable = executor.number, executor.is_usable
        del self._running[number]
        executor.link.close()
        if self._closing.is_set() and not status:
            return was_usable
        log.error("executor.lost", executor=number, status=status, attempts=len(executor.assigned))
        # Something else may have killed the replacement of a usable executor; the next one gets a chance.
        if not was_usable and (failures or self._problems[number]):
            self._problems[number] = f"ended with status {status}; see the daemon's log"
        if executor.status is not None:
            self._ended_samples = combine_samples(self._ended_samples, remove_gauges(executor.status.samples))
        try:
            await self._parts.sweep(number)
        except EngineError as problem:
            # Its next start sweeps again; the containers have lost their input, and therefore end.
            log.error("containers.sweep_failed", executor=number, code=problem.code)
        await executor.fail_assigned_jobs()
        return was_usable

    def _update_problems(self) -> None:
        for executor in self._running.values():
            if executor.status is not None and executor.status.tried:
                self._problems[executor.number] = executor.status.problem
        if all(problem != "is starting" for problem in self._problems.values()):
            self.tried.set()
        self._changes.set()

    def send_images(self) -> None:
        """Send the images that profiles name, because the profiles have changed."""
        for executor in self._running.values():
            executor.link.send("images", self._parts.images())

    def problem(self) -> str:
        """Return why attempts can't run; empty if they can."""
        for number, problem in self._problems.items():
            if problem:
                return f"executor {number}: {problem}"
        usable = any(executor.is_usable for executor in self._running.values())
        return "" if usable else "all executors are being replaced"

    def samples(self) -> Samples:
        """Return the values of metrics of all executors."""
        statuses = [one.status for one in self._running.values() if one.status is not None]
        return combine_samples(self._ended_samples, *(status.samples for status in statuses))

    def health_rows(self) -> list[HealthRow]:
        """Return a health row for each executor, also for those that aren't running."""
        return [self._build_executor_row(number) for number in range(self.count)]

    def _build_executor_row(self, number: int) -> HealthRow:
        executor, problem = self._running.get(number), self._problems[number]
        name = f"executor {number}"
        if problem or executor is None or executor.status is None:
            reason = problem or "is being replaced"
            remedy = "the daemon starts it again automatically; see the log"
            return _build_row(name, HealthStatus.FAIL, reason, remedy)
        return replace(executor.status.containers, check=name)

    async def check_isolation(self) -> list[HealthRow]:
        """Make all running executors test the isolation of their containers, and return their rows."""
        asked = []
        for number, executor in sorted(self._running.items()):
            if executor.status is None:
                continue
            if executor.isolation is None or executor.isolation.done():
                executor.isolation = asyncio.get_running_loop().create_future()
                executor.link.send("check")
            asked.append((number, executor.isolation))
        rows = []
        for number, answer in asked:
            row = await asyncio.shield(answer)
            rows.append(replace(row, detail=f"executor {number}: {row.detail}"))
        return rows

    async def run(self, job: Job, checked: CheckedSubmission) -> FinishedAttempt:
        """Run an attempt in an executor; if the executor ends, in another one.

        Raises: AttemptAbandonedError; TimeoutError, if the attempt is cancelled while it waits for its turn;
        AssaydError ``attempt.interrupted``, ``executor.lost``.
        """
        for _ in range(MAX_EXECUTOR_LOSSES):
            self._parts.require_run_left(job)
            if self._parts.slots.is_contended:
                job.change_state(State.LEASING)
            finished = await self._run_in_turn(job, checked)
            if finished is not None:
                return finished
            log.warning("run.lost", attempt_id=job.attempt.id, run_number=job.attempt.run_number)
            if job.abandoned:
                raise AttemptAbandonedError(None)
            job.attempt = replace(job.attempt, state=State.CHECKING)
        message = f"{MAX_EXECUTOR_LOSSES} executors ended during the attempt; see the daemon's log."
        raise AssaydError("executor.lost", message)

    async def _run_in_turn(self, job: Job, checked: CheckedSubmission) -> FinishedAttempt | None:
        """Run an attempt once it has a slot; return None if its executor has ended."""
        clock = asyncio.get_running_loop().time
        began = clock()
        async with AsyncExitStack() as held:
            async with job.deadline.scope():
                await held.enter_async_context(self._parts.slots.hold(*job.attempt.flow, job.attempt.id))
                executor = await self._pick_executor()
            waited_s = clock() - began
            try:
                finished = await executor.run(job, checked)
            except _ExecutorLostError:
                return None
            if "lease" in job.timings_s:
                job.timings_s["lease"] += waited_s
            return finished

    async def _pick_executor(self) -> Executor:
        """Return the least busy executor, preferably one that can run attempts at this time.

        If there is none, wait for one.
        """
        while True:
            self._changes.clear()
            if built := [one for one in self._running.values() if one.status is not None]:
                return min(built, key=lambda one: (not one.is_usable, len(one.assigned), one.number))
            await self._changes.wait()


def _build_row(check: str, status: HealthStatus, detail: str, remedy: str = "") -> HealthRow:
    return HealthRow(check=check, status=status, detail=detail, remedy=remedy)


class ExecutorReadiness:
    """The readiness of the daemon and all of its executors. It implements `execution.Readiness`.

    The daemon's own sandbox runs samples and tests images; it keeps no idle containers.
    """

    def __init__(self, local: ReadinessSupervisor, executors: ExecutorSet) -> None:
        self._local = local
        self._executors = executors
        self.tried = executors.tried

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can run and, if not, the reason."""
        problem = self._local.ready()[1] or self._executors.problem()
        return not problem, problem

    async def prepare(self) -> None:
        """Prepare the daemon's sandbox, and wait until each executor has tried to become ready."""
        await self._local.prepare()
        await self.tried.wait()

    async def keep_ready(self) -> NoReturn:
        """Keep the daemon's sandbox ready; executors do the same with theirs."""
        await self._local.keep_ready()

    async def sweep_periodically(self) -> None:
        """Remove leftover containers of the daemon, and of executors that a former setting started."""
        await self._local.sweep_periodically()

    def image_problem(self, name: str) -> str:
        """Return the reason why an image can't be used, or "" if no reason is known."""
        return self._local.image_problem(name)

    async def image_digest(self, name: str) -> str:
        """Return the digest of the image with this name. Raises: EngineError."""
        return await self._local.image_digest(name)

    def update_gauges(self, metrics: Metrics) -> None:
        """Update the gauges of the daemon's pool; executors send their values."""
        self._local.update_gauges(metrics)

    async def run_health_checks(self) -> Sequence[HealthRow]:
        """Check the engine, the images, leftover containers and all executors, and return a row for each."""
        return [*await self._local.run_health_checks(), *self._executors.health_rows()]

    async def check_isolation(self) -> HealthRow:
        """Test the isolation of the daemon's and all executors' containers.

        Return the first row that isn't OK, or the daemon's row if all are.
        """
        rows = [await self._local.check_isolation(), *await self._executors.check_isolation()]
        return next((row for row in rows if row.status is not HealthStatus.OK), rows[0])
