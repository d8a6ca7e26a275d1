from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from assayd.errors import RequestError
from assayd.metrics import Metrics
from assayd.model.health import HealthStatus
from assayd.model.hosts import WebhookMessage, parse_webhook_url
from assayd.store.access import DatabaseAccess, open_access
from assayd.store.outbox import Outbox
from assayd.store.tables import to_micros, webhook_messages
from assayd.webhooks import EACH, NotDeliveredError, OutgoingMessage, Receiver, WebhookLimits, WebhookSender
from support.stores.empty_database import lay_database

START = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)
LISTED = (
    Receiver(name="ci", url=parse_webhook_url("https://ci.example/hooks/"), key=b"k" * 32),
    Receiver(name="dead", url=parse_webhook_url("https://dead.example/"), key=b"k" * 32),
)


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return 0.0


class FakeCourier:
    """Delivers as configured; `sent` are the posts so far."""

    def __init__(self) -> None:
        self.sent: list[OutgoingMessage] = []
        self.fails: dict[str, list[Exception]] = {}
        self.hangs: set[str] = set()
        self.reason: str | None = None
        self.changed = asyncio.Condition()

    async def deliver(self, post: OutgoingMessage) -> None:
        async with self.changed:
            self.sent.append(post)
            self.changed.notify_all()
        if post.url.host in self.hangs:
            await asyncio.Event().wait()
        if failures := self.fails.get(post.url.host):
            raise failures.pop(0)

    async def addresses(self, receiver: Receiver, uid: int) -> tuple[str, ...]:
        if self.reason is not None:
            raise NotDeliveredError(self.reason)
        return ("93.184.216.34",)

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(lambda: len(self.sent) >= count)


class World:
    """A sender on a real store."""

    def __init__(self, access: DatabaseAccess, limits: WebhookLimits) -> None:
        self.access, self.clock, self.courier = access, HandClock(), FakeCourier()
        self.store, self.metrics = Outbox(access), Metrics()
        self.sender = WebhookSender(
            LISTED,
            store=self.store,
            courier=self.courier,  # type: ignore[arg-type]
            clock=self.clock,
            metrics=self.metrics,
            added=access.messages_added,
            limits=limits,
        )

    async def add(self, name: str, url: str = "https://ci.example/hooks/a", uid: int = 1000) -> None:
        at = to_micros(self.clock.time)
        row = {
            "id": name,
            "uid": uid,
            "url": url,
            "origin": parse_webhook_url(url).origin,
            "body": '{"a":1}',
            "created_at": at,
            "tries": 0,
            "next_try_at": at,
        }
        await self.access.write(lambda connection: connection.execute(insert(webhook_messages), row).close())
        self.access.messages_added.set()

    async def until(self, settled: Callable[[], object]) -> None:
        """Wait until a condition on the sender's counters holds."""
        async with asyncio.timeout(10):
            while not settled():
                await asyncio.sleep(0)

    def tries(self, outcome: str) -> float:
        return (
            self.metrics.registry.get_sample_value("assayd_webhook_tries_total", {"outcome": outcome}) or 0.0
        )

    def pass_time(self, seconds: float) -> None:
        self.clock.time += timedelta(seconds=seconds)
        self.access.messages_added.set()


@pytest.fixture
async def access(tmp_path: Path, database_url: str | None) -> AsyncIterator[DatabaseAccess]:
    if database_url is None:
        lay_database(tmp_path)
    async with open_access(tmp_path, database_url) as access:
        yield access


@pytest.fixture
def world(access: DatabaseAccess) -> World:
    return World(access, WebhookLimits(waiting_per_uid=3))


async def test_message_is_sent_once_and_forgotten(world: World) -> None:
    await world.add("m1")
    async with world.sender.running():
        await world.until(lambda: world.tries("delivered") == 1)
    [post] = world.courier.sent
    assert (post.headers["webhook-id"], post.body, post.url.target) == ("m1", b'{"a":1}', "/hooks/a")
    assert await world.store.waiting(1000) == 0


async def test_what_fails_is_sent_again_later_and_later_under_the_same_id(world: World) -> None:
    world.courier.fails["ci.example"] = [NotDeliveredError("status 500"), NotDeliveredError("timeout")]
    await world.add("m1")
    async with world.sender.running():
        for failed, pause_s in enumerate((2.0, 4.0), 1):
            await world.until(lambda failed=failed: world.tries("failed") == failed)
            [waiting] = await world.store.list_due(START + timedelta(days=1), each=9)
            wait_s = (waiting.next_try_at - world.clock.time).total_seconds()
            assert pause_s <= wait_s <= pause_s * 1.25
            assert len(world.courier.sent) == failed
            world.pass_time(wait_s)
        await world.until(lambda: world.tries("delivered") == 1)
    assert [post.headers["webhook-id"] for post in world.courier.sent] == ["m1"] * 3


async def test_what_nobody_takes_in_time_is_given_up(world: World) -> None:
    world.courier.fails["ci.example"] = [NotDeliveredError("status 500")] * 2
    await world.add("m1")
    async with world.sender.running():
        await world.until(lambda: world.tries("failed") == 1)
        world.pass_time(86_400)
        await world.until(lambda: world.tries("given_up") == 1)
    assert await world.store.waiting(1000) == 0
    [row] = await world.sender.examine()
    assert (row.status, row.detail) == (HealthStatus.WARN, "messages given up since the start: 1")


