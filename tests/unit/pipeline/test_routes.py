from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from assayd.ports.chains import AttemptFix, NoChains
from assayd_pipeline.documents import PipelineDetailDocument, PipelinePageDocument
from assayd_pipeline.stored import (
    PipelineAttempt,
    PipelineStatus,
    PipelineStep,
    StepRun,
    StoredPipeline,
)

START = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)


def stored(number: int = 1, uid: int = 1000) -> StoredPipeline:
    pipeline_id = f"01JTC8ZK5V00000000000000{number:02d}"
    run = StepRun(
        pipeline_id=pipeline_id,
        step_id=7,
        attempt_id=pipeline_id,
        position=1,
        name="load",
        run_time=START,
        is_successful=False,
        stdout="out",
        stderr="no such table: t",
        exit_code=1,
        execution_time_ms=12,
    )
    attempt = PipelineAttempt(
        attempt_id=pipeline_id, verdict="failed", created_at=START, parent_id=None, steps=(run,)
    )
    return StoredPipeline(
        id=pipeline_id,
        uid=uid,
        status=PipelineStatus.FAILED,
        created_at=START,
        updated_at=START,
        steps=(PipelineStep(id=7, position=1, name="load", type="sql", content="SELECT * FROM t"),),
        attempts=(attempt,),
    )


class KnownFixes:
    """As much of `ports.chains.Chains` as is needed."""

    def __init__(self, **known: AttemptFix) -> None:
        self._known = known

    async def fix_of(self, attempt_id: str) -> AttemptFix | None:
        return self._known.get(attempt_id)


FIX = AttemptFix(
    repair_id="01R",
    number=2,
    provider="local",
    passage="1",
    reason="the table is called sales",
    hint="look at the schema",
)


@pytest.fixture
def held(app, service) -> Iterator[StoredPipeline]:
    pipeline = stored()
    service.stored_pipelines.held = {pipeline.id: pipeline}
    yield pipeline
    app.state.chains = NoChains()


async def test_pipeline_tells_which_fix_an_attempt_of_it_tries(app, connect, held) -> None:
    app.state.chains = KnownFixes(**{held.id: FIX})
    document = (await connect(1000).get(f"/v1/pipelines/{held.id}")).json()
    assert document["attempts"][0]["fix"] == {
        "repair_id": "01R",
        "number": 2,
        "provider": "local",
        "passage": "1",
        "reason": "the table is called sales",
        "hint": "look at the schema",
    }


async def test_pipeline_shows_its_steps_and_what_they_came_to(connect, held) -> None:
    document = (await connect(1000).get(f"/v1/pipelines/{held.id}")).json()

    assert PipelineDetailDocument.model_validate(document).model_dump(mode="json") == document
    assert document["steps"][0]["content"] == "SELECT * FROM t"
    (run,) = document["attempts"][0]["steps"]
    assert run == {
        "step_id": 7,
        "pipeline_id": held.id,
        "position": 1,
        "name": "load",
        "run_time": "2026-05-04T10:20:30.000000Z",
        "is_successful": False,
        "stdout": "out",
        "stderr": "no such table: t",
        "exit_code": 1,
        "execution_time_ms": 12,
    }


@pytest.mark.parametrize(("user", "status"), [((1001,), 404), ((0,), 200), ((1001, 500), 200)])
async def test_pipeline_is_for_its_owner_and_operators(connect, held, user, status) -> None:
    assert (await connect(*user).get(f"/v1/pipelines/{held.id}")).status_code == status


async def test_pipeline_that_is_not_there_is_not_found(connect, service) -> None:
    answer = await connect().get("/v1/pipelines/nothing")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_list_is_a_page_of_ones_own(connect, service) -> None:
    service.stored_pipelines.held = {one.id: one for one in (stored(1), stored(2), stored(3, uid=7))}

    page = (await connect(1000).get("/v1/pipelines", params={"limit": 2, "status": "failed"})).json()

    assert PipelinePageDocument.model_validate(page).model_dump(mode="json") == page
    assert [one["uid"] for one in page["pipelines"]] == [1000, 1000]
    assert page["next_cursor"] == page["pipelines"][-1]["id"]
    (query,) = service.stored_pipelines.queries
    assert (query.uid, query.status, query.limit) == (1000, "failed", 2)


async def test_list_of_an_operator_is_of_everybody_and_filtered(connect, service) -> None:
    page = (await connect(0).get("/v1/pipelines", params={"attempt": "01J", "cursor": "01K"})).json()

    assert page == {"pipelines": [], "next_cursor": None}
    (query,) = service.stored_pipelines.queries
    assert (query.uid, query.attempt_id, query.before) == (None, "01J", "01K")


@pytest.mark.parametrize("params", [{"status": "odd"}, {"limit": 0}, {"x": "1"}])
async def test_filter_that_is_none_is_refused(connect, service, params) -> None:
    assert (await connect().get("/v1/pipelines", params=params)).status_code == 422
