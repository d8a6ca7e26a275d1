"""All hostile programs in one sandbox, a few at a time, and a final table of their ends."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from assayd.errors import AssaydError
from assayd.model.run import RunResult
from assayd.ports.engine import Engine
from assayd.sandbox.sandbox import Sandbox
from support.engines.oci import made_engine, needs_oci
from support.engines.sandboxes import run, sandbox_on
from support.guests.hostile_program import HostileProgram

WARM = 4
AT_ONCE = 3
ENDED = "ended"

Ends = Mapping[str, asyncio.Future[RunResult]]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave to `make test-system` what meets the runner's walls, and would meet them on a second engine."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    program = parameters.get("program")
    if program is not None and parameters.get("ends") == "docker" and os.geteuid() == 0:
        if not program.tries_the_engine:
            item.add_marker(pytest.mark.system)


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        pytest.param("docker", marks=pytest.mark.engine),
        pytest.param("oci", marks=[needs_oci, pytest.mark.system]),  # by default there are templates
        pytest.param("oci-templates", marks=needs_oci),
    ],
)
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[Ends]:
    """Start every selected program; return the future result of each, by name."""
    loop = asyncio.get_running_loop()
    programs = _programs(request.session.items, request.param)
    engine = made_engine(request, request.param)
    coming: Ends = {program.name: loop.create_future() for program in programs}
    opened, done = loop.create_future(), asyncio.Event()
    # A task group must be left by the task that entered it, and a fixture has two.
    keeper = asyncio.ensure_future(_run_all(engine, programs, coming, opened, done))
    await asyncio.wait({opened, keeper}, return_when=asyncio.FIRST_COMPLETED)
    if not keeper.done():
        yield coming
        done.set()
    await keeper


def _programs(items: list[pytest.Item], engine: str) -> list[HostileProgram]:
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    found = [each.get("program") for each in parameters if each.get("ends") == engine]
    return [program for program in found if isinstance(program, HostileProgram)]


async def _run_all(
    engine: Engine,
    programs: list[HostileProgram],
    coming: Ends,
    opened: asyncio.Future[None],
    done: asyncio.Event,
) -> None:
    places = asyncio.Semaphore(AT_ONCE)
    try:
        async with sandbox_on(engine, ready=WARM) as sandbox, asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run_one(sandbox, p, places, coming[p.name])) for p in programs]
            opened.set_result(None)
            await done.wait()
            for task in tasks:
                task.cancel()
    finally:
        await engine.close()


async def _run_one(
    sandbox: Sandbox, program: HostileProgram, places: asyncio.Semaphore, end: asyncio.Future[RunResult]
) -> None:
    async with places:
        try:
            end.set_result(await run(sandbox, program.spec()))
        except AssaydError as problem:
            end.set_exception(problem)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many programs of each family ran, how many were contained, and how they ended."""
    tried: dict[str, Counter[str]] = defaultdict(Counter)
    held: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for family, cause in (value for name, value in report.user_properties if name == ENDED):
                tried[family][cause] += 1
                held[family] += outcome == "passed"
    if tried:
        terminalreporter.section("hostile programs")
        for family, causes in [*sorted(tried.items()), ("all", sum(tried.values(), Counter()))]:
            ends = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
            count = held.total() if family == "all" else held[family]
            terminalreporter.line(f"{family:<12} {count:>4} of {causes.total():<4} held: {ends}")
