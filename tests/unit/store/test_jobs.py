from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assayd.errors import ConfigError, RequestError, StoreError
from assayd.model.attempt import Failure, State
from assayd.model.records import AttemptQuery
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.attempt_queries import ROW_BYTES, RemovalQuery, StoredUsage
from assayd.store.jobs import DatabaseJobStore, open_job_store

Make = Any  # the fixture's class; test folders are not a package


async def test_accepted_attempt_is_given_back_as_it_was(jobs: DatabaseJobStore, make: Make) -> None:
    attempt = make.attempt(batch_id="b", parent_id="0" * 26, attempt_number=2)
    accepted = await jobs.accept(attempt, b"{}")
    assert (accepted.attempt, accepted.existing) == (attempt, False)
    assert await jobs.get(attempt.id) == attempt
    assert await jobs.document(attempt.id) == b"{}"


async def test_unknown_attempt_is_none_and_has_no_document(jobs: DatabaseJobStore) -> None:
    assert await jobs.get("0" * 26) is None
    with pytest.raises(StoreError) as caught:
        await jobs.document("0" * 26)
    assert caught.value.code == "attempt.missing"


async def test_same_id_with_an_equal_submission_gives_the_first_attempt(
    jobs: DatabaseJobStore, make: Make
) -> None:
    first = make.attempt()
    await jobs.accept(first, b"{}")
    again = await jobs.accept(replace(first, created_at=first.created_at + timedelta(1)), b"{}")
    assert (again.attempt, again.existing) == (first, True)


