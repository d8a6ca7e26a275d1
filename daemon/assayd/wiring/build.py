"""Builds every part from the settings and joins them; nothing here decides anything at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog
import uvicorn

import assayd.guest
from assayd.analysis.analyst import Analyst
from assayd.api import create_app, loopback_config, server_config
from assayd.attempts.admission import Intake, Stock, limits_of
from assayd.attempts.events import EventHub
from assayd.attempts.lifecycle import Parts
from assayd.attempts.retention import Retention
from assayd.attempts.scheduler import Scheduler
from assayd.attempts.selftest import Rehearsal
from assayd.attempts.service import DaemonService
from assayd.attempts.service import Parts as ServiceParts
from assayd.attempts.telemetry import watch_disk
from assayd.batches import Belt, DaemonBatches, Sources
from assayd.documents import canonical
from assayd.egress import Relay
from assayd.engines.docker import DockerEngine
from assayd.engines.measured import MeasuredEngine
from assayd.errors import EngineError
from assayd.fair_queue import FairSlots
from assayd.ids import SystemClock, Ulids
from assayd.kinds import registry as validators
from assayd.metrics import Metrics
from assayd.model.attempt import State
from assayd.model.run import Limits, RunSpec
from assayd.package_data import share
from assayd.policies import PolicySet
from assayd.ports.batches import BatchStore
from assayd.ports.checkpoint import Checkpoint, unobserved
from assayd.ports.llm import Provider
from assayd.ports.repairs import RepairStore
from assayd.repairs.desk import Desk
from assayd.repairs.loop import Means
from assayd.repairs.repairs import DaemonRepairs, RepairLimits
from assayd.sandbox.container import Origin
from assayd.sandbox.images import Images
from assayd.sandbox.isolation_check import try_walls
from assayd.sandbox.pool.pool import Pool
from assayd.sandbox.pool.reaper import Reaper
from assayd.sandbox.readiness import House
from assayd.sandbox.sandbox import Sandbox
from assayd.settings import Settings
from assayd.store.artifacts import FileArtifactStore
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import open_jobs
from assayd.store.repairs import DatabaseRepairStore
from assayd.wiring import from_settings as meant
from assayd.wiring.from_kinds import recorders_of, routers_of
from assayd.wiring.identity import identify
from assayd.wiring.profiles import load_profiles
from assayd.wiring.providers import open_providers

log = structlog.get_logger()

MIB = 2**20
GUEST = Path(assayd.guest.__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts that the daemon starts and stops."""

    origin: Origin
    scheduler: Scheduler
    intake: Intake
    batches: DaemonBatches
    repairs: DaemonRepairs
    house: House
    reaper: Reaper
    retention: Retention
    policies: PolicySet
    api: uvicorn.Config
    metrics_api: uvicorn.Config


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basics:
    """What most parts share."""

    stock: Stock
    analyst: Analyst
    batches: BatchStore
    repairs: RepairStore
    caps: Limits
    origin: Origin
    metrics: Metrics
    hub: EventHub


