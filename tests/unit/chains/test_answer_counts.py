"""The outcomes of providers' answers, counted from the tables of chains."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from assayd.clock import encode_crockford
from assayd.store.access import DatabaseAccess, open_access
from assayd.store.tables import attempts, generations, repair_fixes, repairs, submissions, to_micros, verdicts
from assayd_chains import answer_counts
from assayd_chains.answer_counts import AnswerCount, count_answers, get_first_week_start

NOW = datetime(2026, 5, 7, 12, tzinfo=UTC)
WEEK = date(2026, 5, 4)
SINCE = get_first_week_start(NOW, 4)


def ulid(number: int, at: datetime = NOW) -> str:
    return encode_crockford((to_micros(at) // 1000 << 80) + number)


class Rows:
    """Writes rows of chains with default values."""

    def __init__(self, access: DatabaseAccess) -> None:
        self.access = access
        self._number = 0

    async def add(self, table: Any, **values: object) -> None:
        filled: dict[str, object] = {}
        for column in table.c:
            if column.name in values or (column.nullable and column.name not in values):
                filled[column.name] = values.get(column.name)
            elif column.server_default is None:
                filled[column.name] = {"ExactText": "", "Text": "[]", "Float": 0.0}.get(
                    type(column.type).__name__, "" if "String" in type(column.type).__name__ else 0
                )
        await self.access.write(lambda connection: connection.execute(table.insert(), filled).close())

    async def attempt(self, *rules: str) -> str:
        self._number += 1
        attempt_id = ulid(self._number)
        await self.add(attempts, id=attempt_id, submission="s", kind="code", uid=7, labels="{}")
        await self.add(
            verdicts,
            attempt_id=attempt_id,
            run_number=1,
            verdict="failed" if rules else "validated",
            rules=json.dumps(rules),
            timings="{}",
        )
        return attempt_id

    async def repair(
        self,
        *tries: tuple[str, ...],
        outcome: str | None,
        hint: str | None = None,
        uid: int = 7,
        at: datetime = NOW,
        generation_id: str | None = None,
    ) -> None:
        first, *fixed = [await self.attempt(*rules) for rules in tries]
        self._number += 1
        repair_id = ulid(self._number, at)
        common = {"kind": "code", "provider": "model", "uid": uid, "started_at": to_micros(at)}
        await self.add(
            repairs,
            id=repair_id,
            attempt_id=first,
            outcome=outcome,
            hint=hint,
            generation_id=generation_id,
            **common,
        )
        for number, attempt_id in enumerate(fixed, 1):
            await self.add(
                repair_fixes,
                repair_id=repair_id,
                number=number,
                strategy="fix",
                attempt_id=attempt_id,
                verdict="failed",
            )

    async def generation(self, drafts: int, *, outcome: str | None, uid: int = 7, at: datetime = NOW) -> str:
        self._number += 1
        generation_id = ulid(self._number, at)
        await self.add(
            generations,
            id=generation_id,
            kind="code",
            provider="model",
            uid=uid,
            started_at=to_micros(at),
            outcome=outcome,
            drafts=json.dumps([{"number": number} for number in range(drafts)]),
        )
        return generation_id


@pytest.fixture
async def rows(tmp_path: Path, database_url: str | None) -> AsyncIterator[Rows]:
    async with open_access(tmp_path, database_url) as access:
        await access.write(
            lambda connection: connection.execute(
                submissions.insert(), {"digest": "s", "document": b""}
            ).close()
        )
        yield Rows(access)


async def counted(rows: Rows, uid: int | None = None, kind: str | None = None) -> dict[Any, AnswerCount]:
    found = await rows.access.read(lambda connection: count_answers(connection, uid, SINCE, kind))
    return dict(found.counts)


async def test_repairs_and_rules_are_counted_by_week(rows: Rows) -> None:
    await rows.repair(("a.b", "c.d"), ("c.d",), (), outcome="repaired")
    await rows.repair(("a.b",), ("a.b",), outcome="stuck", hint="look")
    await rows.repair(("a.b",), outcome="exhausted", at=NOW - timedelta(days=7))

    counts = await counted(rows)

    count = counts["code", "model", WEEK]
    assert (count.repairs, count.repaired, count.hinted, count.hinted_repaired) == (2, 1, 1, 0)
    rule = count.rules["a.b"]
    assert (rule.attempts, rule.answered, rule.cleared) == (3, 2, 1)
    rule = count.rules["c.d"]
    assert (rule.attempts, rule.answered, rule.cleared) == (2, 2, 1)
    assert counts["code", "model", WEEK - timedelta(days=7)].repairs == 1


async def test_generations_are_counted_with_the_answers_to_a_pass(rows: Rows) -> None:
    await rows.generation(1, outcome="validated")
    long = await rows.generation(2, outcome="validated")
    await rows.repair(("a.b",), (), outcome="repaired", generation_id=long)
    await rows.generation(3, outcome="exhausted")
    await rows.generation(1, outcome=None)

    count = (await counted(rows))["code", "model", WEEK]

    assert (count.generations, count.validated, count.validated_at_once, count.answers) == (3, 2, 1, 4)


async def test_user_has_own_counts_and_old_chains_and_other_kinds_have_none(rows: Rows) -> None:
    await rows.repair(("a.b",), outcome="stuck", uid=8)
    await rows.repair(("a.b",), outcome="stuck", at=SINCE - timedelta(seconds=1))

    assert await counted(rows, uid=7) == {}
    assert (await counted(rows, uid=8))["code", "model", WEEK].repairs == 1
    assert await counted(rows, kind="module") == {}


async def test_only_the_newest_chains_are_read(rows: Rows, monkeypatch) -> None:
    monkeypatch.setattr(answer_counts, "MOST_CHAINS", 2)
    for _ in range(3):
        await rows.repair(("a.b",), outcome="stuck")

    found = await rows.access.read(lambda connection: count_answers(connection, None, SINCE, None))

    assert (found.counts["code", "model", WEEK].repairs, found.complete) == (2, False)


@pytest.mark.parametrize("table", [repairs, generations])
@pytest.mark.parametrize("uid", [None, 7])
async def test_chains_are_found_by_an_index(tmp_path: Path, table: Any, uid: int | None) -> None:
    statement = answer_counts._select_newest_chains(table, (), uid, SINCE, None)
    shown = str(statement.compile(compile_kwargs={"literal_binds": True}))
    async with open_access(tmp_path, None) as access:
        plan = await access.read(
            lambda connection: [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {shown}"))]
        )

    assert all("USING INDEX" in step for step in plan), plan
    assert not any("SCAN" in step for step in plan), plan


def test_weeks_begin_on_monday_at_midnight() -> None:
    assert get_first_week_start(NOW, 1) == datetime(2026, 5, 4, tzinfo=UTC)
    assert datetime(2026, 4, 13, tzinfo=UTC) == SINCE
