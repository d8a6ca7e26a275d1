"""Webhook messages are recorded in the same transaction as their subject."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from assayd.model.batch import Batch, BatchLine
from assayd.model.submission import Peer
from assayd.store.attempt_queries import RemovalQuery
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.outbox import Outbox
from assayd.store.tables import webhook_messages
from support.stores.stored_attempts import START

Make = Any  # the fixture's class; test folders are not a package

URL = "https://ci.example/hooks?team=7"
LATER = START + timedelta(days=1)
PEER = Peer(uid=1000, gid=1000, pid=42)


async def told(jobs: DatabaseJobStore) -> list[tuple[str, dict[str, Any]]]:
    """Return the id and content of every recorded message."""
    rows = await jobs.access.read(lambda connection: connection.execute(select(webhook_messages)).all())
    return [(row.id, json.loads(row.body)) for row in rows]


async def finish(jobs: DatabaseJobStore, make: Make, number: int = 1, **values: object) -> bool:
    await jobs.accept(make.attempt(number, **values), b"{}")
    return await jobs.finish(make.finished(number, **values))


async def test_verdict_is_told_with_it_and_only_once(jobs: DatabaseJobStore, make: Make) -> None:
    assert await finish(jobs, make, webhook=URL)
    assert jobs.access.messages_added.is_set()
    later = replace(make.finished(webhook=URL), finished_at=LATER)
    assert not await jobs.finish(later)
    [(message_id, body)] = await told(jobs)
    assert message_id.startswith(f"attempt_{make.attempt().id}_")
    assert (body["type"], body["data"]["verdict"]) == ("attempt.finished", "validated")


async def test_attempt_that_names_nobody_is_not_told(jobs: DatabaseJobStore, make: Make) -> None:
    await finish(jobs, make)
    assert await told(jobs) == []
    assert not jobs.access.messages_added.is_set()


async def test_message_outlives_the_attempt_that_it_tells_of(jobs: DatabaseJobStore, make: Make) -> None:
    await finish(jobs, make, webhook=URL)
    old = await jobs.list_removable(RemovalQuery(before=LATER))
    await jobs.remove([attempt.id for attempt in old])
    assert await jobs.get(make.attempt().id) is None
    assert len(await told(jobs)) == 1


async def test_end_of_a_batch_is_told_and_its_cancelling_once(jobs: DatabaseJobStore, make: Make) -> None:
    batches = DatabaseBatchStore(jobs.access)
    for number, name in enumerate(("finished", "cancelled", "silent")):
        batch = Batch(
            id=make.attempt(900 + number).id,
            name=name,
            peer=PEER,
            created_at=START,
            concurrency=1,
            webhook=URL if name != "silent" else None,
        )
        assert await batches.open(batch, max_unfinished=10) == batch
        line = BatchLine(number=1, input_digest="x", document=b"{}", attempt_id=make.attempt(number).id)
        await batches.add(batch.id, [line])
        await batches.complete(batch.id)
        if name == "finished":
            assert not await batches.finish(batch.id, LATER)
            assert await told(jobs) == []
            await finish(jobs, make, number)
            assert await batches.finish(batch.id, LATER)
            assert await batches.finish(batch.id, LATER + timedelta(seconds=1))  # it is, and not told again
        else:
            for again in range(2):
                await batches.cancel(batch.id, LATER + timedelta(seconds=again))
    bodies = [body["data"] for _, body in await told(jobs)]
    assert [(body["name"], body["state"]) for body in bodies] == [
        ("finished", "finished"),
        ("cancelled", "cancelled"),
    ]
    assert [body["counts"]["validated"] for body in bodies] == [1, 0]


async def test_each_user_and_origin_has_its_first_messages_due(jobs: DatabaseJobStore, make: Make) -> None:
    outbox = Outbox(jobs.access)
    others = {"peer": Peer(uid=7, gid=7, pid=1)}
    for number in range(3):
        await finish(jobs, make, number, webhook=URL)
    await finish(jobs, make, 3, webhook="https://other.example/")
    await finish(jobs, make, 4, webhook=URL, **others)
    due = await outbox.list_due(LATER, each=2)
    assert sorted((one.uid, one.origin) for one in due) == [
        (7, "https://ci.example"),
        (1000, "https://ci.example"),
        (1000, "https://ci.example"),
        (1000, "https://other.example"),
    ]
    assert await outbox.list_due(START, each=2) == []
    assert await outbox.next_try_at(START) == min(one.next_try_at for one in due)
    await outbox.postpone(due[0].id, tries=3, until=LATER + timedelta(hours=1))
    later = [one for one in await outbox.list_due(LATER + timedelta(days=1), each=9) if one.tries]
    assert [(one.id, one.tries, one.url) for one in later] == [(due[0].id, 3, due[0].url)]
    assert ((await outbox.count_undelivered()).count, await outbox.waiting(1000)) == (1, 4)
