"""What a unit's limit counts, in containers: computing, waiting for something, waiting for a processor.

A container that gets a fifth of a processor stands for a machine that is busy with others. How exact the
clock is shows tests/unit/guest/test_clock.py; here a machine that is busy indeed must change nothing, so what
may also come of it is three times the limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from assayd.engines.docker import DockerEngine
from assayd.findings.runs import build_timeout_finding
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.model.run import Cause, Limits, Program, RunSpec, Unit, UnitResult
from support.engines.sandboxes import run, sandbox_on

pytestmark = pytest.mark.engine

LIMITS = Limits(timeout_s=20, unit_timeout_s=1, memory_bytes=64 * 2**20, max_processes=6)
STARVED = replace(LIMITS, cpus=0.2)
MAX_S = 3.0
"""Times the limit, in seconds where that is one."""

WORK = """
import time
def extract(seconds):
    while time.process_time() < seconds:
        pass
    return seconds
"""
SLEEPS = "import time\ndef extract(seconds):\n    time.sleep(seconds)\n"
FOUR_SPIN = """
import os
def extract(seconds):
    for _ in range(3):
        if os.fork() == 0:
            break
    while True:
        pass
"""
SPINS_UNSEEN = """
import os, signal, time
def extract(seconds):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if os.fork() == 0:
            while time.process_time() < 0.15:
                pass
            os._exit(0)
        time.sleep(0.2)
"""


@pytest.fixture
async def engine(docker_host: str) -> AsyncIterator[DockerEngine]:
    """Return the engine."""
    made = DockerEngine(base_url=docker_host)
    yield made
    await made.close()


async def unit_of(engine: DockerEngine, source: str, seconds: float, limits: Limits = LIMITS) -> UnitResult:
    """Run one unit in its own container."""
    call = {"source": source, "filename": "code.py", "function": "extract", "builtins": "full"}
    unit = Unit(
        name="u",
        program=Program.CALL,
        arguments={**call, "args": [seconds], "kwargs": {}},
        deadline_s=limits.unit_timeout_s,
    )
    imports = ImportPolicy(mode=ImportMode.OBSERVE)
    async with sandbox_on(engine) as sandbox:
        spec = RunSpec(image="python", limits=limits, imports=imports, units=(unit,))
        (result,) = (await run(sandbox, spec)).units
    return result


def counted(unit: UnitResult) -> bool:
    """Return whether a unit got one second, apart from waiting for a processor, or at least three."""
    usage = unit.usage
    return usage.wall_s >= MAX_S or usage.cpu_s + usage.waited_s == pytest.approx(1.0, abs=0.3)


async def test_sleeper_ends_at_its_limit_and_is_told_that_it_waited(engine: DockerEngine) -> None:
    unit = await unit_of(engine, SLEEPS, 30)
    assert unit.outcome.cause is Cause.TIMEOUT
    assert unit.usage.wall_s >= 1.0
    assert unit.usage.waited_s > 0.8
    assert "without computing" in build_timeout_finding(unit, "It").message


async def test_starved_sleeper_ends_at_its_limit(engine: DockerEngine) -> None:
    unit = await unit_of(engine, SLEEPS, 30, STARVED)
    assert unit.outcome.cause is Cause.TIMEOUT
    assert unit.usage.starved_s < 0.5


async def test_spinner_is_told_what_it_used(engine: DockerEngine) -> None:
    unit = await unit_of(engine, WORK, 30)
    assert (unit.outcome.cause, unit.outcome.evidence["limit_s"]) == (Cause.TIMEOUT, 1)
    assert counted(unit)
    assert "processor" in build_timeout_finding(unit, "It").message


async def test_four_spinners_have_used_the_limit_together(engine: DockerEngine) -> None:
    unit = await unit_of(engine, FOUR_SPIN, 30)
    assert unit.outcome.cause is Cause.TIMEOUT
    assert counted(unit)
    assert "processor" in build_timeout_finding(unit, "It").message


async def test_processes_that_nobody_waits_for_are_counted(engine: DockerEngine) -> None:
    # On a busy machine, several of them exist at the same time.
    unit = await unit_of(engine, SPINS_UNSEEN, 30, replace(LIMITS, max_processes=64))
    assert unit.outcome.cause is Cause.TIMEOUT
    assert unit.usage.cpu_s > 0.1


async def test_starved_program_gets_the_processor_time_that_it_was_promised(engine: DockerEngine) -> None:
    unit = await unit_of(engine, WORK, 1.0, replace(STARVED, unit_timeout_s=4))
    assert unit.outcome.completed or unit.usage.wall_s >= 4 * MAX_S, unit.outcome
    assert unit.usage.wall_s > 4
    assert unit.usage.starved_s > 2


async def test_starved_program_ends_at_three_times_its_limit_and_is_told_why(engine: DockerEngine) -> None:
    # A twentieth: three times the limit is then far from the half that would have ended it elsewhere, too.
    unit = await unit_of(engine, WORK, 30, replace(LIMITS, cpus=0.05))
    assert unit.outcome.cause is Cause.TIMEOUT
    assert unit.usage.wall_s >= MAX_S * LIMITS.unit_timeout_s
    finding = build_timeout_finding(unit, "It")
    assert "for a processor" in finding.message
    assert "the machine was busy" in str(finding.suggestion)


async def test_attempt_does_not_count_what_its_units_were_starved(engine: DockerEngine) -> None:
    unit = await unit_of(engine, WORK, 1.0, replace(STARVED, unit_timeout_s=4, timeout_s=4))
    assert unit.usage.wall_s > 4
    assert unit.outcome.completed or unit.usage.wall_s > 2.5 * 4, unit.outcome
