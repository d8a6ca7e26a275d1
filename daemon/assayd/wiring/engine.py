"""Selects the container engine once, at the start of the daemon.

If Docker was selected but isn't required, the cost of containers without Docker is measured, too. The
alternative engine is considered only if it passes the isolation check. The result is stored in the state
directory. The next start reports the stored result immediately and repeats the measurement only if the
version of an engine has changed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import structlog

from assayd.aio import run_cleanup
from assayd.clock import Clock, IdSource
from assayd.engines.oci import OciEngine
from assayd.engines.oci.host import find_host
from assayd.errors import EngineError
from assayd.model.run import RunSpec
from assayd.ports.engine import Engine
from assayd.sandbox.container import REMOVE_TIMEOUT_S, ContainerOrigin, open_container
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.readiness import IsolationCheck
from assayd.sandbox.sandbox import Sandbox
from assayd.settings import Settings

log = structlog.get_logger()

COMPARISON_FILE = "engine_comparison.json"
SAMPLES = 5
"""The number of containers to create and remove on each engine, alternately. The median time is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEngine:
    """An engine, with a sandbox that uses the engine."""

    engine: Engine
    sandbox: Sandbox


OpenAlternative = Callable[[AsyncExitStack], Awaitable[ComparedEngine]]
"""Opens the alternative engine until the stack closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineComparison:
    """A comparison of the selected engine with the alternative, by containers for the same run spec."""

    chosen: ComparedEngine
    challenge: OpenAlternative
    check_isolation: Callable[[ComparedEngine], Awaitable[Sequence[str]]]
    spec: RunSpec
    origin: ContainerOrigin
    clock: Clock
    ids: IdSource
    file: Path
    build: str

    async def run(self) -> str:
        """Return the note about the alternative for operators, from the stored or a new measurement.

        If the engines can't be compared, the note contains the reason.
        """
        async with AsyncExitStack() as stack:
            try:
                challenger = await self.challenge(stack)
                between = [await _format_version(one.engine) for one in (challenger, self.chosen)]
                kept = read_comparison(self.file, between)
                return kept or await self._compare_times(challenger, between)
            except (EngineError, TimeoutError, OSError) as problem:
                if isinstance(problem, EngineError) and problem.code == "image.missing":
                    return f"an OCI runtime is installed too; to compare both, run `{self.build}` and restart"
                log.info("engine.not_compared", reason=str(problem) or "it took too long")
                return f"can't compare it with an OCI runtime: {problem}"

    async def _compare_times(self, challenger: ComparedEngine, between: Sequence[str]) -> str:
        leaks = await self.check_isolation(challenger)
        if leaks:
            log.warning("engine.not_recommended", engine=between[0], leaks=leaks)
            return f"{between[0]} is installed too, but its isolation check failed: {'; '.join(leaks)}"
        took_s: tuple[list[float], list[float]] = ([], [])
        for _ in range(SAMPLES):
            for samples, contender in zip(took_s, (challenger, self.chosen), strict=True):
                samples.append(await self._time_container(contender))
        other_s, chosen_s = map(median, took_s)
        sentence = (
            f'engine.kind = "oci" would be {chosen_s / other_s:.0f} times as fast: {between[0]} passes the '
            f"isolation check here, and creates and removes a container in {other_s * 1e3:.0f} ms, "
            f"{between[1]} in {chosen_s * 1e3:.0f} ms"
        )
        self.file.write_text(json.dumps({"between": between, "sentence": sentence}), encoding="utf-8")
        log.info("engine.compared", result=sentence)
        return sentence

    async def _time_container(self, contender: ComparedEngine) -> float:
        began = self.clock.monotonic()
        key = await contender.sandbox.key(self.spec)
        container = await open_container(contender.engine, key, self.origin, self.ids.new())
        await run_cleanup(container.remove(), timeout_s=REMOVE_TIMEOUT_S)
        return self.clock.monotonic() - began


async def _format_version(engine: Engine) -> str:
    info = await engine.info()
    return f"{info.name} {info.version} ({Path(info.runtime).name})"


def read_comparison(file: Path, between: Sequence[str] = ()) -> str:
    """Return the stored result, or an empty string if none is stored.

    If two engines are given, only a result for these engines is returned.
    """
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return str(kept["sentence"]) if list(between) in ([], kept["between"]) else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


_PROBE_TIMEOUT_S = 10.0


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
    """Return the engine that the settings select.

    With `auto`, it is Docker if its address is set or it answers at its usual address. Otherwise, it is an
    OCI runtime, if this host has one.
    """
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
    measured = read_comparison(settings.state_dir / COMPARISON_FILE)
    note = measured or f"{host.runtime.path} is installed too: `assay doctor` compares both in a minute"
    return replace(chosen, note=note, challenger=partial(_create_oci, settings))


def create_isolation_check(engine: Engine) -> IsolationCheck:
    """Create the isolation check of an engine. After a leak, the check disables cloning and tests again."""

    async def check(sandbox: Sandbox) -> Sequence[str]:
        if not isinstance(engine, OciEngine) or not engine.uses_templates:
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
        sandbox.pool.remove_idle_containers("the isolation check failed")
        return await check_isolation(sandbox)

    return check


def _create_docker(settings: Settings) -> Engine:
    # Imported only if needed: its library takes a twentieth of the daemon's start.
    from assayd.engines.docker import DockerEngine

    wanted = settings.engine
    return DockerEngine(base_url=wanted.url, threads=wanted.threads, timeout_s=wanted.timeout_s)


def get_images_dir(settings: Settings) -> Path:
    """Return the folder of unpacked images for an OCI runtime."""
    return (settings.engine.images_dir or settings.state_dir / "images").absolute()


def _create_oci(settings: Settings) -> OciEngine:
    wanted = settings.engine
    return OciEngine(
        images=get_images_dir(settings),
        run=wanted.run_dir,
        threads=wanted.threads,
        timeout_s=wanted.timeout_s,
        templates=wanted.templates == "on",
    )


async def _is_responding(engine: Engine) -> bool:
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            await engine.info()
    except (EngineError, TimeoutError):
        return False
    return True
