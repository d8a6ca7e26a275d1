"""The library of approved code: versions by user and name, which persist."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assayd.clock import SystemClock
from assayd.errors import RequestError
from assayd.model.attempt import Artifact, Attempt
from assayd.model.policy import Enforcement
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.attempt_queries import RemovalQuery
from assayd.store.jobs import DatabaseJobStore
from assayd.store.library import ENTRY_BYTES, DatabaseLibrary

Make = Any  # the fixture's class; test folders are not a package


MIB = 2**20
ROOMY = 10**12


def library_of(
    jobs: DatabaseJobStore, *, most_bytes: int = ROOMY, left_bytes: int = ROOMY
) -> DatabaseLibrary:
    """Return a library on a disk with this much free space."""

    async def room() -> int:
        return left_bytes

    return DatabaseLibrary(jobs.access, SystemClock(), most_bytes=most_bytes, room=room)


async def finished(jobs: DatabaseJobStore, make: Make, number: int, **changes: object) -> Attempt:
    """Record a finished attempt; return it."""
    accepted = replace(make.attempt(number), **changes)
    await jobs.accept(accepted, b'{"kind": "k", "payload": {"code": "x"}}')
    verdict = {"verdict": make.finished(number).verdict, "bundle": f"b/{number}"}
    ended = replace(make.finished(number), **{**changes, **verdict})
    await jobs.finish(ended)
    return ended


async def test_versions_count_by_user_and_name(jobs: DatabaseJobStore, make: Make) -> None:
    library = library_of(jobs)
    attempts = [replace(await finished(jobs, make, n), verdict=Verdict.VALIDATED) for n in (1, 2)]
    first = await library.approve(attempts[0], "months", 7)
    assert (first.name, first.version, first.approved_by) == ("months", 1, 7)
    assert (await library.approve(attempts[1], "months", 7)).version == 2
    assert await library.approve(attempts[0], "months", 9) == first
    assert (await library.approve(attempts[0], "other", 7)).version == 1
    uid = attempts[0].peer.uid
    assert [one.version for one in await library.list_versions(uid, "months")] == [2, 1]
    listed = await library.list(uid=uid, after=None, limit=10)
    assert [(one.name, one.version) for one in listed] == [("months", 2), ("other", 1)]
    assert [one.name for one in await library.list(uid=uid, after="months", limit=10)] == ["other"]
    assert await library.list_versions(uid + 1, "months") == []


async def test_entry_names_the_attempts_that_led_to_it(jobs: DatabaseJobStore, make: Make) -> None:
    first = await finished(jobs, make, 1)
    second = await finished(jobs, make, 2, parent_id=first.id, intent="take it apart")
    library = library_of(jobs)
    entry = await library.approve(replace(second, verdict=Verdict.VALIDATED), "months", 7)
    assert entry.chain == (first.id, second.id)
    assert entry.intent == "take it apart"
    assert entry.document == b'{"kind": "k", "payload": {"code": "x"}}'
    assert [one.name for one in await library.list_entries_of_attempts([second.id])] == ["months"]


async def test_lists_come_without_documents_which_may_be_large(jobs: DatabaseJobStore, make: Make) -> None:
    attempt = replace(await finished(jobs, make, 1), verdict=Verdict.VALIDATED)
    library, uid = library_of(jobs), attempt.peer.uid
    whole = await library.approve(attempt, "months", 7)
    without = replace(whole, document=b"{}")
    assert await library.entry(uid, "months", 1) == whole
    assert [await library.entry(uid, "months", 2), await library.entry(uid + 1, "months", 1)] == [None, None]
    assert await library.list_versions(uid, "months") == [without]
    assert await library.list(uid=uid, after=None, limit=10) == [without]
    assert await library.list_entries_of_attempts([attempt.id]) == [without]


async def test_what_is_approved_is_not_removable_and_its_bundle_only_when_asked_for(
    jobs: DatabaseJobStore, make: Make
) -> None:
    kept, other = await finished(jobs, make, 1), await finished(jobs, make, 2)
    library = library_of(jobs)
    await library.approve(replace(kept, verdict=Verdict.VALIDATED), "months", 7)
    for bundled in (False, True):
        found = await jobs.list_removable(RemovalQuery(bundled=bundled))
        assert [attempt.id for attempt in found] == [other.id]
    approved = await jobs.list_removable(RemovalQuery(bundled=True, approved=True))
    assert [attempt.id for attempt in approved] == [kept.id]


async def test_entry_whose_bundle_was_removed_stays_with_its_document(
    jobs: DatabaseJobStore, make: Make
) -> None:
    attempt, library = await finished(jobs, make, 1), library_of(jobs)
    entry = await library.approve(attempt, "months", 7)
    await jobs.strip([attempt.id])
    assert await library.entry(attempt.peer.uid, "months", 1) == replace(entry, bundle=None)


async def large(jobs: DatabaseJobStore, make: Make, number: int, **changes: object) -> Attempt:
    """Record a validated attempt with a bundle of one megabyte."""
    files = (Artifact(name="a", bytes=MIB, sha256="e" * 64, media_type="text/plain"),)
    await jobs.accept(make.attempt(number, **changes), b"{}")
    ended: Attempt = make.finished(number, artifacts=files, **changes)
    await jobs.finish(ended)
    return ended


async def test_approvals_of_a_user_beyond_its_limit_are_refused_and_those_of_others_are_not(
    jobs: DatabaseJobStore, make: Make
) -> None:
    """Regression: one user could fill the disk permanently, because no limit counted library entries."""
    library, other = library_of(jobs, most_bytes=3 * MIB), Peer(uid=2000, gid=2000, pid=1)
    attempts = [await large(jobs, make, number) for number in (1, 2, 3)]
    for attempt in attempts[:2]:
        await library.approve(attempt, "months", 7)
    with pytest.raises(
        RequestError, match=r"limits.library_mb_per_uid \(3\).*assay library remove"
    ) as refused:
        await library.approve(attempts[2], "months", 7)
    assert refused.value.code == "quota.library"
    assert [one.version for one in await library.list_versions(attempts[0].peer.uid, "months")] == [2, 1]
    assert (await library.approve(await large(jobs, make, 4, peer=other), "months", 7)).version == 1
    assert (await library.approve(attempts[0], "months", 7)).version == 1  # known already


async def test_approvals_keep_no_more_than_is_left_of_the_disk(jobs: DatabaseJobStore, make: Make) -> None:
    attempt = await large(jobs, make, 1)
    with pytest.raises(RequestError, match="1 MB left"):
        await library_of(jobs, left_bytes=MIB).approve(attempt, "months", 7)
    with pytest.raises(RequestError, match="0 MB left"):
        await library_of(jobs, left_bytes=-MIB).approve(attempt, "months", 7)


async def test_one_attempt_under_many_names_counts_for_each(jobs: DatabaseJobStore, make: Make) -> None:
    attempt, library = await finished(jobs, make, 1), library_of(jobs, most_bytes=4 * ENTRY_BYTES)
    for name in ("a", "b", "c"):
        await library.approve(attempt, name, 7)
    with pytest.raises(RequestError) as refused:
        await library.approve(attempt, "d", 7)
    assert refused.value.code == "quota.library"


async def test_removal_of_an_entry_makes_room_and_lets_its_attempt_go(
    jobs: DatabaseJobStore, make: Make
) -> None:
    library = library_of(jobs, most_bytes=3 * MIB)
    attempts = [await large(jobs, make, number) for number in (1, 2, 3)]
    first, second = [await library.approve(attempt, "months", 7) for attempt in attempts[:2]]
    uid = attempts[0].peer.uid
    assert await library.remove(uid, "months", 1) == [replace(first, document=b"{}")]
    assert [attempt.id for attempt in await jobs.list_removable(RemovalQuery(uid=uid))] == [
        attempts[0].id,
        attempts[2].id,
    ]
    assert (await library.approve(attempts[2], "months", 7)).version == 3
    assert [one.version for one in await library.remove(uid, "months")] == [3, second.version]
    assert await library.list_versions(uid, "months") == []


async def test_removal_leaves_entries_of_others_and_other_names(jobs: DatabaseJobStore, make: Make) -> None:
    attempt, library = await finished(jobs, make, 1), library_of(jobs)
    entry = await library.approve(attempt, "months", 7)
    uid = attempt.peer.uid
    for whose, name, version in ((uid + 1, "months", None), (uid, "other", None), (uid, "months", 2)):
        assert await library.remove(whose, name, version) == []
    assert await library.entry(uid, "months", 1) == entry


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.ERROR, Verdict.CANCELLED, None])
async def test_what_is_not_validated_is_refused(
    jobs: DatabaseJobStore, make: Make, verdict: Verdict | None
) -> None:
    attempt = replace(await finished(jobs, make, 1), verdict=verdict)
    with pytest.raises(RequestError) as refused:
        await library_of(jobs).approve(attempt, "months", 7)
    assert refused.value.code == "library.not_validated"


async def test_result_made_under_report_only_is_refused(jobs: DatabaseJobStore, make: Make) -> None:
    attempt = replace(await finished(jobs, make, 1), approvable=False, enforcement=Enforcement.REPORT)
    with pytest.raises(RequestError) as refused:
        await library_of(jobs).approve(attempt, "months", 7)
    assert refused.value.code == "library.report_only"


async def test_result_whose_kind_skipped_checks_is_refused(jobs: DatabaseJobStore, make: Make) -> None:
    attempt = replace(await finished(jobs, make, 1), approvable=False, enforcement=Enforcement.ENFORCE)
    with pytest.raises(RequestError, match="sample_paths") as refused:
        await library_of(jobs).approve(attempt, "months", 7)
    assert refused.value.code == "library.partly_checked"
