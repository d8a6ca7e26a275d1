"""No cheating solution is validated, scored above what it computes, or sees anything of its tests.

Each program below `cheats/` says in its first line what it tries, and prints ``SEEN …`` if it got anything.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assayd.kinds.solution.payload import SolutionPayload
from assayd.kinds.solution.validator import validator
from assayd.model.report import Judgement
from assayd.model.run import Cause, Limits, RunResult
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.sandbox.sandbox import Sandbox
from support.engines.oci import made_engine, needs_oci
from support.engines.sandboxes import run, sandbox_on

FOLDER = Path(__file__).parent / "cheats"
CHEATS = sorted(FOLDER.glob("*/*.py"))
OF_EACH_FAMILY = sorted({cheat.parent: cheat for cheat in reversed(CHEATS)}.values())
"""What Docker runs: the guest code is the same on both engines, and its containers take ten times as long."""
AT_ONCE = 3
LIMITS = Limits(timeout_s=40, unit_timeout_s=1, memory_bytes=256 * 2**20, max_processes=8)
REFERENCE = "def total(values):\n    return sum(values)\n"
SECRET = "hidden-4711"
CHECK, CLASSES = (FOLDER.joinpath(name).read_text(encoding="utf-8") for name in ("check.py", "classes.py"))


async def _judged(sandbox: Sandbox, code: str, tests: str) -> tuple[RunResult, Judgement]:
    policy = load_policies([get_shared_data_path("policies")]).get("solution")
    payload = SolutionPayload(code=code, entry_point="total", tests=tests)
    prepared = validator.prepare(payload)
    result = await run(sandbox, validator.plan(prepared, policy, LIMITS))
    return result, validator.judge(prepared, policy, result)


async def _problem(sandbox: Sandbox, cheat: Path, tests: str) -> str:
    """Return what a cheat has reached; nothing if it was held."""
    result, judgement = await _judged(sandbox, cheat.read_text(), tests)
    printed = "".join(unit.stdout.text() + unit.stderr.text() for unit in result.units)
    reached = [line for line in printed.splitlines() if "SEEN" in line or SECRET in line]
    passed = not any(finding.is_error for finding in judgement.stage_findings["sandbox"])
    wrong = [f"score {judgement.score}"] if judgement.score else []
    wrong += ["our error"] if result.outcome.cause is Cause.INFRASTRUCTURE else []
    return "; ".join([*reached[:3], *wrong, *(["validated"] if passed else [])])


@pytest.mark.parametrize(
    ("kind", "cheats"),
    [
        pytest.param("docker", OF_EACH_FAMILY, marks=pytest.mark.engine, id="docker"),
        pytest.param("oci-templates", CHEATS, marks=needs_oci, id="oci-templates"),
    ],
)
@pytest.mark.parametrize("tests", [CHECK, CLASSES], ids=["check", "unittest"])
@pytest.mark.asyncio
async def test_cheats_score_nothing_and_see_nothing(
    request: pytest.FixtureRequest, kind: str, cheats: list[Path], tests: str
) -> None:
    engine = made_engine(request, kind)
    places = asyncio.Semaphore(AT_ONCE)

    async def tried(sandbox: Sandbox, cheat: Path) -> tuple[str, str]:
        async with places:
            return f"{cheat.parent.name}/{cheat.stem}", await _problem(sandbox, cheat, tests)

    try:
        async with sandbox_on(engine, ready=AT_ONCE) as sandbox:
            _, reference = await _judged(sandbox, REFERENCE, tests)
            problems = dict(await asyncio.gather(*(tried(sandbox, cheat) for cheat in cheats)))
    finally:
        await engine.close()
    assert reference.score == 1.0
    assert len(problems) == len(cheats)
    assert {name: problem for name, problem in problems.items() if problem} == {}
