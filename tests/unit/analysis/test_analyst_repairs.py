"""The part of analysis workers in repairs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assayd.analysis.analyst import AnalysisLimits, Analyst, WorkerDiedError
from assayd.analysis.messages import FailedSubmission, PatchRequest
from assayd.kinds import registry as validators
from assayd.model.prompting import Proposal
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

pytestmark = pytest.mark.asyncio(loop_scope="module")

POLICY = load_policies([get_shared_data_path("policies")]).get("extractor")
EXTRACTOR = validators.find_validator("extractor")
CODE = "def extract(path):\n    return path\n"
REPORT: dict[str, object] = {"stage_reached": "sandbox", "retry_context": "It gave str."}


def submitted(code: str = CODE) -> dict[str, object]:
    return {"code": code, "sample_paths": ["/a/b.csv"]}


def fix(code: str) -> PatchRequest:
    return PatchRequest(payload=submitted(), passage="code", proposal=Proposal(code=code))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def analyst() -> AsyncIterator[Analyst]:
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        yield analyst


async def test_a_fix_is_asked_for_with_the_code_the_failure_and_the_paths(analyst: Analyst) -> None:
    failed = FailedSubmission(payload=submitted(f"Sure!\n```python\n{CODE}```\n"), report=REPORT)
    described = await analyst.describe(EXTRACTOR, failed, POLICY)
    assert described.context.passage.text == CODE
    assert described.context.failure == "It gave str."
    assert described.context.surroundings[0].text == "/a/b.csv"


async def test_a_fix_takes_the_place_of_the_code(analyst: Analyst) -> None:
    patched = await analyst.patch(EXTRACTOR, fix("x = 1\n"))
    assert patched.payload == {"code": "x = 1\n", "sample_paths": ["/a/b.csv"]}


@pytest.mark.parametrize(
    ("code", "same"),
    [
        ("def extract( path ):  # again\n\n    return path\n", True),
        (f"```python\n{CODE}```", True),
        ("def extract(path):\n    return {'path': path}\n", False),
        ("def extract(path)\n    return path\n", False),
    ],
)
async def test_only_layout_comments_and_fences_leave_the_digest_as_it_is(
    analyst: Analyst, code: str, same: bool
) -> None:
    before = await analyst.describe(EXTRACTOR, FailedSubmission(payload=submitted(), report=REPORT), POLICY)
    after = await analyst.patch(EXTRACTOR, fix(code))
    assert (before.digest == after.digest) is same


@pytest.mark.slow
async def test_a_fix_that_is_too_much_to_read_takes_only_its_own_job() -> None:
    async with Analyst(AnalysisLimits(workers=1, wall_s=0.0)).running() as slow:
        with pytest.raises(WorkerDiedError):
            await slow.describe(EXTRACTOR, FailedSubmission(payload=submitted(), report=REPORT), POLICY)
