"""Offering edits at the end of a repair: in-memory attempts, a real analysis worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from assayd.analysis.analyst import AnalysisLimits, Analyst
from assayd.errors import RequestError
from assayd.kinds import registry as validators
from assayd.model.attempt import Attempt, State
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_chains.attempts import FinishedSubmission
from assayd_chains.fitting import AnswerApplier
from assayd_chains.model import Answer, Failure, Outcome, Repair, Strategy

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 5, 4, tzinfo=UTC)
CODE = """
def extract(path):
    parts = path.split("/")
    quarter = int(parts[4][1:])
    return {"client_id": parts[2], "quarter": quarter, "start_month": 3 * quarter - 2}
"""
PATHS = ["/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2024/Q2/data.csv"]
RAISED: Mapping[str, object] = {"stage_reached": "sandbox", "findings": [{"rule": "sandbox.raised"}]}


class Attempts:
    """The needed part of `ports.repairs.Attempts`: attempts by id, with their code."""

    def __init__(self, **codes: str) -> None:
        self._codes = codes

    async def finished(self, attempt_id: str) -> FinishedSubmission:
        if attempt_id not in self._codes:
            raise RequestError("not_found", "it was removed")
        attempt = Attempt(
            id=attempt_id,
            kind="extractor",
            policy="extractor",
            input_digest="",
            created_at=NOW,
            peer=Peer(uid=0, gid=0, pid=0),
            state=State.FINISHED,
            verdict=Verdict.FAILED,
        )
        payload = {"code": self._codes[attempt_id], "sample_paths": PATHS}
        return FinishedSubmission(attempt=attempt, submission={"payload": payload}, report=RAISED)


def repair(kind: str, *attempts: str) -> Repair:
    fixes = [
        Answer(
            number=number,
            strategy=Strategy.FIX,
            asked_at=NOW,
            digest=str(number),
            reason="",
            passage="code",
            text="",
            attempt_id=attempt_id,
            verdict=Verdict.FAILED,
        )
        for number, attempt_id in enumerate(attempts, 1)
    ]
    return Repair(
        id="R",
        kind=kind,
        provider="rules",
        uid=0,
        max_attempts=3,
        ends_at=NOW + timedelta(minutes=5),
        failure=Failure(attempt_id="first", at=NOW),
        fixes=tuple(fixes),
    )


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def analyst() -> AsyncIterator[Analyst]:
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        yield analyst


async def offered(analyst: Analyst, attempts: Attempts, kind: str = "extractor", *fixes: str):
    kinds = {kind: validators.find_validator(kind)}
    fitter = AnswerApplier(attempts=attempts, analyst=analyst, kinds=kinds, policies=None)
    return await fitter.build_fallback_offer(repair(kind, *fixes), Outcome.EXHAUSTED)


async def test_rules_give_what_is_not_computed(analyst: Analyst) -> None:
    found = await offered(analyst, Attempts(first=CODE))
    assert found["trigger"] == "computed_fields"
    assert found["notes"].keys() == {"start_month"}
    assert [shown["fields"] for shown in found["applied"]["shown"]] == [
        {"client_id": "ABC", "quarter": 1},
        {"client_id": "XYZ", "quarter": 2},
    ]


async def test_fields_are_those_of_the_newest_code_that_can_be_read(analyst: Analyst) -> None:
    other = CODE.replace("client_id", "client")
    found = await offered(analyst, Attempts(first=CODE, a=other, b="def extract("), "extractor", "a", "b")
    assert "client:" in found["rules"]


async def test_kind_that_takes_no_fields_is_offered_nothing(analyst: Analyst) -> None:
    assert await offered(analyst, Attempts(first=CODE), "script") is None


async def test_attempt_that_was_removed_leaves_nothing_to_offer(analyst: Analyst) -> None:
    assert await offered(analyst, Attempts(first=CODE), "extractor", "gone") is None
