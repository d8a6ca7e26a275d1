"""Counts of attempts by result, computed by the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from assayd.model.records import AttemptQuery
from assayd.model.report import Verdict
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import DatabaseJobStore
from support.stores.stored_attempts import START, Make

MINUTE = START.replace(second=0, microsecond=0)


async def _laid(jobs, make: Make) -> None:
    """Record three failures of two kinds, a validated attempt, and a waiting one."""
    failed = {"verdict": Verdict.FAILED, "cause": "timeout", "rules": ("a.b", "c.d")}
    attempts = [
        make.finished(1, **failed),
        make.finished(2, **{**failed, "rules": ("a.b",)}),
        make.finished(3, kind="script", **failed),
        make.finished(70, batch_id="B"),
    ]
    for attempt in (*attempts, make.attempt(71)):
        await jobs.accept(attempt, b"{}")
    for attempt in attempts:
        await jobs.finish(attempt)


async def test_attempts_are_counted_by_time_kind_verdict_and_cause(jobs, make) -> None:
    await _laid(jobs, make)
    found = await jobs.summary(AttemptQuery(), 60)

    counted = {(each.at, each.kind, each.verdict, each.cause): each.number for each in found.counts}
    later = MINUTE.replace(minute=MINUTE.minute + 1)
    assert counted == {
        (MINUTE, "code", "failed", "timeout"): 2,
        (MINUTE, "script", "failed", "timeout"): 1,
        (later, "code", "validated", "completed"): 1,
    }


async def test_rules_are_counted_by_attempt_most_first(jobs, make) -> None:
    await _laid(jobs, make)

    assert (await jobs.summary(AttemptQuery(), 60)).rules == (("a.b", 3), ("c.d", 2))


async def test_only_what_the_query_wants_is_counted(jobs, make) -> None:
    await _laid(jobs, make)
    queries = (
        AttemptQuery(kind="script"),
        AttemptQuery(batch_id="B"),
        AttemptQuery(uid=1),
        AttemptQuery(since=make.attempt(70).created_at),
    )
    counted = [sum(each.number for each in (await jobs.summary(query, 60)).counts) for query in queries]

    assert counted == [1, 1, 0, 1]


async def test_slowest_are_named_from_their_start(jobs, make) -> None:
    slow = make.finished(1)
    await jobs.accept(slow, b"{}")
    await jobs.finish(slow)
    [found] = (await jobs.summary(AttemptQuery(), 60)).slowest

    assert (found.attempt_id, found.verdict, found.took_s) == (slow.id, "validated", 0.001)


class Watched:
    """A database access that records how many readers there were at once."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access
        self.now = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access, name)

    async def read(self, fetch: Callable[[Connection], Any]) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self._access.read(fetch)
        finally:
            self.now -= 1


async def test_only_one_summary_is_counted_at_a_time(jobs) -> None:
    access = Watched(jobs.access)
    store = DatabaseJobStore(access)  # type: ignore[arg-type]
    await asyncio.gather(*(store.summary(AttemptQuery(), 60) for _ in range(4)))

    assert access.most == 1
