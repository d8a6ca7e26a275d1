"""What was approved: versions by user and name, and that it stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assayd.errors import RequestError
from assayd.ids import SystemClock
from assayd.model.attempt import Attempt
from assayd.model.report import Verdict
from assayd.ports.store import Removable
from assayd.store.jobs import DatabaseJobStore
from assayd.store.library import DatabaseLibrary

Make = Any  # the fixture's class; test folders are not a package


async def finished(jobs: DatabaseJobStore, make: Make, number: int, **changes: object) -> Attempt:
    """Record a finished attempt."""
    accepted = replace(make.attempt(number), **changes)
    await jobs.accept(accepted, b'{"kind": "k", "payload": {"code": "x"}}')
    verdict = {"verdict": make.finished(number).verdict, "bundle": f"b/{number}"}
    ended = replace(make.finished(number), **{**changes, **verdict})
    await jobs.finish(ended)
    return ended


async def test_versions_count_by_user_and_name(jobs: DatabaseJobStore, make: Make) -> None:
    library = DatabaseLibrary(jobs.access, SystemClock())
    attempts = [replace(await finished(jobs, make, n), verdict=Verdict.VALIDATED) for n in (1, 2)]
    first = await library.approve(attempts[0], "months", 7)
    assert (first.name, first.version, first.approved_by) == ("months", 1, 7)
    assert (await library.approve(attempts[1], "months", 7)).version == 2
    assert await library.approve(attempts[0], "months", 9) == first
    assert (await library.approve(attempts[0], "other", 7)).version == 1
    uid = attempts[0].peer.uid
    assert [one.version for one in await library.history(uid, "months")] == [2, 1]
    listed = await library.list(uid=uid, after=None, limit=10)
    assert [(one.name, one.version) for one in listed] == [("months", 2), ("other", 1)]
    assert [one.name for one in await library.list(uid=uid, after="months", limit=10)] == ["other"]
    assert await library.history(uid + 1, "months") == []


async def test_entry_names_the_attempts_that_led_to_it(jobs: DatabaseJobStore, make: Make) -> None:
    first = await finished(jobs, make, 1)
    second = await finished(jobs, make, 2, parent_id=first.id, intent="take it apart")
    library = DatabaseLibrary(jobs.access, SystemClock())
    entry = await library.approve(replace(second, verdict=Verdict.VALIDATED), "months", 7)
    assert entry.chain == (first.id, second.id)
    assert entry.intent == "take it apart"
    assert entry.document == b'{"kind": "k", "payload": {"code": "x"}}'
    assert [one.name for one in await library.of_attempts([second.id])] == ["months"]


async def test_lists_come_without_documents_which_may_be_large(jobs: DatabaseJobStore, make: Make) -> None:
    attempt = replace(await finished(jobs, make, 1), verdict=Verdict.VALIDATED)
    library, uid = DatabaseLibrary(jobs.access, SystemClock()), attempt.peer.uid
    whole = await library.approve(attempt, "months", 7)
    without = replace(whole, document=b"{}")
    assert await library.entry(uid, "months", 1) == whole
    assert [await library.entry(uid, "months", 2), await library.entry(uid + 1, "months", 1)] == [None, None]
    assert await library.history(uid, "months") == [without]
    assert await library.list(uid=uid, after=None, limit=10) == [without]
    assert await library.of_attempts([attempt.id]) == [without]


async def test_what_is_approved_is_never_removable_and_its_bundle_neither(
    jobs: DatabaseJobStore, make: Make
) -> None:
    kept, other = await finished(jobs, make, 1), await finished(jobs, make, 2)
    library = DatabaseLibrary(jobs.access, SystemClock())
    await library.approve(replace(kept, verdict=Verdict.VALIDATED), "months", 7)
    for bundled in (False, True):
        found = await jobs.removable(Removable(bundled=bundled))
        assert [attempt.id for attempt in found] == [other.id]


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.ERROR, Verdict.CANCELLED, None])
async def test_what_is_not_validated_is_refused(
    jobs: DatabaseJobStore, make: Make, verdict: Verdict | None
) -> None:
    attempt = replace(await finished(jobs, make, 1), verdict=verdict)
    with pytest.raises(RequestError) as refused:
        await DatabaseLibrary(jobs.access, SystemClock()).approve(attempt, "months", 7)
    assert refused.value.code == "library.not_validated"
