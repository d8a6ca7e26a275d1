from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.access import DatabaseAccess, open_access
from assayd.store.outbox import Outbox
from assayd.store.tables import attempts, repair_fixes, submissions
from assayd_chains.model import (
    Answer,
    BudgetGrant,
    Chain,
    ChainRound,
    Failure,
    GenerationRequest,
    Outcome,
    Repair,
    ReplyCost,
    Strategy,
)
from assayd_chains.store import DatabaseChainStore

BEGAN = datetime(2026, 5, 4, 10, 20, 30, 123456, tzinfo=UTC)
ATTEMPT, OTHER = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"
REPAIR = Repair(
    id="01ARZ3NDEKTSV4RRFFQ69G5FB0",
    kind="extractor",
    provider="rules",
    uid=7,
    max_attempts=3,
    ends_at=BEGAN + timedelta(minutes=5),
    failure=Failure(attempt_id=ATTEMPT, at=BEGAN, fingerprint="f" * 64, digest="d" * 64),
    hint="look at line 3",
)
FIX = Answer(
    number=1,
    strategy=Strategy.FIX,
    asked_at=BEGAN,
    error="it failed",
    reason="a colon",
    passage="code",
    text="x = 1\n",
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
def store(access: DatabaseAccess) -> DatabaseChainStore:
    return DatabaseChainStore(access)


async def test_a_repair_comes_back_as_it_was_saved_last(store: DatabaseChainStore) -> None:
    await store.save(REPAIR.chain())
    under_way = replace(REPAIR, fixes=(FIX,))
    await store.save(under_way.chain())
    assert await store.get_repair(REPAIR.id) == under_way
    ended = replace(
        under_way,
        fixes=(replace(FIX, verdict=Verdict.VALIDATED, cause="completed"),),
        outcome=Outcome.VALIDATED,
        finished_at=BEGAN,
        fallback={"rules": "extract: {}"},
    )
    await store.save(ended.chain())
    assert await store.get_repair(REPAIR.id) == ended


async def test_a_repair_that_is_not_there_is_none(store: DatabaseChainStore) -> None:
    assert await store.get_repair("01ARZ3NDEKTSV4RRFFQ69G5FB9") is None


async def test_only_what_has_no_outcome_is_unfinished(store: DatabaseChainStore) -> None:
    await store.save(REPAIR.chain())
    ended = replace(REPAIR, id="01ARZ3NDEKTSV4RRFFQ69G5FB1", outcome=Outcome.STUCK, finished_at=BEGAN)
    await store.save(ended.chain())
    assert await store.list_unfinished() == [REPAIR.chain()]


async def test_a_repair_is_found_by_each_of_its_attempts(store: DatabaseChainStore) -> None:
    repair = replace(REPAIR, fixes=(FIX,))
    await store.save(repair.chain())
    assert await store.repairs_of(ATTEMPT) == await store.repairs_of(OTHER) == [repair]


async def test_a_list_is_newest_first_and_ones_own(store: DatabaseChainStore) -> None:
    newer = replace(REPAIR, id="01ARZ3NDEKTSV4RRFFQ69G5FB1")
    strange = replace(REPAIR, id="01ARZ3NDEKTSV4RRFFQ69G5FB2", uid=8)
    for repair in (REPAIR, newer, strange):
        await store.save(repair.chain())
    assert await store.repairs() == [strange, newer, REPAIR]
    assert await store.repairs(uid=7, limit=1) == [newer]
    assert await store.repairs(uid=7, before=newer.id) == [REPAIR]


DRAFT = Answer(
    number=1,
    strategy=Strategy.WRITE,
    asked_at=BEGAN,
    reason="as asked",
    text="x = 0\n",
    passage="code",
    attempt_id=ATTEMPT,
    verdict=Verdict.FAILED,
)
GENERATION = Chain(
    id="01ARZ3NDEKTSV4RRFFQ69G5FC0",
    kind="extractor",
    provider="local",
    uid=7,
    max_attempts=3,
    started_at=BEGAN,
    ends_at=BEGAN + timedelta(minutes=5),
    words=GenerationRequest(
        peer=Peer(uid=7, gid=8, pid=9), policy="p", intent="words", context={"a": 1}, labels={"b": "c"}
    ),
    rounds=(ChainRound(),),
)
MISFIT = replace(FIX, number=2, attempt_id=None, digest="m", problem="it has no code")
FIXING = ChainRound(drafts=(DRAFT,), repair_id="R" * 26, failure=REPAIR.failure, fixes=(FIX, MISFIT))


async def test_generation_comes_back_as_it_was_saved_at_each_step(store: DatabaseChainStore) -> None:
    written = replace(GENERATION, rounds=(ChainRound(drafts=(DRAFT,), repair_id="R" * 26),))
    ended = replace(FIXING, outcome=Outcome.EXHAUSTED, detail="why", finished_at=BEGAN, fallback={"a": 1})
    hinted = ChainRound(grant=BudgetGrant(uid=7, at=BEGAN, hint="h"), follows=OTHER)
    for rounds in ((ChainRound(),), written.rounds, (FIXING,), (ended,), (ended, hinted)):
        chain = replace(GENERATION, rounds=rounds)
        await store.save(chain)
        assert await store.get_generation(GENERATION.id) == chain
        assert await store.chain(GENERATION.id) == chain
    assert await store.generations(uid=7, before=None, limit=9) == [chain]


async def test_failed_attempt_of_a_generation_is_one_of_the_repairs(store: DatabaseChainStore) -> None:
    chain = replace(GENERATION, rounds=(FIXING,))
    await store.save(chain)
    assert await store.repairs() == [chain.repair]
    assert await store.repairs_of(OTHER) == [chain.repair]
    assert (await store.repairs())[0].generation_id == GENERATION.id
    assert await store.chain("R" * 26) is None


async def test_generation_with_its_fixes_is_unfinished_once(store: DatabaseChainStore) -> None:
    chain = replace(GENERATION, rounds=(FIXING,))
    await store.save(chain)
    await store.save(REPAIR.chain())
    assert await store.list_unfinished() == [REPAIR.chain(), chain]


async def test_fix_that_an_earlier_version_found_unusable_stays_so(
    store: DatabaseChainStore, access: DatabaseAccess
) -> None:
    await store.save(replace(REPAIR, fixes=(MISFIT,)).chain())
    await access.write(
        lambda connection: connection.execute(update(repair_fixes).values(problem=None)).close()
    )
    repair = await store.get_repair(REPAIR.id)
    assert repair is not None
    assert (repair.fixes[0].problem, repair.fixes[0].cause) == ("it doesn't fit into the submission", None)


async def test_each_end_of_a_generation_is_told_once_however_often_it_is_saved(
    store: DatabaseChainStore, access: DatabaseAccess
) -> None:
    words = replace(GENERATION.words, webhook="https://ci.example/")
    outbox, later = Outbox(access), BEGAN + timedelta(days=1)

    def ended(at: datetime | None) -> Chain:
        outcome = None if at is None else Outcome.EXHAUSTED
        return replace(GENERATION, words=words, rounds=(ChainRound(outcome=outcome, finished_at=at),))

    async def told() -> list[tuple[str, dict[str, object]]]:
        due = await outbox.list_due(later + timedelta(days=1), each=9)
        return [(message.id, json.loads(message.body)) for message in due]

    for at in (None, BEGAN, BEGAN):
        await store.save(ended(at))
    [(message_id, body)] = await told()
    assert (body["type"], body["data"]["outcome"]) == ("generation.finished", "exhausted")
    await outbox.remove(message_id)
    await store.save(ended(BEGAN))
    assert await told() == []
    for at in (None, later):
        await store.save(ended(at))
    assert len(await told()) == 1
