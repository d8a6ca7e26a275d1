"""The filters of a listing, applied to an in-memory attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from assayd.model.attempt import Attempt, State
from assayd.model.records import AttemptQuery
from assayd.model.report import Verdict
from assayd.model.submission import Peer

CREATED = datetime(2026, 5, 4, tzinfo=UTC)
ATTEMPT = Attempt(
    id="01JTC8ZK5V0000000000000001",
    kind="extractor",
    policy="extractor",
    input_digest="",
    created_at=CREATED,
    peer=Peer(uid=1000, gid=1000, pid=1),
    state=State.RUNNING,
    batch_id="nightly",
    labels={"platform": "a", "category": "b"},
    cause="timeout",
    rules=("sandbox.timeout", "case.failed"),
)


@pytest.mark.parametrize(
    "query",
    [
        AttemptQuery(),
        AttemptQuery(state=State.RUNNING, kind="extractor", batch_id="nightly", uid=1000),
        AttemptQuery(labels=(("platform", "a"), ("category", "b"))),
        AttemptQuery(since=CREATED),
        AttemptQuery(id_prefix="01JTC8"),
        AttemptQuery(cause="timeout", rule="sandbox.timeout"),
    ],
)
def test_attempt_that_has_all_that_is_asked_for_is_wanted(query: AttemptQuery) -> None:
    assert query.matches(ATTEMPT)


@pytest.mark.parametrize(
    "query",
    [
        AttemptQuery(state=State.LEASING),
        AttemptQuery(verdict=Verdict.FAILED),
        AttemptQuery(kind="code"),
        AttemptQuery(batch_id="daily"),
        AttemptQuery(labels=(("platform", "a"), ("category", "c"))),
        AttemptQuery(labels=(("owner", "a"),)),
        AttemptQuery(since=CREATED + timedelta(microseconds=1)),
        AttemptQuery(uid=1001),
        AttemptQuery(cause="completed"),
        AttemptQuery(rule="sandbox"),
        AttemptQuery(id_prefix="01JTC9"),
    ],
)
def test_attempt_that_lacks_one_thing_is_not(query: AttemptQuery) -> None:
    assert not query.matches(ATTEMPT)
