"""Builds the parts that run attempts on this host, such as engine, pool, reaper and sandbox.

It builds them in the daemon, and in each executor if the settings demand executors.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import structlog

import assayd.guest
from assayd.aio import open_task_group
from assayd.analysis.processes import WorkerParents
from assayd.attempts.conclusion import ConclusionWriter, VerdictRecorder
from assayd.attempts.execution import Execution
from assayd.attempts.lifecycle import LocalExecution, RecordedExecution, StaticStages
from assayd.attempts.samples import ImageHints, ImageTester, SelfTest
from assayd.clock import Clock, IdSource, SystemClock, UlidGenerator
from assayd.documents import canonical
from assayd.egress import Relay
from assayd.errors import AssaydError, EngineError
from assayd.executors.front import DaemonParts, ExecutorReadiness, ExecutorSet
from assayd.executors.worker import ExecutorParts, ExecutorWorker
from assayd.fair_queue import FairSemaphore
from assayd.kind import Kind
from assayd.kinds import registry
from assayd.log import configure_logging
from assayd.metrics import Metrics, wrap_engine_with_metrics
from assayd.model.run import RunSpec, derive_attempt_limits
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet
from assayd.ports.egress import Egress, EgressLimits
from assayd.ports.engine import Engine
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.pool import ContainerPool, Reaper
from assayd.sandbox.pool_decisions import PoolDemand, PoolLimits
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.sandbox.sandbox import ImageCache, Sandbox
from assayd.settings import Settings
from assayd.store.artifacts import FileArtifactStore
from assayd.store.jobs import BUNDLES
from assayd.wiring.basics import CoreParts
from assayd.wiring.engine import (
    COMPARISON_FILE,
    ChosenEngine,
    ComparedEngine,
    EngineComparison,
    choose_engine,
    create_isolation_check,
    get_images_dir,
)
from assayd.wiring.limits import WHOLE, DaemonLimits, Part, build_pool_demand, derive_limits
from assayd.wiring.wings import open_attester

log = structlog.get_logger()


async def build_local_execution(basics: CoreParts, stack: AsyncExitStack) -> Execution:
    """Build the sandbox, its engine, and the other parts that run attempts.

    With the setting `executors`, also build the executors, in which the attempts run.
    """
    usual = _plan_sample_runs(basics.kinds, basics.policies, basics.limits)
    given = cast("ReadinessSupervisor | None", basics.overrides.readiness)
    readiness = given or await build_readiness(
        basics.settings,
        basics.limits,
        usual=usual,
        list_profile_images=basics.policies.get_profiles_by_image,
        clock=basics.clock,
        ids=basics.ids,
        origin=basics.origin,
        metrics=basics.metrics,
        stack=stack,
    )
    selftest = SelfTest(basics.analyst, readiness.sandbox)
    execution = _build_execution(basics, readiness.sandbox, selftest)
    verdicts = VerdictRecorder(
        jobs=basics.jobs,
        artifacts=basics.artifacts,
        clock=basics.clock,
        hub=basics.hub,
        stopping=basics.stopping,
    )
    if not basics.settings.executors:
        recorded = RecordedExecution(local=execution, verdicts=verdicts)
        return Execution(execute=recorded, readiness=readiness, selftest=selftest)
    executors = build_executors(basics, execution, readiness, usual)
    await stack.enter_async_context(executors.opened())
    execution = replace(execution, run_elsewhere=executors.run)
    return Execution(
        execute=RecordedExecution(local=execution, verdicts=verdicts),
        readiness=ExecutorReadiness(readiness, executors),
        selftest=selftest,
    )


def _build_execution(basics: CoreParts, sandbox: Sandbox, selftest: SelfTest) -> LocalExecution:
    overrides, settings = basics.overrides, basics.settings
    trials = ImageTester(
        sandbox,
        selftest,
        check_isolation,
        policies=basics.policies,
        caps=basics.limits.attempt,
        clock=basics.clock,
    )
    return LocalExecution(
        run_static_stages=StaticStages(analyst=overrides.wrap(basics.analyst), clock=basics.clock),
        sandbox=overrides.wrap(sandbox),
        jobs=basics.jobs,
        conclusion=basics.conclusion,
        clock=basics.clock,
        slots=FairSemaphore(settings.concurrency),
        daemon_id=basics.origin.daemon_id,
        generation=basics.origin.generation,
        retry_window_s=settings.engine.patience_s,
        max_runs=settings.attempts.max_runs,
        require_image=lambda job, spec: trials.require_usable(job.validator, job.policy, spec),
        add_hints=ImageHints(sandbox.images, basics.policies.get_profiles_by_image).add,
    )


ENGINE_COMPARISON_DELAY_S = 30.0
"""Seconds for which the daemon is ready before it compares engines, so that its pool is filled."""
ENGINE_VARIABLES = ("ASSAYD_ENGINE__", "DOCKER_HOST")
KIND, IMAGES_DIR = "ASSAYD_ENGINE__KIND", "ASSAYD_ENGINE__IMAGES_DIR"
GUEST_DIR = Path(assayd.guest.__file__).parent


async def build_readiness(  # noqa: PLR0913  (its parts, by name)
    settings: Settings,
    limits: DaemonLimits,
    *,
    usual: Sequence[RunSpec],
    list_profile_images: Callable[[], Mapping[str, Sequence[str]]],
    clock: Clock,
    ids: IdSource,
    origin: ContainerOrigin,
    metrics: Metrics,
    stack: AsyncExitStack,
    part: Part = WHOLE,
) -> ReadinessSupervisor:
    """Build the sandbox, including its engine and its pool.

    When the stack is closed, the pool is emptied and checked for remaining containers.
    """
    chosen = await choose_engine(settings)
    log.info("engine.chosen", kind=chosen.kind, reason=chosen.reason, note=chosen.note)
    engine = wrap_engine_with_metrics(chosen.engine, metrics, clock)
    stack.push_async_callback(engine.close)
    demand = build_pool_demand(settings, quick=chosen.engine.capabilities().quick, part=part)
    make_pool = partial(ContainerPool, origin=origin, clock=clock, ids=ids)
    pool = make_pool(engine=engine, limits=limits.pool, demand=demand)
    reaper = _build_reaper(engine, pool, origin, settings)
    stack.push_async_callback(_sweep_at_exit, reaper)
    await stack.enter_async_context(pool.running())
    relay = Relay(_derive_egress_limits(settings, part), clock, metrics)
    make_sandbox = partial(_build_sandbox, egress=relay, clock=clock)
    sandbox = make_sandbox(engine, pool)
    readiness = _build_supervisor(engine, chosen, reaper, sandbox, usual, settings)
    readiness.list_profile_images = list_profile_images
    if chosen.challenger is not None and usual:
        comparison = EngineComparison(
            chosen=ComparedEngine(engine=chosen.engine, sandbox=sandbox),
            challenge=partial(_open_alternative, chosen.challenger, make_pool, make_sandbox),
            check_isolation=_check_isolation,
            spec=usual[0],
            origin=origin,
            clock=clock,
            ids=ids,
            file=settings.state_dir / COMPARISON_FILE,
            build=format_build_command({KIND: "oci", IMAGES_DIR: str(get_images_dir(settings))}),
        )
        await stack.enter_async_context(_compare_in_background(comparison, readiness))
    return readiness


def _build_reaper(engine: Engine, pool: ContainerPool, origin: ContainerOrigin, settings: Settings) -> Reaper:
    return Reaper(
        engine=engine,
        daemon_id=origin.daemon_id,
        live=pool.list_live_containers,
        on_gone=pool.forget,
        owns=partial(owns_containers, origin, settings.executors),
    )


def _derive_egress_limits(settings: Settings, part: Part) -> EgressLimits:
    limits = settings.egress.limits()
    return replace(limits, open_at_once=part.of(limits.open_at_once, least=1))


def owns_containers(origin: ContainerOrigin, executors: int, executor: str) -> bool:
    """Return whether a process removes containers of this executor, or of the daemon if it is empty.

    The daemon also removes those of executors that a former setting started.
    """
    if origin.executor:
        return executor == origin.executor
    return executor not in map(str, range(executors))


def _build_supervisor(
    engine: Engine,
    chosen: ChosenEngine,
    reaper: Reaper,
    sandbox: Sandbox,
    usual: Sequence[RunSpec],
    settings: Settings,
) -> ReadinessSupervisor:
    readiness = ReadinessSupervisor(
        engine=engine,
        reaper=reaper,
        sandbox=sandbox,
        usual=usual,
        isolation_check=create_isolation_check(chosen.engine),
        refuse_vulnerable=settings.engine.holes_are_errors,
    )
    _set_texts(readiness, chosen, settings)
    return readiness


def _set_texts(readiness: ReadinessSupervisor, chosen: ChosenEngine, settings: Settings) -> None:
    """Set the texts about the chosen engine in the rows of `assay doctor`."""
    readiness.engine_kind, readiness.engine_note = chosen.kind, chosen.note
    # The command reads settings files too, but a shell may lack the daemon's variables.
    variables = {name: value for name, value in os.environ.items() if name.startswith(ENGINE_VARIABLES)}
    readiness.build_command = format_build_command(variables)
    if settings.engine.kind == "oci":
        readiness.engine_remedy = ""  # The message names the missing part.


def format_build_command(variables: Mapping[str, str]) -> str:
    """Return the shell command that builds images with the given variables."""
    words = [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    return " ".join([*words, "assay images build"])


async def _check_isolation(contender: ComparedEngine) -> Sequence[str]:
    return await create_isolation_check(contender.engine)(contender.sandbox)


def _build_sandbox(engine: Engine, pool: ContainerPool, egress: Egress, clock: Clock) -> Sandbox:
    seccomp = get_shared_data_path("seccomp", "container.json").read_text(encoding="utf-8")
    return Sandbox(
        pool=pool, images=ImageCache(engine, GUEST_DIR), clock=clock, seccomp=seccomp, egress=egress
    )


async def _open_alternative(
    make: Callable[[], Engine],
    make_pool: Callable[..., ContainerPool],
    make_sandbox: Callable[[Engine, ContainerPool], Sandbox],
    stack: AsyncExitStack,
) -> ComparedEngine:
    """Open the alternative engine, with a pool that keeps no idle containers."""
    engine = make()
    stack.push_async_callback(engine.close)
    pool = make_pool(engine=engine, limits=PoolLimits(), demand=PoolDemand(base=0, unused=0, most=0))
    await stack.enter_async_context(pool.running())
    return ComparedEngine(engine=engine, sandbox=make_sandbox(engine, pool))


@asynccontextmanager
async def _compare_in_background(
    comparison: EngineComparison, readiness: ReadinessSupervisor
) -> AsyncIterator[None]:
    """Compare the engines while the body runs, after an initial delay."""

    async def compare() -> None:
        await readiness.sandbox.usable.wait()
        await asyncio.sleep(ENGINE_COMPARISON_DELAY_S)
        readiness.engine_note = await comparison.run()

    async with open_task_group() as tasks:
        comparing = tasks.create_task(compare(), name="compare-engines")
        try:
            yield
        finally:
            comparing.cancel()


async def _sweep_at_exit(reaper: Reaper) -> None:
    """Remove any container of this daemon that remains after the pool is emptied. An error is only logged."""
    try:
        await reaper.sweep(patient=False)
    except EngineError as problem:
        log.error("containers.sweep_failed", code=problem.code)


def _plan_sample_runs(
    kinds: Mapping[str, Kind], policies: PolicySet, limits: DaemonLimits
) -> Sequence[RunSpec]:
    """Plan a sample run of every kind under its default policy, if a sample needs a container.

    The pool prepares for these runs.
    """
    runs = []
    for validator in kinds.values():
        policy = policies.get(validator.default_policy)
        sample = next((s for s in validator.samples if s.needs_container), None)
        if sample is not None:
            payload = validator.payload.model_validate_json(canonical(sample.payload))
            spec = validator.plan(payload, policy, derive_attempt_limits(policy, limits.attempt))
            runs.extend([spec] if spec is not None else [])
    return runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStart:
    """The daemon's first message to an executor.

    `settings` are the values of the daemon's settings. `usual` are the runs for which the pool keeps
    containers. If `keeps_contents` is true, the daemon stores the contents of unflushed bundles.
    """

    settings: Mapping[str, object]
    origin: ContainerOrigin
    part: Part
    usual: Sequence[RunSpec]
    keeps_contents: bool


def build_executors(
    basics: CoreParts, execution: LocalExecution, readiness: ReadinessSupervisor, usual: Sequence[RunSpec]
) -> ExecutorSet:
    """Return the executors that the settings demand; they run while `opened()` is entered."""
    settings, origin, count = basics.settings, basics.origin, basics.settings.executors
    # An executor must not choose another engine than the daemon.
    values = settings.model_dump()
    values["engine"]["kind"] = readiness.engine_kind

    def start(number: int) -> ExecutorStart:
        return ExecutorStart(
            settings=values,
            origin=ContainerOrigin(
                daemon_id=origin.daemon_id, generation=origin.generation, executor=str(number)
            ),
            part=Part(number=number, count=count, is_executor=True),
            usual=usual,
            keeps_contents=basics.jobs.unsynced is not None,
        )

    async def sweep(number: int) -> None:
        await readiness.reaper.create_executor_reaper(number).sweep(patient=False)

    parts = DaemonParts(
        jobs=basics.jobs,
        require_image=execution.require_image,
        attachments=basics.conclusion.attachments,
        slots=execution.slots,
        require_run_left=execution.require_run_left,
        sweep=sweep,
        images=basics.policies.get_profiles_by_image,
    )
    executors = ExecutorSet(
        count, WorkerParents(basics.overrides.executor_program, settings.validators), start, parts
    )
    basics.policies.on_reload = executors.send_images
    basics.metrics.others = executors.samples
    return executors


async def build_executor_parts(worker: ExecutorWorker, start: object, stack: AsyncExitStack) -> ExecutorParts:
    """Build the parts of an executor, in its process.

    Raises: AssaydError ``internal``, if the first message isn't an ExecutorStart; ConfigError or EngineError,
    if a part can't be built.
    """
    if not isinstance(start, ExecutorStart):
        raise AssaydError("internal", f"an executor can't start with {type(start).__name__}")
    settings, part = Settings.model_validate(start.settings), start.part
    configure_logging(settings.log.level, settings.log.format)
    structlog.contextvars.bind_contextvars(executor=part.number)
    registry.apply_operator_tables(kinds := registry.load_validators(settings.validators), settings.tables)
    clock, metrics, limits = SystemClock(), Metrics(), derive_limits(settings, part)
    readiness = await build_readiness(
        settings,
        limits,
        part=part,
        usual=start.usual,
        list_profile_images=lambda: worker.images,
        clock=clock,
        ids=UlidGenerator(),
        origin=start.origin,
        metrics=metrics,
        stack=stack,
    )
    kept = worker.contents if start.keeps_contents else None
    daemon_id = start.origin.daemon_id
    local = LocalExecution(
        run_static_stages=worker.get_checked,
        sandbox=readiness.sandbox,
        jobs=worker,
        conclusion=ConclusionWriter(
            artifacts=FileArtifactStore(settings.state_dir / BUNDLES, kept),
            clock=clock,
            attachments=worker.get_attachments,
            attester=open_attester(settings.attestation, daemon_id=daemon_id, clock=clock),
        ),
        clock=clock,
        slots=FairSemaphore(settings.concurrency),
        daemon_id=daemon_id,
        generation=start.origin.generation,
        retry_window_s=settings.engine.patience_s,
        max_runs=settings.attempts.max_runs,
        require_image=worker.require_image,
        add_hints=ImageHints(readiness.sandbox.images, lambda: worker.images).add,
    )
    return ExecutorParts(local=local, readiness=readiness, kinds=kinds, metrics=metrics)
