"""Analysis workers: their answers, and the death of one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from assayd.analysis.analyst import UNANALYSABLE_RULE, AnalysisLimits, Analyst
from assayd.analysis.processes import StartedWorker
from assayd.errors import AssaydError
from assayd.kinds import registry as validators
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import StageStatus
from assayd.model.text_limits import MAX_EDIT_CHARS
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXTRACTOR = validators.find_validator("extractor")
GOOD = "def extract(path: str) -> dict:\n    return {'path': path}\n"


def payload(code: str):
    return EXTRACTOR.payload.model_validate({"code": code, "sample_paths": ["/a"]})


async def static(analyst: Analyst, submitted, policy: ExecutionPolicy):
    return (await analyst.check(EXTRACTOR, submitted, policy)).stages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def analyst() -> AsyncIterator[Analyst]:
    """Return an analyst that all harmless tests share, because a worker takes half a second to start."""
    async with Analyst(AnalysisLimits(workers=2)).running() as analyst:
        yield analyst


@pytest.fixture(scope="module")
def policy() -> ExecutionPolicy:
    return load_policies([get_shared_data_path("policies")]).get("extractor")


async def test_good_source_passes_every_static_stage(analyst: Analyst, policy: ExecutionPolicy):
    stages = await static(analyst, payload(GOOD), policy)
    assert [(s.name, s.status) for s in stages] == [
        ("syntax", StageStatus.PASSED),
        ("security", StageStatus.PASSED),
        ("signature", StageStatus.PASSED),
    ]


async def test_stages_after_a_stopping_failure_are_skipped(analyst: Analyst, policy: ExecutionPolicy):
    stages = await static(analyst, payload("import subprocess\n" + GOOD), policy)
    assert [s.status for s in stages] == [StageStatus.PASSED, StageStatus.FAILED, StageStatus.SKIPPED]


async def test_stages_alone_have_the_findings_of_a_check(analyst: Analyst, policy: ExecutionPolicy):
    submitted = payload("import subprocess\n" + GOOD)
    checked, stages = (
        await static(analyst, submitted, policy),
        await analyst.stages(EXTRACTOR, submitted, policy),
    )
    assert [(s.status, s.findings) for s in stages] == [(s.status, s.findings) for s in checked]


async def test_a_large_source_travels_in_parts(analyst: Analyst, policy: ExecutionPolicy):
    filler = "# " + "x" * 100 + "\n"
    stages = await static(analyst, payload(filler * 9000 + GOOD), policy)
    assert all(s.status is StageStatus.PASSED for s in stages)


@pytest.mark.slow
async def test_workers_can_be_started_later_than_their_parent(policy: ExecutionPolicy):
    async with Analyst(AnalysisLimits(workers=1)).opened() as analyst:
        assert not analyst.alive
        await analyst.start_workers()
        stages = await static(analyst, payload(GOOD), policy)
    assert all(s.status is StageStatus.PASSED for s in stages)
    assert not analyst.alive


@pytest.mark.slow
async def test_a_worker_that_takes_too_long_takes_only_its_own_job(policy: ExecutionPolicy):
    lost: list[bool] = []
    slow = Analyst(AnalysisLimits(workers=1, wall_s=0.0), on_lost=lambda: lost.append(True))
    async with slow.running():
        stages = await static(slow, payload(GOOD), policy)
        assert [f.rule for s in stages for f in s.findings] == [UNANALYSABLE_RULE]
        assert [s.status for s in stages] == [StageStatus.FAILED, *[StageStatus.SKIPPED] * 2]
        assert lost == [True]
        assert len(slow.alive) == 1, "whoever comes next would wait for another to start"


@pytest.mark.slow
async def test_a_worker_that_dies_is_replaced(policy: ExecutionPolicy):
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        await analyst.check(EXTRACTOR, payload(GOOD), policy)
        [worker] = analyst.alive
        worker.process.kill()
        first = await static(analyst, payload(GOOD), policy)
        second = await static(analyst, payload(GOOD), policy)
    assert [f.rule for s in first for f in s.findings] == [UNANALYSABLE_RULE]
    assert all(s.status is StageStatus.PASSED for s in second)


async def test_nesting_that_breaks_parsers_is_a_finding(analyst: Analyst, policy: ExecutionPolicy):
    stages = await static(analyst, payload("x = " + "(" * 10_000 + ")" * 10_000), policy)
    assert stages[0].status is StageStatus.FAILED


async def test_an_answer_comes_back_as_the_code_that_will_run(analyst: Analyst, policy: ExecutionPolicy):
    answer = f"Sure, here it is:\n```python\n{GOOD}```\n"
    checked = await analyst.check(EXTRACTOR, payload(answer), policy)
    assert checked.payload.model_dump()["code"].strip() == GOOD.strip()
    assert not checked.failed


async def test_jobs_run_side_by_side(analyst: Analyst, policy: ExecutionPolicy):
    jobs = [static(analyst, payload(GOOD), policy) for _ in range(10)]
    results = await asyncio.gather(*jobs)
    assert all(s.status is StageStatus.PASSED for stages in results for s in stages)


@pytest.mark.slow
async def test_no_worker_outlives_the_analyst():
    async with Analyst(AnalysisLimits(workers=2)).running() as analyst:
        processes = [worker.process for worker in analyst.alive]
    assert [process.returncode for process in processes] == [-9, -9]


@pytest.mark.slow
async def test_user_with_much_to_read_leaves_a_worker_to_others(policy: ExecutionPolicy):
    async with Analyst(AnalysisLimits(workers=2)).running() as analyst:
        ended: list[str] = []

        async def check(name: str, user: int, flow: str) -> None:
            await analyst.check(EXTRACTOR, payload(GOOD + "x = [a.b]\n" * 3000), policy, flow=(user, flow))
            ended.append(name)

        async with asyncio.TaskGroup() as tasks:
            for number in range(6):
                tasks.create_task(check(f"crowd {number}", 1, f"flow {number}"))
            await asyncio.sleep(0)
            tasks.create_task(check("stranger", 2, ""))
    assert ended.index("stranger") <= 1


@pytest.mark.slow
async def test_edits_of_one_long_line_do_not_make_an_answer_too_long(policy: ExecutionPolicy):
    """Regression: each edit repeated its whole line, so 900 statements on one line took 128 MiB."""
    pipeline = validators.find_validator("pipeline")
    content = "CREATE TABLE t(a);" + " " * 100_000 + "CREATE TABLE t(a);" * 900
    submitted = pipeline.payload.model_validate({"steps": [{"name": "a", "type": "sql", "content": content}]})
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        checked = await analyst.check(
            pipeline, submitted, load_policies([get_shared_data_path("policies")]).get("pipeline")
        )
    found = [finding for stage in checked.stages for finding in stage.findings]
    assert {finding.rule for finding in found} == {"sql.if_not_exists"}
    edits = [finding.edit for finding in found if finding.edit is not None]
    assert 0 < sum(len(edit.replacement) for edit in edits) <= MAX_EDIT_CHARS


@pytest.mark.slow
async def test_job_that_uses_up_its_processor_time_ends_as_one_that_cannot_be_analysed(
    policy: ExecutionPolicy,
):
    pipeline = validators.find_validator("pipeline")
    seconds_of_work = "if [ $a = b ]; then echo $c | tr a b; fi\n" * 3000
    steps = [{"name": f"s{number}", "type": "bash", "content": seconds_of_work} for number in range(10)]
    submitted = pipeline.payload.model_validate({"steps": steps})
    async with Analyst(AnalysisLimits(workers=1, cpu_s=0.0)).running() as analyst:
        checked = await analyst.check(
            pipeline, submitted, load_policies([get_shared_data_path("policies")]).get("pipeline")
        )
        after = await static(analyst, payload(GOOD), policy)
    assert [f.rule for s in checked.stages for f in s.findings] == [UNANALYSABLE_RULE]
    assert all(s.status is StageStatus.PASSED for s in after)


@pytest.mark.slow
async def test_answer_that_is_too_long_is_the_sources_doing(
    policy: ExecutionPolicy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("assayd.analysis.analyst.MAX_ANSWER_BYTES", 10)
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        stages = await static(analyst, payload(GOOD), policy)
    assert [f.rule for s in stages for f in s.findings] == [UNANALYSABLE_RULE]


@pytest.mark.slow
async def test_function_that_is_named_reads_text_in_a_worker(analyst: Analyst) -> None:
    answer = await analyst.read("assayd_workflows.reading:read_document", b"nodes: [")

    assert b"workflow.syntax" in answer


@pytest.mark.slow
async def test_source_is_not_blamed_for_a_worker_that_dies_while_it_starts(
    policy: ExecutionPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        [worker] = analyst.alive
        worker.process.kill()
        await worker.process.wait()
        fork = analyst._parents.fork

        async def stillborn() -> StartedWorker:
            started = await fork()
            started.process.kill()
            started.stream.close()
            ours, theirs = socket.socketpair()
            theirs.close()
            return replace(started, stream=ours)

        monkeypatch.setattr(analyst._parents, "fork", stillborn)
        with pytest.raises(AssaydError) as caught:
            await static(analyst, payload(GOOD), policy)
        assert caught.value.code == "analysis.unavailable"
        assert not analyst.alive
        monkeypatch.undo()
        stages = await static(analyst, payload(GOOD), policy)
    assert all(stage.status is StageStatus.PASSED for stage in stages)
