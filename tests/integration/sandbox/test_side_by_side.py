"""Many paths in two containers: the report is in order, and each call sees only its own data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from assayd.aio import Deadline
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.model.run import Cause, Limits, Program, RunEndReason, RunResult, RunSpec, Unit
from assayd.ports.engine import Engine
from assayd.sandbox.pool_decisions import RESERVED_COUNT
from assayd.sandbox.sandbox import MIN_UNITS, Sandbox
from support.engines.oci import make_one_engine
from support.engines.sandboxes import sandbox_on

pytestmark = pytest.mark.engine

LIMITS = Limits(timeout_s=30, unit_timeout_s=10, memory_bytes=64 * 2**20, max_processes=2)
MARKS = """\
import builtins, os
def extract(path):
    seen = sorted(os.listdir('.')), hasattr(builtins, 'mark')
    builtins.mark = open(path, 'w')
    return {'path': path, 'seen': seen}
"""
RETURNS = "def extract(path):\n    return {}\n"
ALLOCATES = "def extract(path):\n    if path == 'last':\n        held = bytearray(10**9)\n    return {}\n"


@pytest.fixture
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    made = make_one_engine(request)
    yield made
    await made.close()


def spec(source: str, *paths: str) -> RunSpec:
    """Plan a call for each path."""
    call = {"source": source, "filename": "code.py", "function": "extract", "builtins": "full", "kwargs": {}}
    return RunSpec(
        image="python",
        limits=LIMITS,
        imports=ImportPolicy(mode=ImportMode.OBSERVE),
        units=tuple(
            Unit(name=path, program=Program.CALL, arguments={**call, "args": [path]}, deadline_s=10)
            for path in paths
        ),
        independent_units=True,
    )


@asynccontextmanager
async def warm(engine: Engine, planned: RunSpec) -> AsyncIterator[Sandbox]:
    """Return a sandbox in which more containers for this spec are idle than are reserved."""
    async with sandbox_on(engine, ready=RESERVED_COUNT + 2, processors=2) as sandbox:
        sandbox.pool.demand.keep(frozenset({await sandbox.key(planned)}))
        sandbox.pool.schedule_update()
        async with asyncio.timeout(60):
            while len(sandbox.pool.state().idle) < RESERVED_COUNT + 2:
                await asyncio.sleep(0.01)
        yield sandbox


async def run_in_two(sandbox: Sandbox, planned: RunSpec) -> RunResult:
    """Run a spec in two containers."""
    async with sandbox.lease(planned) as lease:
        assert lease.further is not None
        return await sandbox.run(lease, Deadline(30))


async def test_many_paths_run_in_two_containers_and_no_call_sees_another(engine: Engine) -> None:
    paths = [f"path-{number}" for number in range(MIN_UNITS + 1)]
    planned = spec(MARKS, *paths)
    async with warm(engine, planned) as sandbox:
        result = await run_in_two(sandbox, planned)
    values = [json.loads(unit.results[0])["value"] for unit in result.units]
    assert (result.end, result.outcome.cause) == (RunEndReason.FINISHED, Cause.COMPLETED)
    assert values == [{"path": path, "seen": [[], False]} for path in paths]


async def test_each_container_has_the_attempts_memory_limit(engine: Engine) -> None:
    planned = spec(ALLOCATES, *map(str, range(MIN_UNITS - 1)), "last")
    async with warm(engine, planned) as sandbox:
        result = await run_in_two(sandbox, planned)
    assert result.outcome.cause is not Cause.COMPLETED
    assert [unit.outcome.cause for unit in result.units[:-1]] == [Cause.COMPLETED] * (MIN_UNITS - 1)


async def test_a_cancelled_run_ends_in_both_containers(engine: Engine) -> None:
    planned = spec(RETURNS, *map(str, range(MIN_UNITS)))
    async with warm(engine, planned) as sandbox, sandbox.lease(planned) as lease:
        assert lease.further is not None
        deadline = Deadline(30)
        deadline.cancel()
        result = await sandbox.run(lease, deadline)
    assert result.outcome.cause is Cause.CANCELLED
    assert [unit.name for unit in result.units] == ["0"]


async def test_a_run_without_a_free_processor_has_one_container(engine: Engine) -> None:
    planned = spec(RETURNS, *map(str, range(MIN_UNITS)))
    async with (
        warm(engine, planned) as sandbox,
        sandbox.lease(planned) as two,
        sandbox.lease(planned) as one,
    ):
        assert two.further is not None
        assert one.further is None
