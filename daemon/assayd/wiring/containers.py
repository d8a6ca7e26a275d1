"""Builds what containers are run with: engine, pool, reaper, sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

import assayd.guest
from assayd.attempts.admission import AdmissionDependencies, limits_of
from assayd.documents import canonical
from assayd.egress import Relay
from assayd.engines.measured import measured
from assayd.errors import EngineError
from assayd.metrics import Metrics
from assayd.model.run import RunSpec
from assayd.package_data import share
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.images import Images
from assayd.sandbox.pool.pool import Pool
from assayd.sandbox.pool.reaper import Reaper
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.sandbox.sandbox import Sandbox
from assayd.settings import Settings
from assayd.wiring.engine import choose_engine, isolation_check_of
from assayd.wiring.limits import DaemonLimits, demand_from

log = structlog.get_logger()

GUEST = Path(assayd.guest.__file__).parent


async def build_readiness(
    settings: Settings,
    limits: DaemonLimits,
    shared: AdmissionDependencies,
    *,
    origin: ContainerOrigin,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> ReadinessSupervisor:
    """Build the sandbox with its engine and its pool; leaving the stack empties it and sweeps once more."""
    chosen = await choose_engine(settings)
    log.info("engine.chosen", kind=chosen.kind, reason=chosen.reason, note=chosen.note)
    engine = measured(chosen.engine, metrics, shared.clock)
    stack.push_async_callback(engine.close)
    pool = Pool(
        engine=engine,
        origin=origin,
        clock=shared.clock,
        ids=shared.ids,
        limits=limits.pool,
        demand=demand_from(settings, quick=chosen.engine.capabilities().quick),
    )
    reaper = Reaper(engine=engine, daemon_id=origin.daemon_id, live=pool.live, on_gone=pool.forget)
    stack.push_async_callback(_last_sweep, reaper)
    await stack.enter_async_context(pool.running())
    sandbox = Sandbox(
        pool=pool,
        images=Images(engine, GUEST),
        clock=shared.clock,
        seccomp=share("seccomp", "container.json").read_text(encoding="utf-8"),
        egress=Relay(settings.egress.limits(), shared.clock, metrics),
    )
    readiness = ReadinessSupervisor(
        engine=engine,
        reaper=reaper,
        sandbox=sandbox,
        usual=_usual_runs(shared, limits),
        isolation_check=isolation_check_of(chosen.engine),
        refuse_vulnerable=settings.engine.holes_are_errors,
    )
    readiness.engine_note = chosen.note
    readiness.images_named = shared.policies.images
    return readiness


async def _last_sweep(reaper: Reaper) -> None:
    """See, after the pool is empty, that nothing of ours is left."""
    try:
        await reaper.sweep(patient=False)
    except EngineError as problem:
        log.error("containers.sweep_failed", code=problem.code)


def _usual_runs(shared: AdmissionDependencies, limits: DaemonLimits) -> Sequence[RunSpec]:
    """Plan a sample of every kind under its default policy: what the pool keeps containers for."""
    runs = []
    for validator in shared.kinds.values():
        policy = shared.policies.get(validator.default_policy)
        sample = next((s for s in validator.samples if s.needs_container), None)
        if sample is not None:
            payload = validator.payload.model_validate_json(canonical(sample.payload))
            spec = validator.plan(payload, policy, limits_of(policy, limits.attempt))
            runs.extend([spec] if spec is not None else [])
    return runs
