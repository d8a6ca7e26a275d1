"""Broker accounts of nodes on a real RabbitMQ: their permissions, and that they end with the token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from amqp.exceptions import AccessRefused, AMQPError
from kombu import Connection, Consumer, Exchange, Queue

from assayd.errors import RequestError
from assayd_cluster.broker import create_celery
from assayd_cluster.gateway.broker_accounts import ManagedAccounts
from assayd_cluster.gateway.queue_watch import QueueLengthReader
from support.cluster.broker import QUEUE, Broker, needs_broker

pytestmark = needs_broker
TOKEN, OTHER = "01JTC8ZK5V7777777777777777", "01JTC8ZK5V8888888888888888"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with TemporaryDirectory(prefix="broker-", dir="/tmp") as folder:
        broker = Broker(Path(folder), management=True)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


@pytest.fixture
def accounts(broker: Broker) -> ManagedAccounts:
    management, gateway = [broker.url_file(role).read_text().strip() for role in ("management", "gateway")]
    return ManagedAccounts(management, gateway, queue=QUEUE, ca_file=None)


def consumer(connection: Connection) -> Consumer:
    queue = Queue(QUEUE, Exchange("assayd", type="direct", no_declare=True), no_declare=True)
    return Consumer(
        connection.channel(), [queue], accept=["json"], callbacks=[lambda body, message: message.ack()]
    )


async def test_stolen_account_ends_with_its_token(accounts: ManagedAccounts) -> None:
    url = await accounts.create("node-1", TOKEN)
    assert url is not None
    with Connection(url) as connection:
        with consumer(connection):
            await accounts.remove("node-1", TOKEN)
            with pytest.raises(AMQPError, match="deleted"):
                connection.drain_events(timeout=10)
        connection.collect()
    with Connection(url) as connection:
        with pytest.raises(AccessRefused):
            connection.connect()
        connection.collect()
    await accounts.remove("node-1", TOKEN)  # once more changes nothing


async def test_suspended_account_reads_nothing_until_it_is_restored(accounts: ManagedAccounts) -> None:
    url, other = await accounts.create("node-6", TOKEN), await accounts.create("node-6.b", OTHER)
    assert url is not None
    assert other is not None
    with Connection(url) as connection:
        with consumer(connection):
            await accounts.suspend("node-6")
            with pytest.raises(AMQPError):
                connection.drain_events(timeout=10)
        connection.collect()
    with Connection(url) as connection:
        with pytest.raises(AccessRefused), consumer(connection):
            pass
        connection.collect()
    with Connection(other) as connection, consumer(connection):
        pass
    await accounts.restore("node-6")
    with Connection(url) as connection, consumer(connection):
        pass
    for node, token in (("node-6", TOKEN), ("node-6.b", OTHER)):
        await accounts.remove(node, token)


async def test_account_of_a_node_reads_the_queue_and_does_nothing_else(accounts: ManagedAccounts) -> None:
    url = await accounts.create("node-2", TOKEN)
    assert url is not None
    with Connection(url) as connection:
        with consumer(connection):
            pass
        for refused in (
            lambda channel: channel.basic_publish(
                channel.prepare_message("x", content_encoding="utf-8"), exchange="assayd"
            ),
            lambda channel: channel.queue_declare("other"),
            lambda channel: channel.queue_purge("assayd.undelivered"),
        ):
            with pytest.raises(AccessRefused):
                _asked(connection, refused)
    await accounts.remove("node-2", TOKEN)


def _asked(connection: Connection, what: Callable[[Any], object]) -> None:
    channel = connection.channel()
    what(channel)
    channel.queue_declare(QUEUE, passive=True)  # with its answer comes a refusal that nothing waited for


async def test_readers_of_the_queue_are_known_by_their_tokens(accounts: ManagedAccounts) -> None:
    await accounts.create("node-3", TOKEN)
    await accounts.create("node-4.example", OTHER)
    readers = await accounts.list_readers()
    assert readers is not None
    assert (set(readers.tokens), readers.others) == ({TOKEN, OTHER}, ["node"])  # that of the definitions
    for node, token in (("node-3", TOKEN), ("node-4.example", OTHER)):
        await accounts.remove(node, token)


async def test_messages_are_counted_for_the_node_that_receives_them(
    accounts: ManagedAccounts, broker: Broker
) -> None:
    url = await accounts.create("node-7.a", TOKEN)
    assert url is not None
    with Connection(url) as connection, consumer(connection):
        connection.channel()  # one that receives nothing
        broker.publish([f"01JTC8ZK5V777777777777777{n}" for n in range(3)])
        async with asyncio.timeout(30):  # the broker refreshes its numbers every five seconds
            while await accounts.count_deliveries() != {"node-7.a": 3}:
                await asyncio.sleep(0.2)
                with suppress(TimeoutError):
                    connection.drain_events(timeout=0.1)
    await accounts.remove("node-7.a", TOKEN)


async def test_management_that_refuses_or_is_away_is_told(broker: Broker) -> None:
    management, gateway = [broker.url_file(role).read_text().strip() for role in ("management", "gateway")]
    for url, said in (
        (management.replace("management:", "management:x"), "401"),
        ("http://127.0.0.1:9", "Conn"),
    ):
        accounts = ManagedAccounts(url, gateway, queue=QUEUE, ca_file=None)
        with pytest.raises(RequestError, match=said) as refused:
            await accounts.create("node-5", TOKEN)
        assert refused.value.retryable
        assert "x@" not in refused.value.message


def test_gateways_account_counts_what_waits(broker: Broker) -> None:
    waiting = QueueLengthReader(create_celery(broker.url_file("gateway").read_text().strip(), queue=QUEUE))
    assert waiting.count() == 0  # and the connection is used again
    broker.publish([f"01JTC8ZK5V777777777777777{n}" for n in range(3)])
    until = time.monotonic() + 10
    while waiting.count() != 3:
        assert time.monotonic() < until
    with Connection(broker.url_file("node").read_text().strip()) as connection:
        channel, taken = connection.channel(), 0
        while taken < 3:
            message = channel.basic_get(QUEUE)
            if message is not None:
                channel.basic_ack(message.delivery_tag)
                taken += 1
    assert waiting.count() == 0
    waiting.close()
