"""What happens to one attempt, from its submission to its bundle. Start reading here.

    check ─> plan ─> lease ─> run ─> judge ─> merge ─> bundle ─> verdict

Submitted code that fails is a value all the way down. An internal error is an exception up to
`run_attempt`, which turns it into the verdict `error`: an attempt never ends without a verdict.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import structlog
from pydantic import BaseModel

from assayd.analysis.analyst import Checked
from assayd.attempts.attempt_run import (
    WAITING_S,
    Abandoned,
    AttemptDependencies,
    Finished,
    Job,
    UnitPublisher,
)
from assayd.attempts.conclusion import conclude, is_large
from assayd.errors import AssaydError, EngineError
from assayd.findings.network_troubles import with_network_words
from assayd.model.attempt import Failure, State
from assayd.model.merge import CANCELLED, Ran
from assayd.model.policy import NetworkMode
from assayd.model.report import StageReport
from assayd.model.run import Cause, RunResult, RunSpec
from assayd.ports.store import Run
from assayd.sandbox.sandbox import Lease

log = structlog.get_logger()

LEASE_AGAIN_S = 0.5
"""How long to back off from an engine after a lease that could not be had."""
LEASE_S = 300.0
"""How long a journalled lease is good for; recovery does not wait for it, other hosts would."""


async def run_attempt(job: Job, deps: AttemptDependencies) -> Finished:
    """Take an attempt from its submission to its bundle; the verdict is recorded by the caller.

    Raises: Abandoned, when the daemon stops before it is decided what becomes of it.
    """
    static: tuple[StageReport, ...] = ()
    ran: Ran | None = None
    failure: Failure | None = None
    try:
        _refuse_a_further_run(job, deps)
        checked = await _check(job, deps)
        static = checked.stages
        spec = _plan(job, checked)
        ran = await _execute(job, deps, spec, checked.payload) if spec is not None else None
        failure = _lost(ran)
    except TimeoutError:
        failure = _overdue(job)
    except AssaydError as trouble:
        failure = Failure(code=trouble.code, message=trouble.message)
    except Exception:
        log.exception("attempt.broken", attempt_id=job.attempt.id)
        failure = Failure(code="internal", message="The daemon failed on this attempt; see its log.")
    _leave_abandoned(job, ran, failure)
    job.move(State.JUDGING)
    with job.measured(deps.clock, "report"):
        return await _conclude(job, deps, static, ran, failure)


async def _conclude(
    job: Job,
    deps: AttemptDependencies,
    static: tuple[StageReport, ...],
    ran: Ran | None,
    failure: Failure | None,
) -> Finished:
    """Put the end on record; one that can't be written down is an internal error, and leaves nothing else."""
    try:
        return await conclude(job, deps, static, ran, failure)
    except Exception:
        log.exception("attempt.not_concluded", attempt_id=job.attempt.id)
        broken = Failure(code="internal", message="The daemon failed on this attempt; see its log.")
        return await conclude(job, deps, (), None, broken)


def _leave_abandoned(job: Job, ran: Ran | None, failure: Failure | None) -> None:
    """Leave an attempt that was broken off to the next run of the daemon; what came to its end stands."""
    broken_off = ran is not None and ran.result.outcome.cause is Cause.CANCELLED
    if job.abandoned and (broken_off or failure is not None):
        raise Abandoned(job.attempt.run_number if broken_off else None)


def _refuse_a_further_run(job: Job, deps: AttemptDependencies) -> None:
    if job.attempt.run_number >= deps.max_runs:
        times = "twice" if deps.max_runs > 1 else "once"
        message = f"The attempt was interrupted {times} through no fault of its own."
        raise AssaydError("attempt.interrupted", message)


async def _check(job: Job, deps: AttemptDependencies) -> Checked:
    """Run the static stages in an analysis worker."""
    job.move(State.CHECKING)
    with job.measured(deps.clock, "static"):
        async with job.deadline.scope():
            checked = await deps.analyst.check(
                job.validator, job.submission.payload, job.policy, flow=job.attempt.flow
            )
    for stage in checked.stages:
        job.publish_stage(stage)
    return checked


def _plan(job: Job, checked: Checked) -> RunSpec | None:
    """Decide what is to run; nothing when a static stage failed."""
    return None if checked.failed else job.validator.plan(checked.payload, job.policy, job.limits)


