"""Builds every part from the settings and joins them; nothing here decides anything at run time."""

from __future__ import annotations

import asyncio
import grp
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn

import assayd.guest
from assayd import validators
from assayd.analysis.analyst import AnalysisLimits, Analyst
from assayd.api import Access, ApiLimits, create_app, server_config
from assayd.egress import Relay
from assayd.engines.docker import DockerEngine
from assayd.errors import ConfigError, EngineError
from assayd.ids import SystemClock, Ulids
from assayd.lifecycle import Parts
from assayd.metrics import Metrics
from assayd.model.run import Limits, RunSpec
from assayd.policies import PolicySet, load_policies
from assayd.ports.checkpoint import Checkpoint, unobserved
from assayd.ports.egress import EgressLimits
from assayd.ports.validator import Validator
from assayd.rehearsal import Rehearsal
from assayd.sandbox.canary import try_walls
from assayd.sandbox.container import Origin
from assayd.sandbox.demand import Demand
from assayd.sandbox.house import House
from assayd.sandbox.images import Images
from assayd.sandbox.pool import PoolLimits
from assayd.sandbox.reaper import Reaper
from assayd.sandbox.sandbox import Sandbox
from assayd.sandbox.warm import Pool
from assayd.scheduler import QueueLimits, Scheduler
from assayd.service import DaemonService, Stock, limits_of
from assayd.settings import Settings
from assayd.share import share
from assayd.store.artifacts import FileArtifactStore
from assayd.store.events import EventHub
from assayd.store.jobs import open_jobs
from assayd.store.retention import Retention

log = structlog.get_logger()

