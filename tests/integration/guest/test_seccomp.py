"""The standard library in a unit, under the child's filter on top of the container's."""

from __future__ import annotations

import inspect
import json

import pytest

from assayd.engines.docker import DockerEngine
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.model.run import Cause, Limits, Program, RunSpec, Unit
from support.engines.sandboxes import run, sandbox_on
from support.guests import stdlib_tour

pytestmark = pytest.mark.engine

REFUSED = {"visit_asyncio", "visit_sockets", "visit_subprocess"}
"""What the child's filter takes away on purpose, where the profile allows neither network nor programs.

The stop at asyncio serves on loopback; an event loop by itself is a neighbour of the escape suite.
"""

LIMITS = Limits(timeout_s=60, unit_timeout_s=60, memory_bytes=256 * 2**20, max_processes=20)
TOUR = inspect.getsource(stdlib_tour) + (
    "\n\ndef extract(path):\n"
    "    return {stop: visited(stop) for stop in sorted(globals()) if stop.startswith('visit_')}\n"
)


async def test_the_standard_library_works_in_a_unit_but_for_sockets_and_programs(docker_host: str) -> None:
    call = {"source": TOUR, "filename": "tour.py", "function": "extract", "builtins": "full"}
    unit = Unit(
        name="tour",
        program=Program.CALL,
        arguments={**call, "args": ["a"], "kwargs": {}},
        deadline_s=60,
    )
    imports = ImportPolicy(mode=ImportMode.OBSERVE)
    engine = DockerEngine(base_url=docker_host)
    try:
        async with sandbox_on(engine) as sandbox:
            result = await run(
                sandbox, RunSpec(image="python", limits=LIMITS, units=(unit,), imports=imports)
            )
    finally:
        await engine.close()
    [toured] = result.units
    assert toured.outcome.cause is Cause.COMPLETED, (toured.outcome, toured.stderr.text())
    stops = json.loads(toured.results[0])["value"]
    assert {stop for stop, said in stops.items() if said != "ok"} == REFUSED, stops
    assert len(stops) > 10
