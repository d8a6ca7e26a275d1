"""Defines the life of an attempt, from its submission to its bundle. Start reading here.

    check ─> plan ─> lease ─> run ─> judge ─> merge ─> bundle ─> verdict

A failure of submitted code is always returned as a value. An internal error is raised as an exception;
`LocalExecution.run` converts it to the verdict `error`, so that an attempt never ends without a verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar

import structlog
from pydantic import BaseModel

from assayd.analysis.analyst import Analyst, CheckedSubmission
from assayd.attempts.conclusion import ConclusionWriter, VerdictRecorder, is_large_result
from assayd.attempts.execution import WAITING_S, AttemptAbandonedError, FinishedAttempt, Job, UnitPublisher
from assayd.clock import Clock
from assayd.errors import AssaydError, EngineError
from assayd.fair_queue import FairSemaphore
from assayd.findings.network_rules import add_network_facts
from assayd.kind import Kind
from assayd.model.attempt import MAX_RUNS, Failure, State
from assayd.model.finding import has_errors
from assayd.model.merge import CANCELLED, JudgedRun, apply_quality_levels, apply_reporting_mode
from assayd.model.policy import NetworkMode
from assayd.model.records import AttemptRun
from assayd.model.report import Judgement, StageReport
from assayd.model.run import Cause, RunResult, RunSpec
from assayd.ports.tracing import Span
from assayd.sandbox.sandbox import Lease, Sandbox

log = structlog.get_logger()

T = TypeVar("T")

LEASE_RETRY_DELAY_S = 0.5
"""The seconds to wait before a failed lease is retried."""
LEASE_DURATION_S = 300.0
"""The seconds after which a recorded lease expires. Recovery on this host doesn't wait for that, but other
hosts do.
"""

RunStaticStages = Callable[[Job], Awaitable[CheckedSubmission]]
"""Runs the static stages of an attempt. Raises: AssaydError, TimeoutError."""

RequireImage = Callable[[Job, RunSpec], Awaitable[None]]
"""Checks that a kind works in the image that a policy names. Raises: EngineError, if it doesn't."""

RunElsewhere = Callable[[Job, CheckedSubmission], Awaitable[FinishedAttempt]]
"""Runs an attempt that has passed its static stages in another process. Raises: AssaydError, TimeoutError."""

AddHints = Callable[[Kind, Judgement], Awaitable[Judgement]]
"""Returns a judgement with hints that name other images."""


async def accept_any_image(job: Job, spec: RunSpec) -> None:
    """Accept every image. This is the default if images aren't tested."""


class RunJournal(Protocol):
    """A journal of runs, which is written before any submitted code is sent to a container."""

    async def lease(self, run: AttemptRun) -> None:
        """Record a run and its container durably. Raises: StoreError, if this fails."""
        ...


