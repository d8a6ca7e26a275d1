"""Who publishes learns when a message is safe, also where the broker was away before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from assayd_cluster.broker import make_celery
from assayd_cluster.gateway.dispatches import Dispatches, Message
from assayd_cluster.gateway.publisher import Publisher
from support.cluster.stub_broker import StubBroker

FIRST, SECOND = (Message(attempt=f"01{n}", submission="0" * 64, ticket="t") for n in (1, 2))


class Noting:
    """The outbox, of which one thing is asked."""

    async def published(self, attempt_ids: Sequence[str]) -> None:
        """Take note."""


async def publish(*brokers: StubBroker, messages: Sequence[Message]) -> tuple[Publisher, list[str]]:
    app, coming, counted = make_celery("memory://", queue="assayd.attempts"), iter(brokers), list[str]()
    app.connection_for_write = lambda **_: next(coming)
    publisher = Publisher(app)
    publisher.count = counted.append
    async with publisher.running(cast("Dispatches", Noting())):
        await asyncio.gather(*(publisher.publish(message) for message in messages))
    return publisher, counted


async def test_message_is_published_once_it_is_confirmed() -> None:
    broker = StubBroker()
    publisher, counted = await publish(broker, messages=[FIRST, SECOND])
    assert {each.headers["id"] for each in broker.published} == {"011", "012"}
    assert (counted, publisher.problem) == (["published", "published"], "")


async def test_message_is_sent_again_until_the_broker_takes_it() -> None:
    away, back = StubBroker(), StubBroker()
    away.lost = True
    publisher, counted = await publish(away, back, messages=[FIRST])
    assert [each.headers["id"] for each in back.published] == ["011"]
    assert (counted, publisher.problem) == (["failed", "published"], "")
