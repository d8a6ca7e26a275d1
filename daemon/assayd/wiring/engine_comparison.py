"""Measures the cost of containers without Docker, if Docker was selected but isn't required.

This module decides what to compare and how to describe the result. The alternative engine is considered
only if it passes the isolation check. The result is stored in the state directory. The next start reports
the stored result immediately and repeats the measurement only if the version of an engine has changed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import structlog

from assayd.aio import finish
from assayd.errors import EngineError
from assayd.model.run import RunSpec
from assayd.ports.clock import Clock, Ids
from assayd.ports.engine import Engine
from assayd.sandbox.container import REMOVE_TIMEOUT_S, ContainerOrigin, open_container
from assayd.sandbox.sandbox import Sandbox

log = structlog.get_logger()

FILE = "engine_comparison.json"
SAMPLES = 5
"""Containers to create and remove on each engine, alternately; the median counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEngine:
    """An engine, with a sandbox that uses the engine."""

    engine: Engine
    sandbox: Sandbox


Challenge = Callable[[AsyncExitStack], Awaitable[ComparedEngine]]
"""Opens the alternative engine until the stack closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineComparison:
    """A comparison of the selected engine with the alternative, by containers for the same run spec."""

    chosen: ComparedEngine
    challenge: Challenge
    check_isolation: Callable[[ComparedEngine], Awaitable[Sequence[str]]]
    spec: RunSpec
    origin: ContainerOrigin
    clock: Clock
    ids: Ids
    file: Path
    build: str

    async def run(self) -> str:
        """Return the note about the alternative for operators, from the stored or a new measurement."""
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
        await finish(container.remove(), timeout_s=REMOVE_TIMEOUT_S)
        return self.clock.monotonic() - began


async def _format_version(engine: Engine) -> str:
    info = await engine.info()
    return f"{info.name} {info.version} ({Path(info.runtime).name})"


def read_comparison(file: Path, between: Sequence[str] = ()) -> str:
    """Return the stored result, or an empty string.

    If two engines are given, only a result for these engines is returned.
    """
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return str(kept["sentence"]) if list(between) in ([], kept["between"]) else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
