"""What gateways on one database share: its space, webhook messages, and the work that they drive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from assayd.errors import RequestError
from assayd.model.batch import Batch, ItemCounts
from assayd.ports.driving import WorkKind
from assayd.store.outbox import Outbox, build_batch_message_row
from assayd.store.tables import webhook_messages
from support.cluster.gateways import CODE, PEER, one_gateway, silence, two_gateways
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

_LARGE = CODE + "# " + "." * 400_000
_MESSAGES = select(webhook_messages.c.id)


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.empty_database() as found:
        yield found


async def test_what_waits_in_the_database_leaves_a_tenant_less_room_at_every_gateway(
    tmp_path: Path, url: str
) -> None:
    async with one_gateway(tmp_path, url, "first", database_mb=1) as first:
        await first.beat("a")
        await first.submit(_LARGE + "first")
        async with one_gateway(tmp_path, url, "second", database_mb=1) as second:
            await second.beat("a")
            with pytest.raises(RequestError, match=r"of cluster.database_mb \(1\)") as caught:
                await second.submit(_LARGE + "second")
            assert caught.value.code == "quota.disk"
            await second.submit()
        await first.finish_all("a", 1)
    async with one_gateway(tmp_path, url, "third", database_mb=1) as third:
        await third.beat("a")
        await third.submit(_LARGE + "second")


async def test_message_that_another_gateway_writes_is_looked_at_at_once(tmp_path: Path, url: str) -> None:
    at = datetime.now(UTC)
    async with two_gateways(tmp_path, url) as (first, second):
        await first.cluster.readiness.check_nodes()
        outbox = Outbox(second.access)
        for name in ("a", "b"):  # after the first one, who sends has nothing to look at for a minute
            batch = Batch(
                id=name * 26,
                name=name,
                created_at=at,
                peer=PEER,
                concurrency=1,
                webhook="https://a.test/hook",
            )
            row = build_batch_message_row(batch, ItemCounts(), at)
            await second.access.write(lambda connection, row=row: outbox.add(connection, row))
            # Nobody lists that receiver: the message goes as soon as it is looked at.
            async with asyncio.timeout(30):
                while await first.access.read(lambda connection: connection.execute(_MESSAGES).all()):
                    await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", [WorkKind.REPAIR, WorkKind.GENERATION])
async def test_repair_and_generation_of_a_dead_gateway_are_anothers_then(
    tmp_path: Path, url: str, kind: WorkKind
) -> None:
    subject = "0" * 26
    async with two_gateways(tmp_path, url) as (first, second):
        assert await first.cluster.driving.claim(kind, subject)
        assert not await second.cluster.driving.claim(kind, subject)
        await silence(first, "gateways", "id", first.cluster.gateway_id)
        estate = await second.cluster.membership.adopt_orphaned_work()
        assert estate.driven == [(kind, subject)]
        assert await second.cluster.driving.claim(kind, subject)
        assert not await first.cluster.driving.claim(kind, subject)