async def build(settings: Settings, stack: AsyncExitStack, checkpoint: Checkpoint = unobserved) -> Assembly:
    """Build every part; each that has a life of its own is entered into the stack."""
    # First: what is started after this has no keys in its environment.
    providers = await open_providers(settings.repair.providers, stack)
    basics = await _basics(settings, stack)
    house, reaper = await _build_house(settings, basics, stack)
    scheduler = _build_scheduler(settings, basics, house.sandbox, checkpoint)
    await stack.enter_async_context(scheduler.running())
    _watch(basics.metrics, scheduler, settings)
    front = _build_front(settings, basics, house, scheduler)
    batches = _build_batches(settings, basics, front.intake, scheduler, front.service)
    await stack.enter_async_context(batches.running())
    desk = Desk(
        intake=front.intake,
        scheduler=scheduler,
        jobs=basics.stock.jobs,
        documents=front.service.read_documents,
    )
    repairs = _build_repairs(settings, basics, desk, providers)
    front.intake.wishes = repairs
    scheduler.enclosing = repairs.enclosure
    await stack.enter_async_context(repairs.running())
    app = create_app(
        front.service,
        batches,
        repairs,
        access=meant.access_of(settings),
        limits=meant.api_limits_of(settings),
        metrics=basics.metrics,
        routers=routers_of(basics.stock.kinds),
    )
    limits = settings.limits
    return Assembly(
        origin=basics.origin,
        scheduler=scheduler,
        intake=front.intake,
        batches=batches,
        repairs=repairs,
        house=house,
        reaper=reaper,
        retention=front.retention,
        policies=basics.stock.policies,
        api=server_config(app, connections=limits.connections, silence_s=limits.silence_s),
        metrics_api=loopback_config(front.service.metrics),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Front:
    """What takes submissions in, and answers for what became of them."""

    intake: Intake
    retention: Retention
    service: DaemonService


def _build_scheduler(
    settings: Settings, basics: _Basics, sandbox: Sandbox, checkpoint: Checkpoint
) -> Scheduler:
    parts = Parts(
        analyst=basics.analyst,
        sandbox=sandbox,
        jobs=basics.stock.jobs,
        artifacts=basics.stock.artifacts,
        clock=basics.stock.clock,
        run_slots=FairSlots(settings.concurrency),
        daemon_id=basics.origin.daemon_id,
        generation=basics.origin.generation,
        patience_s=settings.engine.patience_s,
        checkpoint=checkpoint,
    )
    limits = meant.queue_limits_of(settings)
    return Scheduler(parts=parts, hub=basics.hub, metrics=basics.metrics, limits=limits)


def _build_front(settings: Settings, basics: _Basics, house: House, scheduler: Scheduler) -> _Front:
    stock, least = basics.stock, meant.min_free_of(settings)
    intake = Intake(stock, scheduler, ready=house.ready, caps=basics.caps, min_free_bytes=least)
    retention = Retention(stock.jobs, basics.batches, stock.artifacts, stock.clock, meant.keep_of(settings))
    service = DaemonService(
        ServiceParts(
            stock=stock,
            intake=intake,
            scheduler=scheduler,
            hub=basics.hub,
            house=house,
            rehearsal=Rehearsal(basics.analyst, house.sandbox),
            retention=retention,
            metrics=basics.metrics,
            caps=basics.caps,
        )
    )
    return _Front(intake=intake, retention=retention, service=service)


async def _basics(settings: Settings, stack: AsyncExitStack) -> _Basics:
    clock, ids = SystemClock(), Ulids()
    kinds = validators.load(settings.validators)
    recorders = recorders_of(kinds)
    jobs = await stack.enter_async_context(open_jobs(settings.state_dir, settings.database_url, recorders))
    artifacts = FileArtifactStore(settings.state_dir / "artifacts")
    await artifacts.sweep()
    analyst = Analyst(meant.analysis_limits_of(settings), settings.validators)
    await stack.enter_async_context(analyst.running())
    return _Basics(
        analyst=analyst,
        stock=Stock(
            jobs=jobs,
            records={recorder.kind: recorder.records(jobs.access) for recorder in recorders},
            artifacts=artifacts,
            policies=load_profiles(settings),
            kinds=kinds,
            clock=clock,
            ids=ids,
        ),
        batches=DatabaseBatchStore(jobs.access),
        repairs=DatabaseRepairStore(jobs.access),
        caps=meant.caps_of(settings),
        origin=Origin(daemon_id=identify(settings.state_dir, ids).daemon_id, generation=ids.new()),
        metrics=Metrics(),
        hub=EventHub(clock),
    )


def _build_batches(
    settings: Settings, basics: _Basics, intake: Intake, scheduler: Scheduler, service: DaemonService
) -> DaemonBatches:
    stock = basics.stock
    return DaemonBatches(
        Sources(
            store=basics.batches,
            jobs=stock.jobs,
            intake=intake,
            kinds=stock.kinds,
            ids=stock.ids,
            image_digest=service.image_digest,
        ),
        Belt(store=basics.batches, intake=intake, scheduler=scheduler, clock=stock.clock),
        meant.batch_limits_of(settings),
        documents=service.read_documents,
    )


def _watch(metrics: Metrics, scheduler: Scheduler, settings: Settings) -> None:
    """Let gauges show what there is at the moment that they are read."""
    for state in set(State) - {State.FINISHED}:
        metrics.under_way.labels(state.value).set_function(partial(_count, scheduler, state))
    watch_disk(metrics, settings.state_dir)


def _count(scheduler: Scheduler, state: State) -> int:
    return scheduler.states()[state]


def _build_repairs(
    settings: Settings, basics: _Basics, desk: Desk, providers: Mapping[str, Provider]
) -> DaemonRepairs:
    stock, wanted = basics.stock, settings.repair
    means = Means(
        attempts=desk,
        repairs=basics.repairs,
        analyst=basics.analyst,
        kinds=stock.kinds,
        providers=providers,
        clock=stock.clock,
        ids=stock.ids,
        timeout=timedelta(seconds=wanted.timeout_s),
        source_bytes=settings.caps.source_bytes,
    )
    limits = RepairLimits(
        at_once=wanted.at_once, max_attempts=wanted.max_attempts, on_exhausted=wanted.on_exhausted
    )
    return DaemonRepairs(means, limits, basics.metrics)


async def _build_house(settings: Settings, basics: _Basics, stack: AsyncExitStack) -> tuple[House, Reaper]:
    """Build the sandbox with its engine and its pool; leaving the stack empties it and sweeps once more."""
    docker = DockerEngine(
        base_url=settings.engine.url, threads=settings.engine.threads, timeout_s=settings.engine.timeout_s
    )
    engine = MeasuredEngine(docker, basics.metrics, basics.stock.clock)
    stack.push_async_callback(engine.close)
    pool = Pool(
        engine=engine,
        origin=basics.origin,
        clock=basics.stock.clock,
        ids=basics.stock.ids,
        limits=meant.pool_limits_of(settings),
        demand=meant.demand_of(settings),
    )
    reaper = Reaper(engine=engine, daemon_id=basics.origin.daemon_id, live=pool.live, on_gone=pool.forget)
    stack.push_async_callback(_last_sweep, reaper)
    await stack.enter_async_context(pool.running())
    seccomp = share("seccomp", "container.json").read_text(encoding="utf-8")
    house = House(
        engine=engine,
        reaper=reaper,
        sandbox=Sandbox(
            pool=pool,
            images=Images(engine, GUEST),
            clock=basics.stock.clock,
            seccomp=seccomp,
            egress=Relay(meant.egress_limits_of(settings), basics.stock.clock, basics.metrics),
        ),
        usual=_usual_runs(basics.stock, basics.caps),
        canary=try_walls,
        refuse_holes=settings.engine.holes_are_errors,
    )
    return house, reaper


async def _last_sweep(reaper: Reaper) -> None:
    """See, after the pool is empty, that nothing of ours is left."""
    try:
        await reaper.sweep(patient=False)
    except EngineError as problem:
        log.error("containers.sweep_failed", code=problem.code)


def _usual_runs(stock: Stock, caps: Limits) -> Sequence[RunSpec]:
    """Plan a sample of every kind under its default policy: what the pool keeps containers for."""
    runs = []
    for validator in stock.kinds.values():
        policy = stock.policies.get(validator.default_policy)
        sample = next((s for s in validator.samples if s.needs_container), None)
        if sample is not None:
            payload = validator.payload.model_validate_json(canonical(sample.payload))
            spec = validator.plan(payload, policy, limits_of(policy, caps))
            runs.extend([spec] if spec is not None else [])
    return runs