async def test_receiver_that_is_gone_for_good_or_not_listed_any_more_is_given_up_at_once(
    world: World,
) -> None:
    world.courier.fails["ci.example"] = [NotDeliveredError("status 410", final=True)]
    await world.add("m1")
    await world.add("m2", url="https://unlisted.example/")
    async with world.sender.running():
        await world.until(lambda: world.tries("given_up") == 2)
    assert [post.headers["webhook-id"] for post in world.courier.sent] == ["m1"]


async def test_dead_receiver_of_a_user_delays_neither_another_user_nor_another_receiver(world: World) -> None:
    world.courier.hangs = {"dead.example"}
    for number in range(50):
        await world.add(f"dead{number}", url="https://dead.example/", uid=1000)
    async with world.sender.running():
        await world.courier.wait_for(EACH)
        await world.add("own", uid=1000)
        await world.add("other", uid=1001)
        await world.until(lambda: world.tries("delivered") == 2)
    hosts = Counter(post.url.host for post in world.courier.sent)
    assert hosts == {"dead.example": EACH, "ci.example": 2}


async def test_message_that_was_delivered_while_it_was_looked_for_is_not_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, look = asyncio.Event(), world.store.list_due

    async def deliver(post: OutgoingMessage) -> None:
        world.courier.sent.append(post)
        await released.wait()

    async def look_and_wait(now: datetime, *, each: int) -> Sequence[WebhookMessage]:
        found = await look(now, each=each)
        if world.courier.sent and not released.is_set():
            released.set()
            await world.until(lambda: world.tries("delivered") == 1)
            await asyncio.sleep(0)
        return found

    monkeypatch.setattr(world.courier, "deliver", deliver)
    monkeypatch.setattr(world.store, "list_due", look_and_wait)
    await world.add("m1")
    async with world.sender.running():
        await world.until(lambda: world.courier.sent)
        await world.add("m2")
        await world.until(lambda: world.tries("delivered") == 2)
    assert [post.headers["webhook-id"] for post in world.courier.sent] == ["m1", "m2"]


async def test_sender_that_is_ended_in_a_try_leaves_the_message_for_the_next(world: World) -> None:
    world.courier.hangs = {"ci.example"}
    await world.add("m1")
    async with world.sender.running():
        await world.courier.wait_for(1)
    world.courier.hangs = set()
    async with world.sender.running():
        await world.until(lambda: world.tries("delivered") == 1)
    assert [post.headers["webhook-id"] for post in world.courier.sent] == ["m1", "m1"]


async def test_defect_of_ours_is_a_failed_try_and_the_next_message_is_sent(world: World) -> None:
    world.courier.fails["dead.example"] = [RuntimeError("broken")]
    await world.add("m1", url="https://dead.example/")
    await world.add("m2")
    async with world.sender.running():
        await world.until(lambda: (world.tries("failed"), world.tries("delivered")) == (1, 1))
    assert await world.store.waiting(1000) == 1


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://ci.example/other", "webhook.not_allowed"),
        ("http://ci.example/hooks/a", "webhook.not_allowed"),
        ("https://ci.example/hooks/../other", "webhook.invalid"),
        ("nonsense", "webhook.invalid"),
    ],
)
async def test_url_that_is_not_listed_may_not_be_named(world: World, url: str, code: str) -> None:
    with pytest.raises(RequestError) as caught:
        await world.sender.check(url, 1000)
    assert (caught.value.code, caught.value.field) == (code, "webhook")


async def test_user_whose_messages_pile_up_may_name_no_more_and_others_may(world: World) -> None:
    for number in range(3):
        await world.add(f"m{number}")
    with pytest.raises(RequestError, match="3 messages of this user are undelivered") as caught:
        await world.sender.check("https://ci.example/hooks/a", 1000)
    assert (caught.value.code, caught.value.retryable) == ("quota.webhooks", True)
    await world.sender.check("https://ci.example/hooks/a", 1001)


async def test_doctor_names_a_receiver_at_an_address_that_is_not_listed(world: World) -> None:
    world.courier.reason = "address not public"
    [row] = await world.sender.examine()
    assert row.status is HealthStatus.WARN
    assert row.detail.startswith("ci: https://ci.example: address not public; list it in private_addresses")


async def test_doctor_counts_what_could_not_be_delivered_yet(world: World) -> None:
    world.courier.fails["ci.example"] = [NotDeliveredError("status 500")]
    await world.add("m1")
    async with world.sender.running():
        await world.until(lambda: world.tries("failed") == 1)
    world.pass_time(7200)
    [row] = await world.sender.examine()
    assert row.detail == "undelivered messages: 1, the oldest for 2.0 h"


async def test_doctor_is_content_with_receivers_that_can_be_reached_and_silent_without_any(
    world: World,
) -> None:
    assert [row.status for row in await world.sender.examine()] == [HealthStatus.OK]
    world.sender._receivers = ()
    assert await world.sender.examine() == ()


def test_pauses_grow_to_the_longest() -> None:
    limits = WebhookLimits()
    pauses = [limits.compute_pause_s(failures) for failures in (1, 2, 8, 12, 10_000)]
    assert all(
        least <= pause <= least * 1.25 for pause, least in zip(pauses, (2, 4, 256, 3600, 3600), strict=True)
    )
