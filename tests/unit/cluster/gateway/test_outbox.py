"""Who publishes learns when a message is safe, also where the broker was away before.

Messages are sent together, are as Celery makes them, and are safe once they are confirmed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from amqp.exceptions import MessageNacked

from assayd_cluster.broker import EXCHANGE, TASK, create_celery
from assayd_cluster.gateway import outbox
from assayd_cluster.gateway.outbox import AWAY, BrokerChannel, BrokerMessage, BrokerPublisher, DispatchOutbox
from support.cluster.silent_broker import OPEN_CHANNEL, PUBLISH, SELECT_CONFIRMS, broker_silent_from
from support.cluster.stub_broker import StubBroker

QUEUE = "assayd.attempts"
FIRST, SECOND = (BrokerMessage(attempt=f"01{n}", submission="0" * 64, ticket=f"ticket-{n}") for n in (1, 2))


def channel_to(*brokers: StubBroker) -> BrokerChannel:
    app, coming = create_celery("memory://", queue=QUEUE), iter(brokers)
    app.connection_for_write = lambda **_: next(coming)
    return BrokerChannel(app)


def test_messages_are_sent_before_the_first_confirm_is_waited_for() -> None:
    broker = StubBroker()
    channel_to(broker).send([FIRST, SECOND])
    assert [each.correlation_id for each in _properties(broker)] == ["011", "012"]
    assert broker.asked_after == [2]


def test_message_is_what_celery_makes() -> None:
    broker = StubBroker()
    channel_to(broker).send([FIRST])
    [sent] = broker.published
    arguments = {"attempt": "011", "submission": "0" * 64, "ticket": "ticket-1"}
    headers, properties, body, _ = create_celery("memory://", queue=QUEUE).amqp.as_task_v2(
        "011", TASK, kwargs=arguments
    )
    assert sent.body == json.loads(json.dumps(body))
    assert {**sent.headers, "kwargsrepr": ""} == {**headers, "kwargsrepr": ""}
    assert "ticket-1" not in sent.headers["kwargsrepr"]
    assert sent.properties == {**properties, "delivery_mode": 2}
    assert (sent.content_type, sent.content_encoding) == ("application/json", "utf-8")
    assert sent.place | {"timeout": 0} == {
        "exchange": EXCHANGE,
        "routing_key": QUEUE,
        "mandatory": True,
        "timeout": 0,
    }


def test_message_carries_the_span_that_the_node_continues() -> None:
    broker = StubBroker()
    channel_to(broker).send([replace(FIRST, trace="00-1-2-01"), SECOND])
    with_span, without = (sent.body[1] for sent in broker.published)
    assert with_span["trace"] == "00-1-2-01"
    assert "trace" not in without


def test_confirms_one_by_one_and_out_of_order_are_waited_for() -> None:
    broker, tags = StubBroker(), iter((2, 1))
    broker.answer = lambda broker: broker.tell("ack", next(tags), multiple=False)
    channel_to(broker).send([FIRST, SECOND])
    assert broker.asked_after == [2, 2]


def test_connection_that_was_lost_meanwhile_is_made_anew() -> None:
    lost, fresh = StubBroker(), StubBroker()
    channel = channel_to(lost, fresh)
    channel.send([FIRST])
    lost.lost = True
    channel.send([SECOND])
    assert [each.headers["id"] for each in fresh.published] == ["012"]
    assert (lost.dropped, lost.closed) == (True, False)  # closing asks for an answer


def test_message_that_the_broker_refuses_is_an_error_and_the_next_has_a_fresh_connection() -> None:
    full, fresh = StubBroker(), StubBroker()
    full.answer = lambda broker: broker.tell("nack", 1)
    channel = channel_to(full, fresh)
    with pytest.raises(MessageNacked):
        channel.send([FIRST])
    channel.send([FIRST])
    assert (full.dropped, len(fresh.published)) == (True, 1)


@pytest.mark.parametrize(
    "step", [OPEN_CHANNEL, SELECT_CONFIRMS, PUBLISH], ids=["channel", "confirms", "message"]
)
def test_a_broker_that_falls_silent_is_away(step: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "CONFIRMED_WITHIN_S", 0.5)
    with broker_silent_from(step) as url, pytest.raises(AWAY):
        BrokerChannel(create_celery(url, queue=QUEUE)).send([FIRST])


def _properties(broker: StubBroker) -> list[Any]:
    return [SimpleNamespace(**each.properties) for each in broker.published]


class Noting:
    """The needed part of the outbox."""

    async def record_published(self, attempt_ids: Sequence[str]) -> None:
        """Record the call."""


async def publish(
    *brokers: StubBroker, messages: Sequence[BrokerMessage]
) -> tuple[BrokerPublisher, list[str]]:
    app, coming, counted = create_celery("memory://", queue="assayd.attempts"), iter(brokers), list[str]()
    app.connection_for_write = lambda **_: next(coming)
    publisher = BrokerPublisher(app)
    async with publisher.running(cast("DispatchOutbox", Noting()), counted.append):
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
