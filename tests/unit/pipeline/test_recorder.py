"""The records of pipelines are written with the attempts, in their transactions, without blocking them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from assayd.documents import add_payload_fields, read_submission
from assayd.errors import RequestError
from assayd.kinds.registry import load_own_validators
from assayd.model.records import AttemptEvent
from assayd.model.report import Case, CaseStatus, Verdict
from assayd.model.submission import Peer
from assayd.store.jobs import DatabaseJobStore, open_job_store
from assayd_pipeline.stored import (
    PipelineQuery,
    PipelineReader,
    PipelineRecorder,
    PipelineStatus,
    StoredPipeline,
)
from support.stores.empty_database import lay_database

Make = Any  # the fixture's class; test folders are not a package

STEPS = (
    {"name": "clean", "type": "bash", "content": "cat data/a"},
    {"name": "load", "type": "sql", "content": "SELECT 1"},
)
PASSED = Case(name="clean", status=CaseStatus.PASSED, stdout="out", exit_code=0, duration_s=0.0126)
FAILED = Case(name="load", status=CaseStatus.FAILED, stderr="no such table\0", exit_code=1, duration_s=0.5)


@pytest.fixture
async def jobs(tmp_path: Path, database_url: str | None) -> AsyncIterator[DatabaseJobStore]:
    if database_url is None:
        lay_database(tmp_path)
    async with open_job_store(tmp_path, database_url, recorders=(PipelineRecorder(),)) as store:
        yield store


@pytest.fixture
def pipelines(jobs: DatabaseJobStore) -> PipelineReader:
    return PipelineReader(jobs.access)


def document(steps: Sequence[object] = STEPS, pipeline_id: str | None = None) -> bytes:
    payload: dict[str, object] = {"steps": list(steps)}
    return json.dumps({"payload": payload | ({"pipeline_id": pipeline_id} if pipeline_id else {})}).encode()


async def submit(jobs: DatabaseJobStore, make: Make, number: int, text: bytes, **values: object) -> str:
    attempt = make.attempt(number, kind="pipeline", **values)
    await jobs.accept(attempt, text)
    return str(attempt.id)


async def finish(
    jobs: DatabaseJobStore, make: Make, number: int, *cases: Case, verdict: Verdict, **values: object
) -> None:
    events = [
        AttemptEvent(
            attempt_id=make.attempt(number).id,
            run_number=1,
            seq=index,
            kind="unit",
            at=make.attempt(number).created_at + timedelta(seconds=index),
            body={"index": index, "total": 3, "status": "started"},
        )
        for index in (1, 2, 3)  # the first is the unit that makes the database ready
    ]
    attempt = make.finished(number, kind="pipeline", verdict=verdict, **values)
    assert await jobs.finish(attempt, events, cases)


async def stored(pipelines: PipelineReader, pipeline_id: str) -> StoredPipeline:
    found = await pipelines.get(pipeline_id)
    assert found is not None
    return found


async def test_submission_makes_a_pipeline_with_its_steps(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline = await stored(pipelines, await submit(jobs, make, 1, document()))

    assert (pipeline.status, pipeline.uid) == (PipelineStatus.CREATED, 1000)
    assert [(step.position, step.name, step.type, step.content) for step in pipeline.steps] == [
        (1, "clean", "bash", "cat data/a"),
        (2, "load", "sql", "SELECT 1"),
    ]


async def test_attempt_of_another_kind_makes_none(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    await jobs.accept(make.attempt(1), b"{}")
    await jobs.lease(make.run(1, kind="pipeline"))
    await jobs.finish(make.finished(1))

    assert await pipelines.list(PipelineQuery()) == ()


async def test_step_that_was_refused_is_logged_with_the_reasons(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    """Regression: a blocked command stopped the pipeline without leaving a row."""
    pipeline_id = await submit(jobs, make, 1, document())
    refusals = ["Step 1 (clean): The command rm is blocked.", "Step 1 (clean): b", "The file ../x is bad."]
    attempt = make.finished(1, kind="pipeline", verdict=Verdict.FAILED)

    assert await jobs.finish(attempt, (), (), refusals)

    pipeline = await stored(pipelines, pipeline_id)
    [step] = pipeline.attempts[0].steps
    assert (step.step_id, step.position, step.name) == (pipeline.steps[0].id, 1, "clean")
    assert (step.is_successful, step.stderr) == (False, "The command rm is blocked.\nb")
    assert (step.run_time, step.exit_code, step.execution_time_ms) == (None, None, 0)


async def test_steps_that_ran_are_logged_with_every_field(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    await jobs.lease(make.run(1, kind="pipeline"))
    assert (await stored(pipelines, pipeline_id)).status is PipelineStatus.RUNNING

    await finish(jobs, make, 1, PASSED, FAILED, verdict=Verdict.FAILED)

    pipeline = await stored(pipelines, pipeline_id)
    assert pipeline.status is PipelineStatus.FAILED
    (attempt,) = pipeline.attempts
    assert (attempt.attempt_id, attempt.verdict) == (pipeline_id, "failed")
    first, second = attempt.steps
    assert (first.step_id, second.step_id) == tuple(step.id for step in pipeline.steps)
    assert first.run_time == make.attempt(1).created_at + timedelta(seconds=2)
    assert (first.is_successful, first.stdout, first.exit_code, first.execution_time_ms) == (
        True,
        "out",
        0,
        13,
    )
    assert (second.is_successful, second.stderr, second.exit_code) == (False, "no such table\ufffd", 1)
    assert {(step.pipeline_id, step.attempt_id) for step in attempt.steps} == {(pipeline_id, pipeline_id)}


async def test_steps_that_never_started_have_no_log(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    skipped = Case(name="load", status=CaseStatus.SKIPPED)
    await finish(jobs, make, 1, PASSED, skipped, verdict=Verdict.CANCELLED)

    (attempt,) = (await stored(pipelines, pipeline_id)).attempts
    assert [step.name for step in attempt.steps] == ["clean"]


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.VALIDATED, PipelineStatus.SUCCESS),
        (Verdict.FAILED, PipelineStatus.FAILED),
        (Verdict.ERROR, PipelineStatus.FAILED),
        (Verdict.CANCELLED, PipelineStatus.FAILED),
    ],
)
async def test_status_follows_the_verdict(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make, verdict: Verdict, status: PipelineStatus
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    await finish(jobs, make, 1, verdict=verdict)

    assert (await stored(pipelines, pipeline_id)).status is status


async def test_every_attempt_of_a_pipeline_names_it_and_others_name_none(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    first = await submit(jobs, make, 1, document())
    fixed = await submit(jobs, make, 2, document(), parent_id=first)

    assert await pipelines.find_groups(fixed) == {"pipeline_id": first}
    assert await pipelines.find_groups("01") == {}


async def test_repair_changes_its_step_and_the_status(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    await finish(jobs, make, 1, verdict=Verdict.FAILED)
    before = await stored(pipelines, pipeline_id)

    changed = [STEPS[0], {**STEPS[1], "content": "SELECT 2"}]
    await submit(jobs, make, 2, document(changed, pipeline_id), parent_id=pipeline_id)
    await finish(jobs, make, 2, PASSED, verdict=Verdict.VALIDATED, parent_id=pipeline_id)

    after = await stored(pipelines, pipeline_id)
    assert after.status is PipelineStatus.REPAIRED
    assert [step.content for step in after.steps] == ["cat data/a", "SELECT 2"]
    assert [step.id for step in after.steps] == [step.id for step in before.steps]
    assert [attempt.verdict for attempt in after.attempts] == ["validated", "failed"]
    assert after.updated_at > after.created_at


@pytest.mark.parametrize(("replay_of", "belongs"), [(None, True), ("01ARZ3NDEKTSV4RRFFQ69G5FAV", False)])
async def test_attempt_that_follows_one_of_a_pipeline_belongs_to_it_unless_it_is_a_replay(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make, replay_of: str | None, belongs: bool
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    await finish(jobs, make, 1, verdict=Verdict.FAILED)

    second = await submit(jobs, make, 2, document(STEPS[:1]), parent_id=pipeline_id, replay_of=replay_of)
    await finish(jobs, make, 2, PASSED, verdict=Verdict.VALIDATED, parent_id=pipeline_id)

    first = await stored(pipelines, pipeline_id)
    assert first.status is (PipelineStatus.REPAIRED if belongs else PipelineStatus.FAILED)
    assert (await pipelines.get(second) is None) == belongs


async def test_steps_beyond_the_new_ones_go_and_their_logs_stay(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    await finish(jobs, make, 1, PASSED, FAILED, verdict=Verdict.FAILED)
    await submit(jobs, make, 2, document(STEPS[:1], pipeline_id))

    pipeline = await stored(pipelines, pipeline_id)
    assert [step.name for step in pipeline.steps] == ["clean"]
    assert [(step.name, step.step_id is None) for step in pipeline.attempts[1].steps] == [
        ("clean", False),
        ("load", True),
    ]


async def test_list_is_newest_first_and_filtered(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    other = Peer(uid=7, gid=7, pid=7)
    ids = [await submit(jobs, make, 1, document()), await submit(jobs, make, 2, document(), peer=other)]
    await finish(jobs, make, 1, verdict=Verdict.VALIDATED)

    async def listed(**query: object) -> list[str]:
        return [found.id for found in await pipelines.list(PipelineQuery(**query))]  # type: ignore[arg-type]

    assert await listed() == ids[::-1]
    assert await listed(uid=7) == ids[1:]
    assert await listed(status=PipelineStatus.SUCCESS) == ids[:1]
    assert await listed(attempt_id=ids[0]) == ids[:1]
    assert await listed(limit=1) == ids[1:]
    assert await listed(before=ids[1]) == ids[:1]


async def test_pipeline_goes_with_its_last_attempt(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    second = await submit(jobs, make, 2, document(pipeline_id=pipeline_id))
    await finish(jobs, make, 1, PASSED, verdict=Verdict.VALIDATED)

    await jobs.remove([pipeline_id])
    assert [a.attempt_id for a in (await stored(pipelines, pipeline_id)).attempts] == [second]
    await jobs.remove([second])
    assert await pipelines.get(pipeline_id) is None


async def test_records_that_cannot_be_written_are_tried_twice_and_the_verdict_stands(
    jobs: DatabaseJobStore, make: Make
) -> None:
    attempt_id = await submit(jobs, make, 1, document())
    await jobs.access.write(lambda connection: connection.execute(text("DROP TABLE execution_logs")).close())

    with capture_logs() as logs:
        await finish(jobs, make, 1, PASSED, verdict=Verdict.VALIDATED)

    finished = await jobs.get(attempt_id)
    assert finished is not None
    assert finished.verdict is Verdict.VALIDATED
    told = [(entry["event"], entry["step"], entry["tried"]) for entry in logs]
    assert told == [("records.not_written", "finish", 1), ("records.not_written", "finish", 2)]


def submission(payload: dict[str, object]) -> Any:
    return read_submission(
        json.dumps({"kind": "pipeline", "payload": payload}).encode(), load_own_validators()
    )


async def test_submission_that_names_a_pipeline_gets_its_steps(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    named = submission({"pipeline_id": pipeline_id, "files": {"data/a": "1"}})

    fields = await pipelines.complete(named, 1000)

    assert fields is not None
    completed = add_payload_fields(named.document, fields, load_own_validators())
    payload = json.loads(completed.document)["payload"]
    assert payload == {"pipeline_id": pipeline_id, "files": {"data/a": "1"}, "steps": list(STEPS)}
    assert [step.name for step in completed.payload.steps] == ["clean", "load"]
    assert completed.input_digest != named.input_digest


async def test_submission_with_steps_of_its_own_stays_as_it_is(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    pipeline_id = await submit(jobs, make, 1, document())
    named = submission({"pipeline_id": pipeline_id, "steps": [STEPS[1]]})

    assert await pipelines.complete(named, 1000) is None


async def test_unknown_pipeline_whose_steps_come_from_a_gateway_is_new(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    unknown = "0" * 26
    named = submission({"pipeline_id": unknown, "steps": [STEPS[1]]})
    assert await pipelines.complete(named, 1000, from_gateway=True) is None
    attempt_id = await submit(jobs, make, 1, document(pipeline_id=unknown))
    assert await pipelines.find_groups(attempt_id) == {"pipeline_id": unknown}


async def test_attempt_does_not_join_another_users_pipeline_with_its_id(
    jobs: DatabaseJobStore, pipelines: PipelineReader, make: Make
) -> None:
    named = str(make.attempt(2).id)
    await submit(jobs, make, 1, document([STEPS[0]], named), peer=Peer(uid=1001, gid=1001, pid=1))
    await submit(jobs, make, 2, document([STEPS[1]]))
    stored = await pipelines.get(named)
    assert stored is not None
    assert (stored.uid, [step.name for step in stored.steps]) == (1001, ["clean"])


@pytest.mark.parametrize("steps", [{}, {"steps": [STEPS[1]]}], ids=["without steps", "with steps"])
@pytest.mark.parametrize(("pipeline_id", "uid"), [("0" * 26, 1000), (None, 1001)], ids=["none", "another's"])
async def test_pipeline_that_one_may_not_use_is_unknown(
    jobs: DatabaseJobStore,
    pipelines: PipelineReader,
    make: Make,
    pipeline_id: str | None,
    uid: int,
    steps: dict[str, object],
) -> None:
    there = await submit(jobs, make, 1, document())
    wanted = pipeline_id or there

    with pytest.raises(RequestError) as caught:
        await pipelines.complete(submission({"pipeline_id": wanted, **steps}), uid)
    assert (caught.value.code, caught.value.field) == ("pipeline.unknown", "payload.pipeline_id")
    assert caught.value.message == f"pipeline {wanted} doesn't exist"
    assert await pipelines.complete(submission({"pipeline_id": there}), 0)
