"""Nodes that receive messages and claim nothing are drained; others aren't."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from assayd_cluster.gateway.broker_accounts import SharedAccount
from assayd_cluster.gateway.failing_nodes import NodeFailureCounter
from assayd_cluster.gateway.queue_watch import RECENT_WINDOW_S, QueueMonitor, QueueReaderMonitor
from assayd_cluster.nodes import FAILING_REASON, DatabaseNodes
from support.cluster.gateways import OneGateway, one_gateway
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres
READER, LIMIT = "reads", 8
"""A node with four places, and twice this number."""


class Accounts(SharedAccount):
    """Accounts with the given numbers of received messages."""

    def __init__(self) -> None:
        self.received: dict[str, int] = {}
        self.suspended: list[str] = []

    async def count_deliveries(self) -> Mapping[str, int]:
        return self.received

    async def suspend(self, node: str) -> None:
        self.suspended.append(node)


class Readers:
    """A gateway with the nodes `reads` and `works`, and its monitor of readers."""

    def __init__(self, gateway: OneGateway) -> None:
        self.gateway, self.accounts, self.now = gateway, Accounts(), 0.0
        self.queue = QueueMonitor(lambda: self.now)
        self.queue.record_republished_attempt()
        failing = NodeFailureCounter(gateway.access, self.accounts)
        self._readers = QueueReaderMonitor(gateway.access, self.accounts, failing, self.queue)

    async def receive(self, *counts: int, node: str = READER) -> None:
        """Look at the readers once for each of these numbers of messages that a node has received."""
        for count in counts:
            self.accounts.received[node] = count
            await self._readers.check()

    async def why(self) -> str:
        return {node.name: node.why for node in await DatabaseNodes(self.gateway.access).list()}[READER]


@pytest.fixture
async def readers(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[Readers]:
    with postgres.empty_database() as url:
        async with one_gateway(tmp_path, url) as gateway:
            for node in (READER, "works"):
                await gateway.beat(node)
            yield Readers(gateway)


async def test_node_that_keeps_receiving_messages_and_claims_none_is_drained(readers: Readers) -> None:
    await readers.receive(100, 104, 104, 108)
    assert (await readers.why(), readers.queue.unclaimed_by_node) == ("", {READER: 8})
    await readers.receive(100 + LIMIT + 1)
    assert (await readers.why(), readers.accounts.suspended) == (FAILING_REASON, [READER])


@pytest.mark.parametrize(
    "counts",
    [(100, 101, 102, 103, 100 + LIMIT), (100, 200, 200, 200), (100, 104, 108, 4, 8, 12)],
    ids=["a few in its hands", "all at once", "after it has connected again"],
)
async def test_node_that_may_be_slow_or_hang_is_not_drained(
    readers: Readers, counts: tuple[int, ...]
) -> None:
    await readers.receive(*counts)
    assert (await readers.why(), readers.accounts.suspended) == ("", [])


async def test_node_that_claims_a_run_is_not_drained(readers: Readers) -> None:
    await readers.receive(100, 110, 120)
    await readers.gateway.submit()
    await readers.gateway.claim(READER, await readers.gateway.messages.next())
    await readers.receive(130, 140, 150)
    assert (await readers.why(), readers.accounts.suspended) == ("", [])


async def test_messages_are_not_counted_while_all_are_claimed(readers: Readers) -> None:
    readers.now = RECENT_WINDOW_S + 1
    await readers.receive(100, 200, 300, 400)
    readers.queue.record_republished_attempt()
    await readers.receive(500)
    assert (await readers.why(), readers.accounts.suspended) == ("", [])


async def test_account_of_a_node_that_never_started_is_suspended(readers: Readers) -> None:
    await readers.receive(0, 1, 2, 3, node="stolen")
    assert readers.accounts.suspended == ["stolen"]
