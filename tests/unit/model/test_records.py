"""The filters of a listing, applied to an in-memory attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from assayd.model.attempt import Attempt, State
from assayd.model.records import Query
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
        Query(),
        Query(state=State.RUNNING, kind="extractor", batch_id="nightly", uid=1000),
        Query(labels=(("platform", "a"), ("category", "b"))),
        Query(since=CREATED),
        Query(id_prefix="01JTC8"),
        Query(cause="timeout", rule="sandbox.timeout"),
    ],
)
def test_attempt_that_has_all_that_is_asked_for_is_wanted(query: Query) -> None:
    assert query.matches(ATTEMPT)


@pytest.mark.parametrize(
    "query",
    [
        Query(state=State.LEASING),
        Query(verdict=Verdict.FAILED),
        Query(kind="code"),
        Query(batch_id="daily"),
        Query(labels=(("platform", "a"), ("category", "c"))),
        Query(labels=(("owner", "a"),)),
        Query(since=CREATED + timedelta(microseconds=1)),
        Query(uid=1001),
        Query(cause="completed"),
        Query(rule="sandbox"),
        Query(id_prefix="01JTC9"),
    ],
)
def test_attempt_that_lacks_one_thing_is_not(query: Query) -> None:
    assert not query.matches(ATTEMPT)
