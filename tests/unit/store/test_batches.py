from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from assayd.errors import RequestError, StoreError
from assayd.model.attempt import Failure
from assayd.model.batch import Batch, BatchLine, BatchState, ItemCounts
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.attempt_queries import RemovalQuery
from assayd.store.batches import SMALL_BYTES, DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore

Make = Any  # the fixture's class; test folders are not a package

PEER = Peer(uid=1000, gid=1000, pid=42)


@pytest.fixture
def batches(jobs: DatabaseJobStore) -> DatabaseBatchStore:
    return DatabaseBatchStore(jobs.access)


def batch(make: Make, number: int = 1, **values: object) -> Batch:
    attempt = make.attempt(900 + number)
    given = {"id": attempt.id, "name": f"b{number}", "peer": PEER, "created_at": attempt.created_at}
    return Batch(**{**given, "concurrency": 8, **values})  # type: ignore[arg-type]


def line(make: Make, number: int, content: str = "x", **values: object) -> BatchLine:
    given = {"input_digest": content * 8, "document": content.encode(), "attempt_id": make.attempt(number).id}
    return BatchLine(number=number, **{**given, **values})  # type: ignore[arg-type]


async def opened(batches: DatabaseBatchStore, make: Make, *lines: BatchLine, **values: object) -> Batch:
    new = await batches.open(batch(make, **values), max_unfinished=10)
    await batches.add(new.id, lines)
    return new


async def test_opened_batch_is_given_back_as_it_was(batches: DatabaseBatchStore, make: Make) -> None:
    new = batch(make, dedupe=True)
    assert await batches.open(new, max_unfinished=10) == new
    assert await batches.get(new.id) == new == await batches.find(1000, "b1")
    assert await batches.find(1001, "b1") is None
    assert new.state is BatchState.OPEN


async def test_opening_it_again_sets_it_to_go_on(batches: DatabaseBatchStore, make: Make) -> None:
    new = await batches.open(batch(make), max_unfinished=10)
    await batches.cancel(new.id, new.created_at)
    again = batch(make, number=2, name="b1", concurrency=3, dedupe=True)
    assert await batches.open(again, max_unfinished=0) == replace(new, concurrency=3, dedupe=True)
    assert (await batches.get(new.id) or new).cancelled_at is None


async def test_new_batch_beyond_the_users_quota_is_refused(batches: DatabaseBatchStore, make: Make) -> None:
    for number in (1, 2):
        await batches.open(batch(make, number), max_unfinished=2)
    with pytest.raises(RequestError) as caught:
        await batches.open(batch(make, 3), max_unfinished=2)
    assert caught.value.code == "quota.full"
    await batches.open(batch(make, 4, peer=Peer(uid=1, gid=1, pid=1)), max_unfinished=2)
    await batches.cancel(batch(make, 1).id, batch(make).created_at)
    await batches.open(batch(make, 3), max_unfinished=2)