MOST_IDLE_PER_KEY = 16
GUEST = Path(assayd.guest.__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts that the daemon starts and stops."""

    origin: Origin
    scheduler: Scheduler
    house: House
    reaper: Reaper
    retention: Retention
    service: DaemonService
    policies: PolicySet
    api: uvicorn.Config


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basics:
    """What most parts share."""

    clock: SystemClock
    ids: Ulids
    kinds: Mapping[str, Validator]
    policies: PolicySet
    caps: Limits
    origin: Origin


async def build(settings: Settings, stack: AsyncExitStack, checkpoint: Checkpoint = unobserved) -> Assembly:
    """Build every part; each that has a life of its own is entered into the stack."""
    basics = _basics(settings)
    metrics, hub = Metrics(), EventHub(basics.clock)
    jobs = await stack.enter_async_context(open_jobs(settings.state_dir, settings.database_url))
    artifacts = FileArtifactStore(settings.state_dir / "artifacts")
    await artifacts.sweep()
    analyst = Analyst(_analysis_limits(settings), settings.validators)
    await stack.enter_async_context(analyst.running())
    house, reaper = await _build_house(settings, basics, stack, metrics)
    parts = Parts(
        analyst=analyst,
        sandbox=house.sandbox,
        jobs=jobs,
        artifacts=artifacts,
        clock=basics.clock,
        run_slots=asyncio.Semaphore(settings.concurrency),
        daemon_id=basics.origin.daemon_id,
        generation=basics.origin.generation,
        checkpoint=checkpoint,
    )
    scheduler = Scheduler(parts=parts, hub=hub, metrics=metrics, limits=_queue_limits(settings))
    await stack.enter_async_context(scheduler.running())
    service = DaemonService(
        stock=Stock(
            jobs=jobs,
            artifacts=artifacts,
            hub=hub,
            policies=basics.policies,
            clock=basics.clock,
            ids=basics.ids,
            metrics=metrics,
            min_free_bytes=settings.limits.min_free_mb * 2**20,
        ),
        kinds=basics.kinds,
        scheduler=scheduler,
        house=house,
        caps=basics.caps,
        rehearsal=Rehearsal(analyst, house.sandbox),
    )
    app = create_app(service, access=_access(settings), limits=_api_limits(settings))
    return Assembly(
        origin=basics.origin,
        scheduler=scheduler,
        house=house,
        reaper=reaper,
        retention=Retention(jobs, artifacts, basics.clock, days=settings.retention.days),
        service=service,
        policies=basics.policies,
        api=server_config(app, connections=settings.limits.connections),
    )


def _basics(settings: Settings) -> _Basics:
    ids = Ulids()
    bounds, widest = settings.bounds.bounds(), settings.widest_bounds.bounds()
    return _Basics(
        clock=SystemClock(),
        ids=ids,
        kinds=validators.load(settings.validators),
        policies=load_policies(
            [share("policies"), *settings.policy_folders],
            bounds=bounds,
            widest=widest,
            egress=settings.egress.enabled,
        ),
        caps=_caps(settings),
        origin=Origin(daemon_id=_daemon_id(settings.state_dir, ids), generation=ids.new()),
    )


async def _build_house(
    settings: Settings, basics: _Basics, stack: AsyncExitStack, metrics: Metrics
) -> tuple[House, Reaper]:
    """Build the sandbox with its engine and its pool; leaving the stack empties it and sweeps once more."""
    engine = DockerEngine(
        base_url=settings.engine.url, threads=settings.engine.threads, timeout_s=settings.engine.timeout_s
    )
    stack.push_async_callback(engine.close)
    pool = Pool(
        engine=engine,
        origin=basics.origin,
        clock=basics.clock,
        ids=basics.ids,
        limits=_pool_limits(settings),
        demand=_demand(settings),
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
            clock=basics.clock,
            seccomp=seccomp,
            egress=Relay(_egress_limits(settings), basics.clock, metrics),
        ),
        usual=_usual_runs(basics.kinds, basics.policies, basics.caps),
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


def _usual_runs(kinds: Mapping[str, Validator], policies: PolicySet, caps: Limits) -> Sequence[RunSpec]:
    """Plan a sample of every kind under its default policy: what the pool keeps containers for."""
    runs = []
    for validator in kinds.values():
        policy = policies.get(validator.default_policy)
        sample = next((s for s in validator.samples if s.needs_container), None)
        if sample is not None:
            payload = validator.payload.model_validate(sample.payload)
            spec = validator.plan(payload, policy, limits_of(policy, caps))
            runs.extend([spec] if spec is not None else [])
    return runs


def _daemon_id(state_dir: Path, ids: Ulids) -> str:
    """Give the identity that this state directory has had since its first use."""
    path = state_dir / "daemon-id"
    try:
        if not path.exists():
            fresh = path.with_suffix(".new")
            fresh.write_text(ids.new(), encoding="ascii")
            fresh.replace(path)
        return path.read_text(encoding="ascii").strip()
    except OSError as problem:
        raise ConfigError("state.unusable", f"cannot use {path}: {problem.strerror}") from problem


def _demand(settings: Settings) -> Demand:
    enabled = settings.pool.enabled
    return Demand(
        base=settings.pool.default_target if enabled else 0, most=MOST_IDLE_PER_KEY if enabled else 0
    )


def _queue_limits(settings: Settings) -> QueueLimits:
    limits = settings.limits
    return QueueLimits(
        length=limits.queue_length, bytes=limits.queue_mb * 2**20, per_uid=limits.attempts_per_uid
    )


def _pool_limits(settings: Settings) -> PoolLimits:
    return PoolLimits(
        refill_concurrency=settings.pool.refill_concurrency,
        idle_memory_bytes=settings.pool.ceiling_idle_memory_mb * 2**20,
        max_idle_s=settings.pool.max_idle_age_s,
    )


def _egress_limits(settings: Settings) -> EgressLimits:
    egress = settings.egress
    return EgressLimits(
        streams=egress.streams,
        connections=egress.connections,
        bytes_up=egress.bytes_up,
        bytes_down=egress.bytes_down,
        open_at_once=egress.open_at_once,
    )


def _analysis_limits(settings: Settings) -> AnalysisLimits:
    analysis = settings.analysis
    return AnalysisLimits(
        workers=analysis.workers, memory_bytes=analysis.memory_mb * 2**20, cpu_s=analysis.cpu_s
    )


def _caps(settings: Settings) -> Limits:
    """Give the daemon's caps, in the form in which an attempt's limits carry them."""
    caps = settings.caps
    return Limits(
        timeout_s=0,
        unit_timeout_s=0,
        memory_bytes=0,
        max_processes=0,
        output_kept_bytes=caps.output_kept_bytes,
        output_read_bytes=caps.output_read_bytes,
        unit_result_bytes=caps.unit_result_bytes,
        attempt_result_bytes=caps.attempt_result_bytes,
        outputs_files=caps.outputs_files,
        outputs_bytes=caps.outputs_bytes,
    )


def _api_limits(settings: Settings) -> ApiLimits:
    return ApiLimits(body_bytes=settings.caps.body_bytes, source_bytes=settings.caps.source_bytes)


def _access(settings: Settings) -> Access:
    group = settings.access.operators_group
    return Access(
        uids=frozenset(settings.access.uids),
        gids=frozenset(settings.access.gids),
        operators_gid=grp.getgrnam(group).gr_gid if group else None,
        own_uid=os.geteuid(),
    )
