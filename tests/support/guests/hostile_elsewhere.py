"""Hostile programs in images other than the one they were written for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from assayd.model.run import Unit
from assayd.sandbox.sandbox import Sandbox
from support.engines.sandboxes import run
from support.guests.hostile_program import HostileProgram, escapes

AT_ONCE = 3
OURS = ("/usr/bin/python3.11", "/usr/lib/python3.11")


def elsewhere(programs: Sequence[HostileProgram], *, ours: bool = True) -> list[HostileProgram]:
    """Return those that do not need the image `adapter`, which modules run in.

    Where an image does not have the Python of ours, those are left out as well that name it by its path.
    """
    found = [program for program in programs if program.settings["program"] != "module"]
    return [program for program in found if ours or not any(path in program.source for path in OURS)]


async def wrongly_ended(
    sandbox: Sandbox,
    image: str,
    programs: Sequence[HostileProgram],
    *,
    harmless: Callable[[str], bool],
    python: str | None = None,
) -> list[str]:
    """Run programs in an image, and return a sentence for each that ended otherwise than it says.

    Args:
        harmless: whether what a program says it got through is of the image itself.
        python: what is started where programs start ours; None for an image that has it.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def one(program: HostileProgram) -> str | None:
        async with places:
            return await _complaint(sandbox, image, program, harmless=harmless, python=python)

    found = await asyncio.gather(*map(one, programs))
    return [complaint for complaint in found if complaint is not None]


async def _complaint(
    sandbox: Sandbox,
    image: str,
    program: HostileProgram,
    *,
    harmless: Callable[[str], bool],
    python: str | None,
) -> str | None:
    spec = replace(program.spec(), image=image)
    if python is not None:
        spec = replace(spec, units=tuple(_with_python(unit, python) for unit in spec.units))
    result = await run(sandbox, spec)
    got = [one for one in escapes(result) if not harmless(one)]
    known = program.found(result)
    wrong = [str(fact) for fact in program.facts if not fact.holds(known)]
    if result.outcome.cause is program.cause and not got and not wrong:
        return None
    said = f"ended as {result.outcome.cause}, not {program.cause}; got through {got}; does not hold: {wrong}"
    return f"{program.name}: {said}"


def _with_python(unit: Unit, python: str) -> Unit:
    argv = unit.arguments.get("argv")
    if not isinstance(argv, list) or not str(argv[0]).endswith("python3.11"):
        return unit
    return replace(unit, arguments={**unit.arguments, "argv": [python, *argv[1:]]})
