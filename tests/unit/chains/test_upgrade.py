"""Chains in a state directory of an earlier version, which `rows_0010.sql` contains."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from assayd.store.access import FILE, HEAD, DatabaseAccess, open_access
from assayd.store.migrations import upgrade
from assayd_chains.decide import AskProvider, StopChain, decide_next_step
from assayd_chains.documents import to_generation_document
from assayd_chains.model import Outcome, Strategy
from assayd_chains.store import DatabaseChainStore

ROWS = Path(__file__).with_name("rows_0010.sql")


def name(number: int) -> str:
    return f"01ARZ3NDEKTSV4RRFFQ69G5{number:03}"


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[DatabaseAccess]:
    engine = create_engine(f"sqlite:///{tmp_path / FILE}")
    with engine.begin() as connection:
        upgrade(connection, None, "0010")
    engine.dispose()
    database = sqlite3.connect(tmp_path / FILE)
    database.executescript(ROWS.read_text())
    database.close()
    async with open_access(tmp_path) as access:
        yield access


@pytest.fixture
def store(access: DatabaseAccess) -> DatabaseChainStore:
    return DatabaseChainStore(access)


async def test_database_has_the_newest_revision_afterwards(access: DatabaseAccess) -> None:
    version = text("SELECT version_num FROM alembic_version")
    assert await access.read(lambda connection: connection.execute(version).scalar()) == HEAD


async def test_repair_that_had_ended_is_shown_as_before(store: DatabaseChainStore) -> None:
    repair = await store.get_repair(name(101))
    assert repair is not None
    assert (repair.outcome, repair.hint, repair.granted_by) == (Outcome.VALIDATED, "look", 7)
    assert [fix.attempt_id for fix in repair.fixes] == [name(2)]


async def test_what_was_under_way_goes_on_where_it_stood(store: DatabaseChainStore) -> None:
    repair, generation, ended = await store.list_unfinished()
    assert (repair.id, generation.id) == (name(102), name(201))
    assert decide_next_step(repair, repair.started_at) == AskProvider(strategy=Strategy.FIX)
    assert repair.round.fixes[1].problem == "it doesn't fit into the submission"
    first, hinted = generation.rounds
    assert [answer.problem for answer in first.answers] == ["it has no code", None, None]
    assert (first.outcome, hinted.outcome, hinted.follows) == (Outcome.EXHAUSTED, None, name(5))
    assert hinted.last is not None
    assert (hinted.last.attempt_id, hinted.last.verdict) == (name(7), None)
    assert (ended.id, ended.outcome) == (name(202), Outcome.CANCELLED)


async def test_generation_numbers_its_answers_as_before(store: DatabaseChainStore) -> None:
    generation = await store.get_generation(name(201))
    assert generation is not None
    document = to_generation_document(generation)
    assert [(one.number, one.attempt_id) for one in document.attempts] == [
        (1, None),
        (2, name(4)),
        (3, name(5)),
        (4, name(6)),
        (5, name(7)),
    ]
    assert document.attempt_id == name(7)


async def test_answers_are_found_by_what_they_belong_to(store: DatabaseChainStore) -> None:
    fix = await store.step(name(102), 1, draft=False)
    draft = await store.step(name(201), 2, draft=True)
    assert [step and step.reply.text for step in (fix, draft)] == ["raw", "raw 2"]


async def test_chain_that_is_saved_again_stays_the_same(store: DatabaseChainStore) -> None:
    before = await store.list_unfinished()
    for chain in before:
        await store.save(chain)
    kept = {chain.id: chain for chain in before if chain.outcome is None}
    assert {chain.id: chain for chain in await store.list_unfinished()} == kept
    assert decide_next_step(before[0], before[0].ends_at) == StopChain(
        outcome=Outcome.TIMEOUT, detail="the last fix can't be used: it doesn't fit into the submission"
    )
