"""Analysis workers are forked by one parent, which is replaced when it becomes unusable."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from assayd.analysis.analyst import UNANALYSABLE_RULE, AnalysisLimits, Analyst
from assayd.kinds import registry as validators
from assayd.model.policy import ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

EXTRACTOR = validators.find_validator("extractor")
GOOD = "def extract(path: str) -> dict:\n    return {'path': path}\n"


@pytest.fixture(scope="module")
def policy() -> ExecutionPolicy:
    return load_policies([get_shared_data_path("policies")]).get("extractor")


def children(pid: int) -> set[int]:
    """Return the children of all threads of a process."""
    lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return {int(child) for each in lists for child in each.split()}


def parents_of_workers() -> set[int]:
    """Return the children of this process that have forked workers."""
    return {child for child in children(os.getpid()) if children(child)}


async def rules(analyst: Analyst, policy: ExecutionPolicy) -> list[str]:
    submitted = EXTRACTOR.payload.model_validate({"code": GOOD, "sample_paths": ["/a"]})
    checked = await analyst.check(EXTRACTOR, submitted, policy)
    return [finding.rule for stage in checked.stages for finding in stage.findings]


@pytest.mark.slow
async def test_workers_have_one_parent() -> None:
    before = parents_of_workers()
    async with Analyst(AnalysisLimits(workers=2)).running():
        (parent,) = parents_of_workers() - before
        assert len(children(parent)) == 2
    assert parents_of_workers() == before


@pytest.mark.slow
async def test_worker_that_crashes_is_replaced_by_one_of_a_new_parent(policy: ExecutionPolicy) -> None:
    before = parents_of_workers()
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        (parent,) = parents_of_workers() - before
        (worker,) = children(parent)
        os.kill(worker, signal.SIGSEGV)

        first, second = await rules(analyst, policy), await rules(analyst, policy)

        (successor,) = parents_of_workers() - before
    assert (first, second) == ([UNANALYSABLE_RULE], [])
    assert successor != parent


@pytest.mark.slow
async def test_worker_that_is_killed_is_replaced_by_one_of_the_same_parent(policy: ExecutionPolicy) -> None:
    before = parents_of_workers()
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        (parent,) = parents_of_workers() - before
        (worker,) = children(parent)
        os.kill(worker, signal.SIGKILL)

        await rules(analyst, policy)

        assert parents_of_workers() - before == {parent}
        assert await rules(analyst, policy) == []


@pytest.mark.slow
async def test_parent_that_ends_is_replaced_and_blames_no_source(policy: ExecutionPolicy) -> None:
    before = parents_of_workers()
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        (parent,) = parents_of_workers() - before
        (worker,) = analyst.alive
        os.kill(parent, signal.SIGKILL)
        await worker.process.wait()

        assert await rules(analyst, policy) == []
