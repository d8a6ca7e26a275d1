"""A sandbox on the real engine for tests, with pool, images and seccomp profile like the daemon's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import assayd.guest
from assayd.aio import Deadline
from assayd.clock import SystemClock, UlidGenerator
from assayd.egress import Relay
from assayd.errors import EngineError
from assayd.metrics import Metrics
from assayd.model.run import RunResult, RunSpec
from assayd.package_data import get_shared_data_path
from assayd.ports.egress import Egress, EgressLimits
from assayd.ports.engine import Engine
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.conversation import RunObserver
from assayd.sandbox.pool import ContainerPool, Reaper
from assayd.sandbox.pool_decisions import PoolDemand, PoolLimits
from assayd.sandbox.sandbox import ImageCache, Sandbox


@asynccontextmanager
async def sandbox_on(
    engine: Engine,
    *,
    ready: int = 0,
    sweep: bool = False,
    egress: Egress | None = None,
    processors: int = 1,
) -> AsyncIterator[Sandbox]:
    """Return a sandbox with up to `ready` warm containers per key; no container of it outlives the body.

    Its way out is one that resolves no name, unless another is given.

    What the pool could not remove, because its engine had gone, is swept at the end when `sweep` says so.
    """
    origin = ContainerOrigin(daemon_id=UlidGenerator().new(), generation="test")
    pool = ContainerPool(
        engine=engine,
        origin=origin,
        clock=SystemClock(),
        ids=UlidGenerator(),
        limits=PoolLimits(max_containers=8, refill_concurrency=2, processors=processors),
        demand=PoolDemand(base=ready, unused=ready, most=ready),
    )
    images = ImageCache(engine, Path(assayd.guest.__file__).parent)
    seccomp = get_shared_data_path("seccomp", "container.json").read_text()
    async with pool.running():
        yield Sandbox(
            pool=pool, images=images, clock=SystemClock(), seccomp=seccomp, egress=egress or no_way_out()
        )
    if sweep:
        reaper = Reaper(
            engine=engine, daemon_id=origin.daemon_id, live=pool.list_live_containers, on_gone=pool.forget
        )
        await reaper.sweep(patient=False)
    left = await engine.list_owned(origin.daemon_id)
    assert left == [], f"containers are left: {left}; known to be stuck: {pool.stuck}"


def no_way_out() -> Egress:
    """Return a relay that resolves no name."""
    return Relay(EgressLimits(), SystemClock(), Metrics(), look_up=lambda host, port: ())


async def run(sandbox: Sandbox, spec: RunSpec, observer: RunObserver | None = None) -> RunResult:
    """Run a spec in a container of its own, within the attempt's time.

    Asks for a container twice, as attempts do: an engine fails to start one in some thousands.
    """
    try:
        return await _run_once(sandbox, spec, observer)
    except EngineError:
        return await _run_once(sandbox, spec, observer)


async def _run_once(sandbox: Sandbox, spec: RunSpec, observer: RunObserver | None) -> RunResult:
    async with sandbox.lease(spec) as lease:
        return await sandbox.run(lease, Deadline(spec.limits.timeout_s), observer)