async def _execute(job: Job, deps: AttemptDependencies, spec: RunSpec, payload: BaseModel) -> Ran:
    """Run the plan in a container, and once more when the first run was lost through an internal error.

    A lease that can't be had is no run. It is asked for again while the engine may come back.
    """
    failing_since: float | None = None
    while True:
        try:
            result = await _run_once(job, deps, spec)
        except EngineError as problem:
            failing_since = failing_since or deps.clock.monotonic()
            left_s = deps.retry_window_s - (deps.clock.monotonic() - failing_since)
            if not problem.retryable or job.attempt.run_number >= deps.max_runs or left_s <= 0:
                raise
            log.warning("lease.failed", code=problem.code)
            await _wait_for_engine(job, deps, problem, left_s)
            continue
        if result.outcome.cause is not Cause.INFRASTRUCTURE or job.attempt.run_number >= deps.max_runs:
            return await _judge(job, deps, payload, result)
        log.warning("run.lost", evidence=dict(result.outcome.evidence))
        failing_since = None
        job.deadline.restart(WAITING_S)


async def _wait_for_engine(job: Job, deps: AttemptDependencies, problem: EngineError, left_s: float) -> None:
    """Wait until the sandbox can be used again. Raises: the problem, when that takes too long."""
    async with job.deadline.scope():
        await asyncio.sleep(LEASE_AGAIN_S)
        try:
            async with asyncio.timeout(left_s):
                await deps.sandbox.usable.wait()
        except TimeoutError:
            raise problem from None


async def _run_once(job: Job, deps: AttemptDependencies, spec: RunSpec) -> RunResult:
    """Lease a container, journal who has it, and talk the units through."""
    if job.attempt.state is not State.LEASING:
        job.move(State.LEASING)
    async with AsyncExitStack() as held:
        with job.measured(deps.clock, "lease"):
            async with job.deadline.scope():
                await deps.require_image(job.validator, job.policy, spec)
                await held.enter_async_context(_slot(job, deps))
                lease = await held.enter_async_context(deps.sandbox.lease(spec, *job.attempt.flow))
            await _journal(job, deps, lease)
        job.move(State.RUNNING)
        job.deadline.restart(spec.limits.timeout_s)
        with job.measured(deps.clock, "run"):
            return await deps.sandbox.run(lease, job.deadline, UnitPublisher(job, spec))


def _slot(job: Job, deps: AttemptDependencies) -> AbstractAsyncContextManager[None]:
    """Return one of the slots for containers, in turn with other flows."""
    return deps.slots.hold(*job.attempt.flow, job.attempt.id)


async def _journal(job: Job, deps: AttemptDependencies, lease: Lease) -> None:
    """Record which container this run gets, before anything submitted is sent to it."""
    number = job.attempt.run_number + 1
    job.attempt = replace(job.attempt, run_number=number, warm=lease.warm)
    now = deps.clock.now()
    await deps.jobs.lease(
        Run(
            attempt_id=job.attempt.id,
            kind=job.attempt.kind,
            run_number=number,
            daemon_id=deps.daemon_id,
            generation=deps.generation,
            container_ulid=lease.container.ref.ulid,
            leased_at=now,
            expires_at=now + timedelta(seconds=LEASE_S),
        )
    )


async def _judge(job: Job, deps: AttemptDependencies, payload: BaseModel, result: RunResult) -> Ran:
    """Let the validator judge the raw record."""
    arguments = (payload, job.policy, result)
    if is_large(result):
        judgement = await asyncio.to_thread(job.validator.judge, *arguments)
    else:
        judgement = job.validator.judge(*arguments)
    if job.policy.network.mode is NetworkMode.ALLOWLIST:
        judgement = with_network_words(judgement, result)
    return Ran(result=result, judgement=await deps.add_hints(job.validator, judgement))


def _lost(ran: Ran | None) -> Failure | None:
    """Name the internal error when the last run was lost through one."""
    if ran is None or ran.result.outcome.cause is not Cause.INFRASTRUCTURE:
        return None
    message = "The run was lost, and no further one is allowed; the execution's evidence says how."
    return Failure(code="run.lost", message=message)


def _overdue(job: Job) -> Failure:
    if job.deadline.cancelled:
        return Failure(code=CANCELLED, message="The attempt was cancelled before it ran.")
    return Failure(code="attempt.stalled", message="The attempt waited too long for its turn.")
