import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from assayd.model.attempt import Attempt, State
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.ports.service import AttemptFix, NullChains
from assayd_pipeline import routes
from assayd_pipeline.facts import DataFacts, Facts
from assayd_pipeline.payload import Step, compute_steps_digest
from assayd_pipeline.routes import PipelineDetailDocument, PipelinePageDocument
from assayd_pipeline.stored import (
    PipelineAttempt,
    PipelineStatus,
    PipelineStep,
    StepRun,
    StoredPipeline,
)
from assayd_pipeline.validator import validator
from unit.pipeline.test_runs import STEP, entry

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
    """The needed part of `ports.chains.Chains`."""

    def __init__(self, **known: AttemptFix) -> None:
        self._known = known

    async def get_fix(self, attempt_id: str) -> AttemptFix | None:
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
    app.state.chains = NullChains()


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


APPROVED, RUN = "01JTC8ZK5V0000000000000APP", "01JTC8ZK5V0000000000000RVN"
THESE, OTHERS = ([Step.model_validate({**STEP, "content": f"SELECT {n}"})] for n in (1, 2))


def judged(attempt_id: str, at: int) -> Attempt:
    return Attempt(
        id=attempt_id,
        kind="pipeline",
        policy="pipeline",
        input_digest="",
        created_at=START + timedelta(hours=at),
        peer=Peer(uid=1000, gid=1000, pid=1),
        state=State.FINISHED,
        verdict=Verdict.VALIDATED,
    )


class Runs:
    """An approved pipeline of one step, and the reports of its attempts."""

    def __init__(self, app, service, monkeypatch) -> None:
        approved = replace(entry(), uid=1000, attempt_id=APPROVED)
        app.state.library = SimpleNamespace(entry=self._found(approved))
        monkeypatch.setattr(service, "documents", self._documents)
        service.kinds = {"pipeline": validator}
        service.attempts = {}
        self._service = service
        self._reports: dict[str, bytes] = {}

    def put(self, attempt: Attempt, rows: int, steps: list[Step] = THESE) -> None:
        facts = DataFacts(tables={"t": Facts(rows=rows, columns=("a",), types=("TEXT",))})
        feedback = {"data": facts.model_dump(mode="json"), "steps_sha256": compute_steps_digest(steps)}
        self._service.attempts[attempt.id] = attempt
        self._reports[attempt.id] = json.dumps({"feedback": feedback, "findings": []}).encode()

    def expected_rows(self) -> int:
        """Return the row count that the newest attempt is compared with."""
        (*_, newest) = self._service.submissions.values()
        return newest.payload.expects.tables["t"].rows

    @staticmethod
    def _found(approved):
        async def find(uid, name, version):
            return approved

        return find

    async def _documents(self, attempt: Attempt) -> tuple[bytes, bytes]:
        return self._reports.get(attempt.id, b"null"), b"null"


@pytest.fixture
def runs(app, service, monkeypatch) -> Runs:
    made = Runs(app, service, monkeypatch)
    made.put(judged(APPROVED, 0), 100)
    return made


WANTED = {"name": "daily", "version": 3}


async def test_rows_are_compared_with_the_last_run_of_the_same_steps(connect, runs) -> None:
    runs.put(judged(RUN, 1), 150)
    assert (await connect(1000).post("/v1/pipelines/runs", json=WANTED)).status_code == 202
    assert runs.expected_rows() == 150


async def test_attempt_with_the_labels_of_a_run_and_other_steps_is_no_baseline(connect, runs) -> None:
    runs.put(judged(RUN, 1), 9000, OTHERS)
    assert (await connect(1000).post("/v1/pipelines/runs", json=WANTED)).status_code == 202
    assert runs.expected_rows() == 100


@pytest.mark.parametrize(
    "distrust", [{"approvable": False}, {"approvable": False, "distrusted_at": START}, {"verdict": None}]
)
async def test_distrusted_approval_is_no_baseline(connect, runs, distrust) -> None:
    runs.put(replace(judged(APPROVED, 0), **distrust), 100)
    answer = await connect(1000).post("/v1/pipelines/runs", json=WANTED)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "pipeline.no_baseline")
    assert "its verdict is distrusted" in answer.json()["error"]["message"]


async def test_submission_of_a_run_is_made_outside_the_event_loop(connect, runs, monkeypatch) -> None:
    threads = []
    make = routes.build_submission
    monkeypatch.setattr(
        routes, "build_submission", lambda *given: [threads.append(threading.get_ident()), make(*given)][1]
    )
    await connect(1000).post("/v1/pipelines/runs", json=WANTED)
    assert threads
    assert threading.get_ident() not in threads
