"""How a run ends when it is not the guest that ends it: deadlines, cancelling, and our own trouble.

The causes that a guest can bring about alone are shown by the programs of tests/escape.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.aio import Deadline
from assayd.engines.docker import DockerEngine
from assayd.engines.oci import OciEngine
from assayd.errors import EngineError
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.model.run import Cause, Limits, Program, RunEndReason, RunResult, RunSpec, Unit, UnitEndReason
from assayd.ports.engine import Engine
from assayd.sandbox.conversation import RunObserver
from assayd.sandbox.sandbox import Lease, Sandbox
from support.engines.cuttable_engine import CuttableEngine
from support.engines.oci import made_engine, needs_oci
from support.engines.sandboxes import sandbox_on
from support.guests.hostile_program import read_programs

pytestmark = pytest.mark.engine

PROGRAMS = Path(__file__).resolve().parents[2] / "escape" / "programs"
LIMITS = Limits(timeout_s=20, unit_timeout_s=10, memory_bytes=64 * 2**20, max_processes=6)
RETURNS = "def extract(path):\n    return {'path': path}\n"
WAITS = "import time\ndef extract(path):\n    print('begun', flush=True)\n    time.sleep(60)\n"


def spec(*sources: str, limits: Limits = LIMITS) -> RunSpec:
    """Return a spec with a unit for each text."""
    return RunSpec(
        image="python",
        limits=limits,
        imports=ImportPolicy(mode=ImportMode.OBSERVE),
        units=tuple(
            Unit(
                name=str(index), program=Program.CALL, arguments=_call(text), deadline_s=limits.unit_timeout_s
            )
            for index, text in enumerate(sources)
        ),
    )


def _call(source: str) -> dict[str, object]:
    call = {"source": source, "filename": "code.py", "function": "extract", "builtins": "full"}
    return {**call, "args": ["a"], "kwargs": {}}


class Begun(RunObserver):
    """Reports when a unit has printed something, that is, runs."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def output(self, index: int, stream: str, data: bytes) -> None:
        self.seen.set()


async def run(
    sandbox: Sandbox,
    planned: RunSpec,
    meanwhile: Callable[[Lease, Deadline], Awaitable[None]] | None = None,
    timeout_s: float = 20,
) -> RunResult:
    """Run a spec, and call a function while its first unit runs."""
    begun, deadline = Begun(), Deadline(timeout_s)
    async with sandbox.lease(planned) as lease, asyncio.TaskGroup() as group:
        running = group.create_task(sandbox.run(lease, deadline, begun))
        if meanwhile is not None:
            await begun.seen.wait()
            await meanwhile(lease, deadline)
        return await running


@pytest.fixture(params=["docker", pytest.param("oci", marks=needs_oci)])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    made = made_engine(request, request.param)
    yield made
    await made.close()


def test_causes_that_a_guest_can_bring_about_have_programs() -> None:
    shown = {program.cause for program in read_programs(PROGRAMS)}
    assert set(Cause) - shown == {Cause.CANCELLED, Cause.INFRASTRUCTURE}


async def test_completed_run_names_its_container(engine: Engine) -> None:
    async with sandbox_on(engine) as sandbox:
        result = await run(sandbox, spec(RETURNS, RETURNS))
    image = await engine.image("assayd/python")
    assert result.outcome.cause is Cause.COMPLETED
    assert result.container.image_digest == image.digest
    assert result.peak_memory_bytes > 0
    assert all(unit.usage.wall_s > 0 and unit.usage.peak_memory_bytes > 0 for unit in result.units)


async def test_unit_past_its_own_deadline_leaves_the_others_their_turn(engine: Engine) -> None:
    async with sandbox_on(engine) as sandbox:
        planned = spec(RETURNS, WAITS, RETURNS, limits=replace(LIMITS, unit_timeout_s=2))
        result = await run(sandbox, planned)
    causes = [unit.outcome.cause for unit in result.units]
    assert causes == [Cause.COMPLETED, Cause.TIMEOUT, Cause.COMPLETED]
    assert (result.end, result.outcome.cause) == (RunEndReason.FINISHED, Cause.TIMEOUT)
    assert result.units[1].stdout.head == b"begun\n"