async def test_same_id_with_another_submission_is_a_conflict(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    with pytest.raises(RequestError, match="this id was already used") as caught:
        await jobs.accept(make.attempt(), b"[]")
    assert caught.value.code == "conflict"
    assert await jobs.document(make.attempt().id) == b"{}"


async def test_id_of_another_user_is_not_found(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    for document in (b"{}", b"[]"):
        with pytest.raises(RequestError) as caught:
            await jobs.accept(make.attempt(peer=Peer(uid=7, gid=7, pid=7)), document)
        assert caught.value.code == "not_found"


async def test_same_key_from_the_same_uid_gives_the_first_attempt(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(1), b"{}", idempotency_key="k")
    again = await jobs.accept(make.attempt(2), b"{}", idempotency_key="k")
    assert (again.attempt.id, again.existing) == (make.attempt(1).id, True)
    assert await jobs.get(make.attempt(2).id) is None


async def test_same_key_with_another_submission_is_a_conflict(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(1), b"{}", idempotency_key="k")
    with pytest.raises(RequestError, match="this idempotency key was already used"):
        await jobs.accept(make.attempt(2), b"[]", idempotency_key="k")


async def test_same_key_from_another_uid_is_another_attempt(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(1), b"{}", idempotency_key="k")
    other = await jobs.accept(make.attempt(2, peer=Peer(uid=7, gid=7, pid=7)), b"[]", idempotency_key="k")
    assert not other.existing


async def test_id_and_key_of_two_attempts_are_a_conflict(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(1), b"{}", idempotency_key="k")
    await jobs.accept(make.attempt(2), b"{}")
    with pytest.raises(RequestError) as caught:
        await jobs.accept(make.attempt(2), b"{}", idempotency_key="k")
    assert caught.value.code == "conflict"


async def test_leased_attempt_is_running_and_counts_its_runs(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    await jobs.lease(make.run(run_number=1))
    await jobs.lease(make.run(run_number=2))
    found = await jobs.get(make.attempt().id)
    assert found is not None
    assert (found.state, found.run_number) == (State.RUNNING, 2)


async def test_run_that_is_withdrawn_does_not_count(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    for number in (1, 2):
        await jobs.lease(make.run(run_number=number))
    await jobs.delete_run(make.attempt().id, 2)
    assert [each.run_number for each in await jobs.list_unfinished()] == [1]
    await jobs.lease(make.run(run_number=2))


async def test_third_run_is_refused(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    with pytest.raises(StoreError) as caught:
        await jobs.lease(make.run(run_number=3))
    assert caught.value.code == "store.conflict"


async def test_lease_of_an_unknown_attempt_is_refused(jobs: DatabaseJobStore, make: Make) -> None:
    with pytest.raises(StoreError) as caught:
        await jobs.lease(make.run())
    assert caught.value.code == "store.conflict"


async def test_finished_attempt_is_given_back_as_it_was(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    await jobs.lease(make.run())
    assert await jobs.finish(make.finished())
    assert await jobs.get(make.attempt().id) == make.finished()


async def test_attempt_that_ended_in_error_before_a_run_is_given_back(
    jobs: DatabaseJobStore, make: Make
) -> None:
    failure = Failure(code="engine.unreachable", message="no engine")
    ended = make.finished(
        verdict=Verdict.ERROR,
        error=failure,
        warm=None,
        bundle=None,
        artifacts=(),
        started_at=None,
        run_number=0,
        cause=None,
    )
    await jobs.accept(make.attempt(), b"{}")
    assert await jobs.finish(ended)
    assert await jobs.get(ended.id) == ended


async def test_second_verdict_is_not_recorded_and_neither_are_its_events(
    jobs: DatabaseJobStore, make: Make
) -> None:
    await jobs.accept(make.attempt(), b"{}")
    assert await jobs.finish(make.finished(), [make.event(seq=1)])
    assert not await jobs.finish(make.finished(verdict=Verdict.FAILED), [make.event(seq=2)])
    found = await jobs.get(make.attempt().id)
    assert found is not None
    assert found.verdict is Verdict.VALIDATED
    assert await jobs.events(make.attempt().id) == [make.event(seq=1)]


async def test_one_of_many_concurrent_verdicts_is_recorded(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    recorded = await asyncio.gather(*(jobs.finish(make.finished(run_number=n % 2 + 1)) for n in range(20)))
    assert recorded.count(True) == 1


async def test_events_are_given_in_order_after_a_position(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(), b"{}")
    events = [make.event(seq=seq, run_number=seq // 3) for seq in range(1, 7)]
    await jobs.finish(make.finished(), events)
    assert await jobs.events(make.attempt().id) == events
    assert await jobs.events(make.attempt().id, after=4) == events[4:]


async def test_unfinished_attempts_are_listed_oldest_first(jobs: DatabaseJobStore, make: Make) -> None:
    for number in (3, 1, 2):
        await jobs.accept(make.attempt(number), b"{}")
    await jobs.lease(make.run(2))
    await jobs.finish(make.finished(3))
    found = await jobs.list_unfinished()
    assert [(a.id, a.state, a.run_number) for a in found] == [
        (make.attempt(1).id, State.QUEUED, 0),
        (make.attempt(2).id, State.RUNNING, 1),
    ]


async def test_pages_go_through_all_attempts_newest_first_without_repeating(
    jobs: DatabaseJobStore, make: Make
) -> None:
    same_time = make.attempt(1).created_at
    for number in range(1, 8):
        await jobs.accept(make.attempt(number, created_at=same_time + timedelta(number // 3)), b"{}")
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await jobs.list(AttemptQuery(limit=3, cursor=cursor))
        seen += [attempt.id for attempt in page.attempts]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [make.attempt(number).id for number in range(7, 0, -1)]


@pytest.mark.parametrize("cursor", ["", "x", "1", "-1.a", "1e5.a", "٣.a", "9" * 30 + ".a"])
async def test_cursor_that_no_page_gave_is_refused(jobs: DatabaseJobStore, cursor: str) -> None:
    with pytest.raises(RequestError) as caught:
        await jobs.list(AttemptQuery(cursor=cursor))
    assert (caught.value.code, caught.value.field) == ("invalid", "cursor")


async def test_listing_is_narrowed_by_every_part_of_the_query(jobs: DatabaseJobStore, make: Make) -> None:
    other = Peer(uid=1, gid=1, pid=1)
    await jobs.accept(make.attempt(1, kind="fifth"), b"1")
    await jobs.accept(make.attempt(2, peer=other), b"2")
    await jobs.accept(make.attempt(3, batch_id="b", labels={"category": "sea", "platform": "p"}), b"3")
    await jobs.accept(make.attempt(4), b"4")
    failed = {"cause": "timeout", "rules": ("a.slow_x", "b.c")}
    await jobs.finish(make.finished(4, verdict=Verdict.FAILED, **failed))

    async def numbers(**wanted: Any) -> list[int]:
        return [int(a.id[2:]) for a in (await jobs.list(AttemptQuery(**wanted))).attempts]

    assert await numbers(kind="fifth") == [1]
    assert await numbers(uid=1) == [2]
    assert await numbers(batch_id="b") == [3]
    assert await numbers(labels=(("category", "sea"),)) == [3]
    assert await numbers(labels=(("category", "sea"), ("platform", "q"))) == []
    assert await numbers(verdict=Verdict.FAILED) == [4]
    assert await numbers(state=State.FINISHED) == [4]
    assert await numbers(state=State.QUEUED) == [3, 2, 1]
    assert await numbers(since=make.attempt(3).created_at) == [4, 3]
    assert await numbers(id_prefix=make.attempt(3).id) == [3]
    assert await numbers(id_prefix=make.attempt(3).id[:20]) == [4, 3, 2, 1]
    assert await numbers(id_prefix="Z") == []
    assert await numbers(cause="timeout") == [4]
    assert await numbers(rule="a.slow_x") == [4]
    assert await numbers(rule="a.slow-x") == []  # _ is no wildcard
    assert await numbers(rule="slow_x") == []


async def test_removable_attempts_are_the_finished_ones_that_are_old_enough(
    jobs: DatabaseJobStore, make: Make
) -> None:
    for number in (1, 2, 3):
        await jobs.accept(make.attempt(number), b"{}")
    await jobs.finish(make.finished(1))
    await jobs.finish(make.finished(3))
    found = await jobs.list_removable(RemovalQuery(before=make.attempt(3).created_at))
    assert found == (make.finished(1),)
    assert await jobs.list_removable(RemovalQuery(limit=1, offset=1)) == (make.finished(3),)


async def test_removed_attempt_leaves_nothing_but_shared_submissions(
    jobs: DatabaseJobStore, make: Make
) -> None:
    for number, document in ((1, b"shared"), (2, b"shared"), (3, b"own")):
        await jobs.accept(make.attempt(number), document)
    await jobs.lease(make.run(1))
    await jobs.finish(make.finished(1), [make.event()])
    await jobs.remove([make.attempt(1).id, make.attempt(3).id])
    assert await jobs.get(make.attempt(1).id) is None
    assert await jobs.events(make.attempt(1).id) == []
    assert await jobs.document(make.attempt(2).id) == b"shared"
    assert not (await jobs.accept(make.attempt(1), b"another")).existing


async def test_what_was_answered_is_there_after_reopening(tmp_path: Path, make: Make) -> None:
    async with open_job_store(tmp_path) as store:
        await store.accept(make.attempt(), b"{}")
        await store.finish(make.finished())
    async with open_job_store(tmp_path) as store:
        assert await store.get(make.attempt().id) == make.finished()


async def test_closing_finishes_what_was_asked_for(tmp_path: Path, make: Make) -> None:
    async with open_job_store(tmp_path) as store, asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(store.accept(make.attempt(n), b"{}")) for n in range(50)]
        await asyncio.sleep(0)
    assert all(not task.result().existing for task in asked)
    with pytest.raises(StoreError) as caught:
        await store.accept(make.attempt(99), b"{}")
    assert caught.value.code == "store.closed"


async def test_cancelled_caller_leaves_the_store_working(jobs: DatabaseJobStore, make: Make) -> None:
    async with asyncio.TaskGroup() as tasks:
        doomed = tasks.create_task(jobs.accept(make.attempt(1), b"{}"))
        await asyncio.sleep(0)
        doomed.cancel()
    assert not (await jobs.accept(make.attempt(2), b"{}")).existing


def test_store_implements_the_port(jobs: DatabaseJobStore) -> None:
    store: DatabaseJobStore = jobs
    assert store is jobs


@pytest.mark.parametrize("url", ["nonsense", "mysql+nodriver://h/d", "oracle://h/d"])
async def test_database_url_that_cannot_be_used_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_job_store(tmp_path, url):
            pass
    assert caught.value.code == "store.url"


async def test_usage_is_told_by_user_and_counts_equal_documents_once(
    jobs: DatabaseJobStore, make: Make
) -> None:
    other = Peer(uid=2000, gid=2000, pid=1)
    for number, peer, document in (
        (1, None, b"abc"),
        (2, None, b"abc"),
        (3, other, b"abc"),
        (4, other, b"defgh"),
    ):
        await jobs.accept(make.attempt(number, **({"peer": peer} if peer else {})), document)
    await jobs.finish(make.finished(1))
    assert await jobs.usage() == {
        1000: StoredUsage(  # the second one waits
            attempts=1, disk_bytes=4096, row_bytes=ROW_BYTES + 3, document_bytes=3
        ),
        2000: StoredUsage(document_bytes=8),
    }


async def test_attempt_without_its_bundle_keeps_its_verdict(jobs: DatabaseJobStore, make: Make) -> None:
    await jobs.accept(make.attempt(1), b"x")
    await jobs.finish(make.finished(1))
    await jobs.strip([make.attempt(1).id])
    assert await jobs.get(make.attempt(1).id) == make.finished(1, bundle=None, artifacts=())
    assert (await jobs.usage())[1000] == StoredUsage(attempts=1, row_bytes=ROW_BYTES + 1)
    assert await jobs.estimate_row_bytes([make.attempt(1).id, "none"]) == {make.attempt(1).id: ROW_BYTES + 1}
    assert await jobs.list_removable(RemovalQuery(bundled=True)) == ()