async def test_waiting_items_are_those_without_a_verdict_in_line_order(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    error = Failure(code="malformed", message="no")
    bad = BatchLine(number=3, input_digest="d", error=error)
    new = await opened(batches, make, line(make, 4), bad, line(make, 1), line(make, 2))
    await jobs.accept(make.attempt(1, batch_id=new.id), b"x")
    await jobs.accept(make.attempt(2, batch_id=new.id), b"x")
    await jobs.finish(make.finished(2))
    found = [(each.line, each.accepted) for each in await batches.waiting(new.id, after=0, limit=10)]
    assert found == [(1, True), (4, False)]
    assert [each.line for each in await batches.waiting(new.id, after=1, limit=10)] == [4]
    assert await batches.document((await batches.waiting(new.id, after=0, limit=1))[0].submission) == b"x"


async def test_small_document_comes_with_its_waiting_item_and_a_large_one_is_read_by_itself(
    batches: DatabaseBatchStore, make: Make
) -> None:
    large = b"l" * (SMALL_BYTES + 1)
    new = await opened(batches, make, line(make, 1), line(make, 2, "l", document=large))
    small, other = await batches.waiting(new.id, after=0, limit=10)
    assert (small.document, other.document) == (b"x", None)
    assert await batches.document(other.submission) == large


async def test_backlog_counts_items_without_a_verdict_of_unfinished_batches(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    error = Failure(code="malformed", message="no")
    bad = BatchLine(number=3, input_digest="d", error=error)
    new = await opened(batches, make, line(make, 1), line(make, 2), bad)
    await jobs.accept(make.attempt(1, batch_id=new.id), b"x")
    await jobs.finish(make.finished(1))
    assert await batches.count_unfinished_items() == 1
    await batches.cancel(new.id, make.attempt(9).created_at)
    assert await batches.count_unfinished_items() == 0


async def test_items_tell_what_became_of_each_line(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    new = await opened(batches, make, line(make, 1), line(make, 2), line(make, 3))
    await jobs.accept(make.attempt(1, batch_id=new.id), b"x")
    await jobs.finish(make.finished(1, verdict=Verdict.FAILED, rules=("a.b", "c.d")))
    await batches.refuse(new.id, 2, Failure(code="policy.unknown", message="gone"))
    first, second, third = await batches.items(new.id, after=0, limit=10)
    assert (first.verdict, first.cause, first.rules) == (Verdict.FAILED, "completed", ("a.b", "c.d"))
    assert (second.verdict, second.error) == (Verdict.ERROR, Failure(code="policy.unknown", message="gone"))
    assert (third.verdict, third.error) == (None, None)
    assert await batches.tally(new.id) == ItemCounts(total=3, waiting=1, failed=1, error=1, malformed=1)
    await batches.cancel(new.id, new.created_at)
    assert (await batches.items(new.id, after=2, limit=10))[0].verdict is Verdict.CANCELLED
    assert await batches.tally(new.id) == ItemCounts(total=3, cancelled=1, failed=1, error=1, malformed=1)


async def test_batch_ends_when_it_is_complete_and_every_item_has_its_verdict(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    new = await opened(batches, make, line(make, 1))
    at = new.created_at + timedelta(1)
    await batches.complete(new.id)
    assert not await batches.finish(new.id, at)
    await jobs.accept(make.attempt(1, batch_id=new.id), b"x")
    await jobs.finish(make.finished(1))
    assert await batches.list_unfinished() == [replace(new, complete=True)]
    assert await batches.finish(new.id, at)
    assert await batches.list_unfinished() == []
    found = await batches.get(new.id)
    assert found is not None
    assert (found.state, found.finished_at) == (BatchState.FINISHED, at)
    await batches.add(new.id, [line(make, 2)])
    assert len(await batches.list_unfinished()) == 1


async def test_batch_that_was_not_sent_to_its_end_does_not_end(
    batches: DatabaseBatchStore, make: Make
) -> None:
    new = await opened(batches, make)
    assert not await batches.finish(new.id, new.created_at)


async def test_pages_go_through_all_batches_newest_first(batches: DatabaseBatchStore, make: Make) -> None:
    same = batch(make).created_at
    for number in range(1, 6):
        await batches.open(batch(make, number, created_at=same), max_unfinished=10)
    await batches.open(batch(make, 9, peer=Peer(uid=1, gid=1, pid=1)), max_unfinished=10)
    seen, cursor = [], None
    while True:
        page = await batches.list(uid=1000, cursor=cursor, limit=2)
        seen += [each.name for each in page.batches]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ["b5", "b4", "b3", "b2", "b1"]
    assert len((await batches.list(uid=None, cursor=None, limit=10)).batches) == 6
    with pytest.raises(RequestError):
        await batches.list(uid=None, cursor="x", limit=2)


async def test_submission_of_an_item_stays_when_the_attempt_with_the_same_goes(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    new = await opened(batches, make, line(make, 1))
    await jobs.accept(make.attempt(7), b"x")
    await jobs.finish(make.finished(7))
    await jobs.remove([make.attempt(7).id])
    (item,) = await batches.waiting(new.id, after=0, limit=10)
    assert await batches.document(item.submission) == b"x"


async def test_batch_goes_with_the_first_of_its_attempts(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    new = await opened(batches, make, line(make, 1), line(make, 2, "y"))
    for number, document in ((1, b"x"), (2, b"y")):
        await jobs.accept(make.attempt(number, batch_id=new.id), document)
        await jobs.finish(make.finished(number))
    await batches.complete(new.id)
    assert await jobs.list_removable(RemovalQuery()) == ()
    await batches.finish(new.id, new.created_at)
    assert len(await jobs.list_removable(RemovalQuery())) == 2

    await jobs.remove([make.attempt(1).id])

    assert await batches.get(new.id) is None
    assert await jobs.document(make.attempt(2).id) == b"y"
    with pytest.raises(StoreError):
        await jobs.document(make.attempt(1).id)


async def test_batch_without_attempts_goes_when_it_is_old(batches: DatabaseBatchStore, make: Make) -> None:
    malformed = BatchLine(number=1, input_digest="d", error=Failure(code="malformed", message="no"))
    old = await opened(batches, make, malformed)
    await batches.complete(old.id)
    await batches.finish(old.id, old.created_at)
    running = await opened(batches, make, line(make, 1), number=2)
    await batches.complete(running.id)
    await batches.delete_expired(old.created_at, unless=frozenset())
    assert await batches.get(old.id) is not None
    later = old.created_at + timedelta(days=1)
    await batches.delete_expired(later, unless=frozenset({old.id}))
    assert await batches.get(old.id) is not None
    await batches.delete_expired(later, unless=frozenset())
    assert await batches.get(old.id) is None
    assert await batches.get(running.id) is not None


async def test_attempts_of_a_batch_that_somebody_sends_to_stay(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    new = await opened(batches, make, line(make, 1))
    await jobs.accept(make.attempt(1, batch_id=new.id), b"x")
    await jobs.finish(make.finished(1))
    await batches.complete(new.id)
    await batches.finish(new.id, new.created_at)
    sent = frozenset({new.id})
    assert await jobs.list_removable(RemovalQuery(uploads=sent)) == ()
    assert len(await jobs.list_removable(RemovalQuery(uploads=sent, bundled=True))) == 1

    await jobs.remove([make.attempt(1).id], unless=sent)

    assert await batches.get(new.id) is not None
    assert await jobs.get(make.attempt(1).id) is not None


async def test_lines_of_a_batch_that_was_removed_are_refused(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    new = await opened(batches, make)
    await batches.delete_expired(new.created_at + timedelta(days=1), unless=frozenset())
    with pytest.raises(RequestError, match="send the whole batch again") as caught:
        await batches.add(new.id, [line(make, 1)])
    assert (caught.value.code, caught.value.retryable) == ("batch.removed", True)


async def test_silent_are_the_old_ones_that_were_not_sent_to_their_end(
    batches: DatabaseBatchStore, make: Make
) -> None:
    broken_off, sent = await opened(batches, make, number=1), await opened(batches, make, number=2)
    await batches.complete(sent.id)
    assert await batches.silent(broken_off.created_at) == []
    assert [batch.id for batch in await batches.silent(sent.created_at + timedelta(days=1))] == [
        broken_off.id
    ]


async def test_lines_that_wait_count_as_their_users_also_when_they_were_cancelled(
    batches: DatabaseBatchStore, jobs: DatabaseJobStore, make: Make
) -> None:
    new = await opened(batches, make, line(make, 1, "x"), line(make, 2, "yy"), line(make, 3, "yy"))
    assert (await jobs.usage())[1000].document_bytes == 3
    await jobs.accept(make.attempt(1, batch_id=new.id), b"x")
    await jobs.finish(make.finished(1))
    await batches.cancel(new.id, new.created_at)
    assert (await jobs.usage())[1000].document_bytes == 2