async def test_attempt_past_its_deadline_keeps_what_came_and_starts_no_more(engine: Engine) -> None:
    async with sandbox_on(engine) as sandbox:
        result = await run(sandbox, spec(RETURNS, WAITS, RETURNS), timeout_s=3)
    first, second = result.units
    assert (result.end, result.outcome.cause) == (RunEndReason.DEADLINE, Cause.TIMEOUT)
    assert first.outcome.cause is Cause.COMPLETED
    assert (second.end, second.outcome.cause) == (UnitEndReason.INTERRUPTED, Cause.TIMEOUT)
    assert second.stdout.head == b"begun\n"


async def test_cancelled_run_keeps_what_came(engine: Engine) -> None:
    async def cancel(lease: Lease, deadline: Deadline) -> None:
        deadline.cancel()

    async with sandbox_on(engine) as sandbox:
        result = await run(sandbox, spec(WAITS), cancel)
    assert (result.end, result.outcome.cause) == (RunEndReason.CANCELLED, Cause.CANCELLED)
    assert result.units[0].stdout.head == b"begun\n"


async def test_run_cancelled_before_it_begins_starts_nothing(engine: Engine) -> None:
    async with sandbox_on(engine) as sandbox, sandbox.lease(spec(RETURNS)) as lease:
        deadline = Deadline(20)
        deadline.cancel()
        result = await sandbox.run(lease, deadline)
    assert result.outcome.cause is Cause.CANCELLED
    assert all(unit.end is UnitEndReason.INTERRUPTED for unit in result.units)


async def test_results_that_are_too_large_together_are_an_output_limit(engine: Engine) -> None:
    large = "def extract(path):\n    return 'x' * 300_000\n"
    async with sandbox_on(engine) as sandbox:
        planned = spec(large, large, RETURNS, limits=replace(LIMITS, attempt_result_bytes=500_000))
        result = await run(sandbox, planned)
    assert result.outcome.cause is Cause.OUTPUT_LIMIT
    assert [unit.outcome.cause for unit in result.units][:2] == [Cause.COMPLETED, Cause.OUTPUT_LIMIT]


@pytest.fixture
async def other(request: pytest.FixtureRequest, engine: Engine) -> AsyncIterator[Engine]:
    """Return another engine of the same kind, like another program's on this host."""
    made = made_engine(request, "oci" if isinstance(engine, OciEngine) else "docker")
    yield made
    await made.close()


async def test_runner_killed_from_the_host_is_infrastructure_where_the_kernel_is_known_to_have_killed_nobody(
    engine: Engine, other: Engine
) -> None:

    async def kill(lease: Lease, deadline: Deadline) -> None:
        await other.kill(lease.container.ref)

    async with sandbox_on(engine) as sandbox:
        known = await run(sandbox, spec(WAITS), kill)
        sandbox.counts_container_kills, sandbox.oom_kills = True, lambda: 7
        result = await run(sandbox, spec(WAITS), kill)
    assert (result.end, result.outcome.cause) == (RunEndReason.LOST, Cause.INFRASTRUCTURE)
    assert (result.outcome.evidence["exit_code"], known.outcome.cause) == (137, Cause.OUT_OF_MEMORY)


async def test_container_removed_from_the_host_is_infrastructure(engine: Engine, other: Engine) -> None:

    async def remove(lease: Lease, deadline: Deadline) -> None:
        await other.remove(lease.container.ref)

    async with sandbox_on(engine) as sandbox:
        sandbox.counts_container_kills, sandbox.oom_kills = True, lambda: 7
        result = await run(sandbox, spec(WAITS), remove)
    assert (result.end, result.outcome.cause) == (RunEndReason.LOST, Cause.INFRASTRUCTURE)


async def test_engine_that_goes_away_is_infrastructure_and_its_container_is_swept(
    docker_host: str, tmp_path: Path
) -> None:
    with CuttableEngine(tmp_path / "e", docker_host) as proxy:
        proxy.restore()
        engine = DockerEngine(base_url=proxy.url)

        async def cut(lease: Lease, deadline: Deadline) -> None:
            proxy.refuse()

        async with sandbox_on(engine, sweep=True) as sandbox:
            result = await run(sandbox, spec(WAITS), cut)
            proxy.restore()
        await engine.close()
    assert result.outcome.cause is Cause.INFRASTRUCTURE


async def test_image_that_is_not_there_is_our_trouble(engine: Engine) -> None:
    async with sandbox_on(engine) as sandbox:
        with pytest.raises(EngineError, match="images build"):
            await run(sandbox, replace(spec(RETURNS), image="absent"))
