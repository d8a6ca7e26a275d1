"""Every hostile program ends as its first line says, without an escape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from assayd.documents import canonical
from assayd.documents.execution import build_execution_document
from assayd.model.run import RunResult
from support.guests.hostile_program import HostileProgram, escapes, read_programs

PROGRAMS = read_programs(Path(__file__).parent / "programs")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
async def test_program_ends_as_expected_and_escapes_nothing(
    ends: Mapping[str, asyncio.Future[RunResult]],
    program: HostileProgram,
    record_property: Callable[[str, object], None],
) -> None:
    result = await ends[program.name]
    record_property("ended", (program.family, result.outcome.cause.value))
    found = program.found(result)
    wrong = [str(fact) for fact in program.facts if not fact.holds(found)]
    assert (result.outcome.cause, wrong, list(escapes(result))) == (program.cause, [], []), found
    # Whatever the guest made of its output and events, a bundle can be written of it.
    spec = program.spec()
    assert canonical(build_execution_document(result, limits=spec.limits, network=spec.network))