async def return_judgement_unchanged(validator: Kind, judgement: Judgement) -> Judgement:
    """Return the judgement unchanged: the default without image hints."""
    return judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExecution:
    """An executor of attempts in containers of this host.

    `run_static_stages` checks a submission. An attempt holds one of the `slots` while it has a container.
    If a lease fails, the attempt waits for the engine for at most `retry_window_s` seconds. If
    `run_elsewhere` is set, it runs the attempts that have passed their static stages.
    """

    run_static_stages: RunStaticStages
    sandbox: Sandbox
    jobs: RunJournal
    conclusion: ConclusionWriter
    clock: Clock
    slots: FairSemaphore
    daemon_id: str
    generation: str
    retry_window_s: float = 60.0
    max_runs: int = MAX_RUNS
    require_image: RequireImage = accept_any_image
    add_hints: AddHints = return_judgement_unchanged
    run_elsewhere: RunElsewhere | None = None

    async def run(self, job: Job) -> FinishedAttempt:
        """Process an attempt from its submission to its bundle. The caller records the verdict.

        Raises: AttemptAbandonedError, if the daemon stops before the outcome is decided.
        """
        static: tuple[StageReport, ...] = ()
        ran: JudgedRun | None = None
        failure: Failure | None = None
        try:
            self.require_run_left(job)
            checked = await self.run_static_stages(job)
            static = checked.stages
            job.prepared = checked.payload
            if self.run_elsewhere is not None and not checked.failed:
                return await self.run_elsewhere(job, checked)
            spec = _plan_run(job, checked)
            ran = await self._run_plan(job, spec, checked.payload) if spec is not None else None
            failure = _find_lost_run_failure(ran)
        except AttemptAbandonedError:
            raise
        except TimeoutError:
            failure = _build_timeout_failure(job)
        except AssaydError as trouble:
            failure = Failure(code=trouble.code, message=trouble.message)
        except Exception:
            log.exception("attempt.broken", attempt_id=job.attempt.id)
            failure = Failure(code="internal", message="The daemon failed on this attempt; see its log.")
        _raise_if_abandoned(job, ran, failure)
        job.change_state(State.JUDGING)
        with job.measure_step(self.clock, "report"):
            return await self._conclude(job, static, ran, failure)

    async def _conclude(
        self,
        job: Job,
        static: tuple[StageReport, ...],
        ran: JudgedRun | None,
        failure: Failure | None,
    ) -> FinishedAttempt:
        """Conclude the attempt with its result. If this fails, conclude it with an internal error."""
        try:
            return await self.conclusion.conclude(job, static, ran, failure)
        except Exception:
            log.exception("attempt.not_concluded", attempt_id=job.attempt.id)
            broken = Failure(code="internal", message="The daemon failed on this attempt; see its log.")
            return await self.conclusion.conclude(job, (), None, broken)

    def _has_used_all_runs(self, job: Job) -> bool:
        return job.attempt.run_number >= min(self.max_runs, job.attempt.max_runs or self.max_runs)

    def require_run_left(self, job: Job) -> None:
        """Raise AssaydError ``attempt.interrupted`` if the attempt can't have another run."""
        if self._has_used_all_runs(job):
            times = "twice" if job.attempt.run_number > 1 else "once"
            message = f"The attempt was interrupted {times} by internal failures."
            raise AssaydError("attempt.interrupted", message)

    async def _run_plan(self, job: Job, spec: RunSpec, payload: BaseModel) -> JudgedRun:
        """Run the plan in a container, and return the judged run.

        Repeat a run that was lost because of an internal error, if another run is allowed.

        A failed lease doesn't count as a run. It is retried as long as the engine may recover.

        Raises: EngineError, if it doesn't recover in time.
        """
        failing_since: float | None = None
        while True:
            try:
                result = await self._run_once(job, spec)
            except EngineError as problem:
                failing_since = failing_since or self.clock.monotonic()
                left_s = self.retry_window_s - (self.clock.monotonic() - failing_since)
                if not problem.retryable or self._has_used_all_runs(job) or left_s <= 0:
                    raise
                log.warning("lease.failed", code=problem.code)
                await self._wait_for_engine(job, problem, left_s)
                continue
            if result.outcome.cause is not Cause.INFRASTRUCTURE or self._has_used_all_runs(job):
                return await self._add_trial_findings(
                    job, payload, await self._judge_result(job, payload, result)
                )
            log.warning("run.lost", evidence=dict(result.outcome.evidence))
            failing_since = None
            job.deadline.restart(WAITING_S)

    async def _wait_for_engine(self, job: Job, problem: EngineError, left_s: float) -> None:
        """Wait until the sandbox can be used again.

        Raises: EngineError, if it can't within `left_s` seconds.
        """
        async with job.deadline.scope():
            await asyncio.sleep(LEASE_RETRY_DELAY_S)
            try:
                async with asyncio.timeout(left_s):
                    await self.sandbox.usable.wait()
            except TimeoutError:
                raise problem from None

    async def _run_once(self, job: Job, spec: RunSpec) -> RunResult:
        """Lease a container, record the attempt that holds it, and run the units."""
        if job.attempt.state is not State.LEASING:
            job.change_state(State.LEASING)
        async with self._lease_container(job, spec) as lease:
            with job.measure_step(self.clock, "lease", span="journal"):
                await self._record_run(job, lease)
            job.change_state(State.RUNNING)
            job.deadline.restart(spec.limits.timeout_s)
            with job.measure_step(self.clock, "run") as span:
                return await self.sandbox.run(lease, job.deadline, UnitPublisher(job, spec, span))

    @asynccontextmanager
    async def _lease_container(self, job: Job, spec: RunSpec) -> AsyncIterator[Lease]:
        """Hold a slot and a leased container while the body runs.

        Raises: EngineError, if no container can be leased; TimeoutError, if the deadline expires first.
        """
        async with AsyncExitStack() as held:
            with job.measure_step(self.clock, "lease"):
                async with job.deadline.scope():
                    if job.policy.image is not None:
                        await self.require_image(job, spec)
                    await held.enter_async_context(self.slots.hold(*job.attempt.flow, job.attempt.id))
                    lease = await held.enter_async_context(self.sandbox.lease(spec, *job.attempt.flow))
            yield lease

    async def _add_trial_findings(self, job: Job, payload: BaseModel, ran: JudgedRun) -> JudgedRun:
        """Add a trial's findings, if the kind and the profile require a trial and the submission passed.

        If the trial can't be completed, return the run unchanged.
        """
        found = ran.judgement.stage_findings
        if not ran.result.outcome.completed or any(map(has_errors, found.values())):
            return ran
        policy = job.policy.to_runtime_policy()
        plan = partial(job.validator.plan_trial, payload, policy, job.limits, ran.result)
        spec = await self._call_decoder(job, plan, ran.result)
        trial = await self._run_trial(job, spec) if spec is not None else None
        if spec is not None and trial is None:
            return ran
        judge = partial(job.validator.judge_trial, payload, policy, ran.result, trial)
        further = await self._call_decoder(job, judge, ran.result)
        added = {stage: apply_quality_levels(findings, policy.quality) for stage, findings in further.items()}
        united = {stage: (*found.get(stage, ()), *added.get(stage, ())) for stage in {**found, **added}}
        return replace(ran, judgement=replace(ran.judgement, stage_findings=united))

    async def _run_trial(self, job: Job, spec: RunSpec) -> RunResult | None:
        """Run a trial in another container. Return None if none is available or the trial was interrupted.

        A trial isn't recorded: after a restart, the daemon removes the trial's container and runs the whole
        attempt again.
        """
        job.deadline.restart(WAITING_S)
        try:
            async with self._lease_container(job, spec) as lease:
                job.deadline.restart(spec.limits.timeout_s)
                with job.measure_step(self.clock, "run"):
                    result = await self.sandbox.run(lease, job.deadline)
        except (EngineError, TimeoutError) as problem:
            log.warning("trial.failed", problem=type(problem).__name__)
            return None
        broken_off = result.outcome.cause in {Cause.INFRASTRUCTURE, Cause.CANCELLED}
        return None if broken_off else result

    async def _record_run(self, job: Job, lease: Lease) -> None:
        """Record the container that this run uses, before any submitted code is sent to it."""
        number = job.attempt.run_number + 1
        job.attempt = replace(job.attempt, run_number=number, warm=lease.warm)
        now = self.clock.now()
        await self.jobs.lease(
            AttemptRun(
                attempt_id=job.attempt.id,
                kind=job.attempt.kind,
                run_number=number,
                daemon_id=self.daemon_id,
                generation=self.generation,
                container_ulid=lease.container.ref.ulid,
                leased_at=now,
                expires_at=now + timedelta(seconds=LEASE_DURATION_S),
            )
        )

    async def _judge_result(self, job: Job, payload: BaseModel, result: RunResult) -> JudgedRun:
        """Return the validator's judgement of the raw record.

        The profile's quality levels, its reporting mode and image hints are applied to it.
        """
        judge = partial(job.validator.judge, payload, job.policy, result)
        judgement = await self._call_decoder(job, judge, result)
        found = judgement.stage_findings.items()
        leveled = {stage: apply_quality_levels(findings, job.policy.quality) for stage, findings in found}
        judgement = _apply_reporting_mode(job, replace(judgement, stage_findings=leveled))
        if job.policy.network.mode is NetworkMode.ALLOWLIST:
            judgement = add_network_facts(judgement, result)
        if any(judgement.stage_findings.values()):
            judgement = await self.add_hints(job.validator, judgement)
        return JudgedRun(result=result, judgement=judgement)

    async def _call_decoder(self, job: Job, function: Callable[[], T], result: RunResult) -> T:
        """Call a function that decodes a result, in a thread if the result is large."""
        return (
            await self.conclusion.call_in_thread(job.attempt, function)
            if is_large_result(result)
            else function()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticStages:
    """The static stages of attempts, which run in analysis workers. It implements `RunStaticStages`."""

    analyst: Analyst
    clock: Clock

    async def __call__(self, job: Job) -> CheckedSubmission:
        """Run the static stages in an analysis worker, and publish their results."""
        if job.attempt.state is not State.CHECKING:
            job.change_state(State.CHECKING)
        with job.measure_step(self.clock, "static") as span:
            async with job.deadline.scope():
                checked = await self.analyst.check(
                    job.validator, job.submission.payload, job.policy, flow=job.attempt.flow
                )
            _add_stage_spans(span, checked.stages)
        for stage in checked.stages:
            job.publish_stage(stage)
        return checked


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExecution:
    """An execution that records the verdicts. It implements `execution.AttemptRunner`."""

    local: LocalExecution
    verdicts: VerdictRecorder

    async def __call__(self, job: Job) -> FinishedAttempt:
        """Run an attempt, record its verdict, and return the attempt with the recorded verdict.

        Raises: AttemptAbandonedError, if the daemon stops before the outcome is decided.
        """
        with self.local.sandbox.pool.attempt():
            finished = await self.local.run(job)
            with job.trace_step("record"):
                return await self.verdicts.record(finished, job.timings_s)


def _raise_if_abandoned(job: Job, ran: JudgedRun | None, failure: Failure | None) -> None:
    """Raise AttemptAbandonedError for an interrupted attempt, unless it has reached a verdict."""
    broken_off = ran is not None and ran.result.outcome.cause is Cause.CANCELLED
    if job.abandoned and (broken_off or failure is not None):
        raise AttemptAbandonedError(job.attempt.run_number if broken_off else None)


def _add_stage_spans(span: Span, stages: Sequence[StageReport]) -> None:
    """Add spans for the stages, which a worker has run in sequence and reported."""
    left_s = sum(stage.duration_s for stage in stages)
    for stage in stages:
        left_s -= stage.duration_s
        span.add_finished_child(
            f"stage {stage.name}",
            stage.duration_s,
            ended_ago_s=left_s,
            status=stage.status.value,
            findings=len(stage.findings),
        )


def _plan_run(job: Job, checked: CheckedSubmission) -> RunSpec | None:
    """Return the run spec, or None if a static stage failed or the static stages alone decide the verdict."""
    policy = job.policy.to_runtime_policy()
    return None if checked.failed else job.validator.plan(checked.payload, policy, job.limits)


def _apply_reporting_mode(job: Job, judgement: Judgement) -> Judgement:
    """Return the judgement, with the profile's reporting mode applied to its findings."""
    found = {
        stage: apply_reporting_mode(findings, job.validator.rules, job.policy)
        for stage, findings in judgement.stage_findings.items()
    }
    return replace(judgement, stage_findings=found)


def _find_lost_run_failure(ran: JudgedRun | None) -> Failure | None:
    """Return the internal error to which the last run was lost, or None if the run wasn't lost."""
    if ran is None or ran.result.outcome.cause is not Cause.INFRASTRUCTURE:
        return None
    message = "The run was lost, and no retry is left; see the execution's evidence."
    return Failure(code="run.lost", message=message)


def _build_timeout_failure(job: Job) -> Failure:
    if job.deadline.cancelled:
        return Failure(code=CANCELLED, message="The attempt was cancelled before it ran.")
    return Failure(code="attempt.stalled", message="The attempt waited too long for its turn.")
