from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assayd.model.repair import Fix, Repair, RepairOutcome, ReplyCost, Strategy
from assayd.model.report import Verdict
from assayd.store.access import DatabaseAccess, open_access
from assayd.store.repairs import DatabaseRepairStore
from assayd.store.tables import attempts, submissions

BEGAN = datetime(2026, 5, 4, 10, 20, 30, 123456, tzinfo=UTC)
ATTEMPT, OTHER = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"
REPAIR = Repair(
    id="01ARZ3NDEKTSV4RRFFQ69G5FB0",
    attempt_id=ATTEMPT,
    kind="extractor",
    provider="rules",
    uid=7,
    max_attempts=3,
    started_at=BEGAN,
    ends_at=BEGAN + timedelta(minutes=5),
    first_fingerprint="f" * 64,
    first_digest="d" * 64,
    hint="look at line 3",
)
FIX = Fix(
    number=1,
    strategy=Strategy.FIX,
    asked_at=BEGAN,
    error="it failed",
    reason="a colon",
    passage="code",
    patched_code="x = 1\n",
    digest="e" * 64,
    attempt_id=OTHER,
    usage=ReplyCost(input_tokens=10, output_tokens=2, took_s=0.25),
)


@pytest.fixture
async def access(tmp_path: Path, database_url: str | None) -> AsyncIterator[DatabaseAccess]:
    async with open_access(tmp_path, database_url) as access:
        row = {"id": ATTEMPT, "submission": "s", "kind": "extractor", "policy": "p", "input_digest": "i"}
        row |= {"created_at": 1, "uid": 7, "gid": 7, "pid": 1, "attempt_number": 1, "labels": "{}"}
        await access.write(
            lambda connection: connection.execute(submissions.insert(), {"digest": "s", "document": b""})
        )
        known = {name: value for name, value in row.items() if name in attempts.c}
        await access.write(lambda connection: connection.execute(attempts.insert(), known))
        yield access


@pytest.fixture
def store(access: DatabaseAccess) -> DatabaseRepairStore:
    return DatabaseRepairStore(access)


async def test_a_repair_comes_back_as_it_was_saved_last(store: DatabaseRepairStore) -> None:
    await store.save(REPAIR)
    under_way = replace(REPAIR, fixes=(FIX,))
    await store.save(under_way)
    assert await store.get(REPAIR.id) == under_way
    ended = replace(
        under_way,
        fixes=(replace(FIX, verdict=Verdict.VALIDATED, cause="completed"),),
        outcome=RepairOutcome.REPAIRED,
        finished_at=BEGAN,
        fallback={"rules": "extract: {}"},
    )
    await store.save(ended)
    assert await store.get(REPAIR.id) == ended


async def test_a_repair_that_is_not_there_is_none(store: DatabaseRepairStore) -> None:
    assert await store.get("01ARZ3NDEKTSV4RRFFQ69G5FB9") is None


async def test_only_what_has_no_outcome_is_unfinished(store: DatabaseRepairStore) -> None:
    await store.save(REPAIR)
    ended = replace(REPAIR, id="01ARZ3NDEKTSV4RRFFQ69G5FB1", outcome=RepairOutcome.STUCK, finished_at=BEGAN)
    await store.save(ended)
    assert await store.unfinished() == [REPAIR]


async def test_a_repair_is_found_by_each_of_its_attempts(store: DatabaseRepairStore) -> None:
    repair = replace(REPAIR, fixes=(FIX,))
    await store.save(repair)
    assert await store.of_attempt(ATTEMPT) == await store.of_attempt(OTHER) == [repair]


async def test_a_list_is_newest_first_and_ones_own(store: DatabaseRepairStore) -> None:
    newer = replace(REPAIR, id="01ARZ3NDEKTSV4RRFFQ69G5FB1")
    strange = replace(REPAIR, id="01ARZ3NDEKTSV4RRFFQ69G5FB2", uid=8)
    for repair in (REPAIR, newer, strange):
        await store.save(repair)
    assert await store.list() == [strange, newer, REPAIR]
    assert await store.list(uid=7, limit=1) == [newer]
    assert await store.list(uid=7, before=newer.id) == [REPAIR]
