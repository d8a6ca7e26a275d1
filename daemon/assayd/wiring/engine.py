"""Selects the container engine once, at the start of the daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from assayd.engines.oci import OciEngine
from assayd.engines.oci.host import find_host
from assayd.errors import EngineError
from assayd.ports.engine import Engine
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.readiness import IsolationCheck
from assayd.sandbox.sandbox import Sandbox
from assayd.settings import Settings
from assayd.wiring.engine_comparison import FILE as COMPARISON
from assayd.wiring.engine_comparison import read_comparison

log = structlog.get_logger()

_ASKED_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEngine:
    """A selected engine, with its kind, a short reason for the choice, and the alternative.

    The function `challenger` creates the alternative engine; it is None if there isn't one.
    """

    engine: Engine
    kind: str
    reason: str
    note: str = ""
    challenger: Callable[[], Engine] | None = None


async def choose_engine(settings: Settings) -> ChosenEngine:
    """Return the engine that the settings select."""
    wanted = settings.engine
    if wanted.kind == "oci":
        return ChosenEngine(engine=_create_oci(settings), kind="oci", reason="set by engine.kind")
    docker = _create_docker(settings)
    if wanted.kind == "docker":
        return ChosenEngine(engine=docker, kind="docker", reason="set by engine.kind")
    if wanted.url or os.environ.get("DOCKER_HOST"):
        return await _choose_docker(docker, "its address is set", settings)
    if await _is_responding(docker):
        return await _choose_docker(docker, "it answers at its usual address", settings)
    try:
        runtime = await asyncio.to_thread(lambda: find_host().runtime)
    except EngineError as problem:
        return ChosenEngine(
            engine=docker, kind="docker", reason=f"no other engine can be used: {problem.message}"
        )
    await docker.close()
    reason = f"Docker doesn't answer, and {runtime.path} exists"
    return ChosenEngine(engine=_create_oci(settings), kind="oci", reason=reason)


async def _choose_docker(docker: Engine, reason: str, settings: Settings) -> ChosenEngine:
    """Return Docker as the engine, and note whether this host can also run containers without it."""
    chosen = ChosenEngine(engine=docker, kind="docker", reason=reason)
    try:
        host = await asyncio.to_thread(find_host)
    except EngineError:
        return chosen
    measured = read_comparison(settings.state_dir / COMPARISON)
    note = measured or f"{host.runtime.path} is installed too: `assay doctor` compares both in a minute"
    return replace(chosen, note=note, challenger=partial(_create_oci, settings))


def create_isolation_check(engine: Engine) -> IsolationCheck:
    """Create the isolation check of an engine, which stops cloning after a leak."""

    async def check(sandbox: Sandbox) -> Sequence[str]:
        if not isinstance(engine, OciEngine) or not engine.clones:
            return await check_isolation(sandbox)
        try:
            leaks = await check_isolation(sandbox)
        except EngineError:
            if not engine.distrusted:
                raise  # An unavailable container leaks nothing.
            leaks = [engine.distrusted]
        if not leaks:
            return []
        reason = "isolation check failed: " + "; ".join(leaks)
        log.error("templates.given_up", reason=reason)
        await engine.disable_templates(reason)
        sandbox.pool.retire_idle("the isolation check failed")
        return await check_isolation(sandbox)

    return check


def _create_docker(settings: Settings) -> Engine:
    # Imported only if needed: its library takes a twentieth of the daemon's start.
    from assayd.engines.docker import DockerEngine

    wanted = settings.engine
    return DockerEngine(base_url=wanted.url, threads=wanted.threads, timeout_s=wanted.timeout_s)


def images_dir(settings: Settings) -> Path:
    """Return the folder of unpacked images for an OCI runtime."""
    return (settings.engine.images_dir or settings.state_dir / "images").absolute()


def _create_oci(settings: Settings) -> OciEngine:
    wanted = settings.engine
    return OciEngine(
        images=images_dir(settings),
        run=wanted.run_dir,
        threads=wanted.threads,
        timeout_s=wanted.timeout_s,
        templates=wanted.templates == "on",
    )


async def _is_responding(engine: Engine) -> bool:
    try:
        async with asyncio.timeout(_ASKED_WITHIN_S):
            await engine.info()
    except (EngineError, TimeoutError):
        return False
    return True
