from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest

from assayd.attempts import events
from assayd.attempts.events import EventHub, insert_gaps
from assayd.model.records import AttemptEvent


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def hub() -> EventHub:
    return EventHub(StoppedClock())


async def all_of(stream: AsyncGenerator[AttemptEvent, None]) -> list[AttemptEvent]:
    return [event async for event in stream]


def shown(found: list[AttemptEvent]) -> list[tuple[int, int, str]]:
    return [(event.run_number, event.seq, event.kind) for event in found]


async def test_follower_gets_what_was_and_what_comes_up_to_the_end(hub: EventHub) -> None:
    hub.publish("a", 0, "state", {"state": "queued"})
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(all_of(hub.follow("a")))
        await asyncio.sleep(0)
        hub.publish("a", 1, "stdout", {"text": "x"})
        await asyncio.sleep(0)
        hub.publish("a", 1, "finished", {})
        hub.close("a")
    assert shown(following.result()) == [(0, 1, "state"), (1, 2, "stdout"), (1, 3, "finished")]


async def test_follower_that_comes_back_gets_only_what_is_new(hub: EventHub) -> None:
    for kind in ("state", "stage", "stdout", "finished"):
        hub.publish("a", 1, kind, {})
    hub.close("a")
    assert shown(await all_of(hub.follow("a", after=2))) == [(1, 3, "stdout"), (1, 4, "finished")]


async def test_follower_of_an_earlier_run_of_the_daemon_sees_how_the_attempt_ends(hub: EventHub) -> None:
    hub.open("a", 0, behind=5_000)
    hub.publish("a", 0, "state", {"state": "queued"})
    hub.publish("a", 1, "finished", {})
    hub.close("a")
    everything = [(0, 5_001, "state"), (1, 5_002, "finished")]
    assert shown(await all_of(hub.follow("a", after=20))) == everything
    assert shown(await all_of(hub.follow("a"))) == everything


async def test_prepared_events_have_their_numbers_and_are_seen_only_when_shown(hub: EventHub) -> None:
    hub.publish("a", 1, "state", {"state": "judging"})

    prepared = hub.number_events("a", 1, ("state", {"state": "finished"}), ("finished", {}))

    assert shown(list(prepared)) == [(1, 2, "state"), (1, 3, "finished")]
    assert shown(list(hub.list_durable_events("a"))) == [(1, 1, "state")]
    for event in prepared:
        hub.deliver(event)
    hub.close("a")
    assert shown(await all_of(hub.follow("a", after=1))) == shown(list(prepared))


async def test_output_beyond_the_ring_is_shown_as_a_gap(hub: EventHub) -> None:
    hub.publish("a", 1, "state", {})
    for _ in range(5):
        hub.publish(
            "a", 1, "stdout", {"text": "x" * (events.MAX_RING_BYTES // 2 - events.EVENT_OVERHEAD_BYTES)}
        )
    hub.publish("a", 1, "finished", {})
    hub.close("a")
    found = await all_of(hub.follow("a"))
    assert shown(found) == [
        (1, 1, "state"),
        (1, 4, "gap"),
        (1, 5, "stdout"),
        (1, 6, "stdout"),
        (1, 7, "finished"),
    ]
    assert found[1].body == {"missed": 3}


async def test_slow_follower_misses_output_but_no_durable_event(hub: EventHub) -> None:
    stream = hub.follow("a")
    hub.publish("a", 1, "state", {})
    first = await anext(stream)
    for _ in range(50):
        hub.publish("a", 1, "stderr", {"text": "x" * (events.MAX_RING_BYTES // 4)})
        hub.publish("a", 1, "unit", {})
    hub.close("a")
    rest = await all_of(stream)
    assert first.kind == "state"
    assert sum(event.kind == "unit" for event in rest) == 50
    assert sum(event.kind == "stderr" for event in rest) <= 4
    assert any(event.kind == "gap" for event in rest)


async def test_durable_events_are_all_but_output(hub: EventHub) -> None:
    for kind in ("state", "stdout", "unit", "stderr", "finished"):
        hub.publish("a", 1, kind, {})
    assert [event.kind for event in hub.list_durable_events("a")] == ["state", "unit", "finished"]
    assert hub.list_durable_events("b") == ()


async def test_unknown_attempt_has_no_events_and_ends_at_once(hub: EventHub) -> None:
    assert not hub.has_events("a")
    assert await all_of(hub.follow("a")) == []


async def test_ended_attempts_are_forgotten_oldest_first(hub: EventHub) -> None:
    for number in range(events.MAX_ENDED_LOGS + 1):
        hub.publish(str(number), 1, "finished", {})
        hub.close(str(number))
    assert not hub.has_events("0")
    assert hub.has_events("1")


async def some_of(
    stream: AsyncGenerator[tuple[str, AttemptEvent], None], count: int
) -> list[tuple[str, AttemptEvent]]:
    found = [await anext(stream) for _ in range(count)]
    await stream.aclose()
    return found


async def test_follower_of_all_gets_durable_events_of_its_owner_from_now_on(hub: EventHub) -> None:
    for attempt, owner in (("a", 1), ("b", 2), ("c", 1)):
        hub.open(attempt, owner)
    hub.publish("a", 0, "state", {})
    async with asyncio.TaskGroup() as tasks:
        own = tasks.create_task(some_of(hub.follow_all(1), 2))
        every = tasks.create_task(some_of(hub.follow_all(), 3))
        await asyncio.sleep(0)
        for attempt, kind in (("b", "state"), ("c", "stdout"), ("c", "stage"), ("a", "finished")):
            hub.publish(attempt, 0, kind, {})
    assert [(e.attempt_id, e.kind) for _, e in own.result()] == [("c", "stage"), ("a", "finished")]
    assert [e.attempt_id for _, e in every.result()] == ["b", "c", "a"]


async def test_follower_of_all_that_comes_back_goes_on_where_it_was(hub: EventHub) -> None:
    stream = hub.follow_all()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    for kind in ("state", "stage", "finished"):
        hub.publish("a", 0, kind, {})
    place, _ = await first
    await stream.aclose()

    rest = await some_of(hub.follow_all(after=place), 2)

    assert [event.kind for _, event in rest] == ["stage", "finished"]


async def test_follower_of_all_that_comes_back_too_late_is_shown_a_gap(hub: EventHub) -> None:
    stream = hub.follow_all()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    hub.publish("a", 0, "state", {})
    place, _ = await first
    await stream.aclose()
    for _ in range(events.MAX_RECENT_EVENTS + 1):
        hub.publish("a", 0, "state", {})

    found = await some_of(hub.follow_all(after=place), 2)

    assert [(event.kind, event.body) for _, event in found] == [("gap", {"missed": None}), ("state", {})]


@pytest.mark.parametrize("place", ["20200101T000000000000.5", "nonsense", "", "20260301T000000000000.x"])
async def test_place_of_another_life_is_answered_with_a_gap(hub: EventHub, place: str) -> None:
    hub.publish("a", 0, "state", {})
    found = await some_of(hub.follow_all(after=place), 2)
    assert [event.kind for _, event in found] == ["gap", "state"]


async def test_followers_of_all_are_sent_away_at_the_end(hub: EventHub) -> None:
    stream = hub.follow_all()
    following = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    hub.end()
    assert await asyncio.wait_for(following, 5) is None


async def test_follower_that_leaves_does_not_hold_up_others(hub: EventHub) -> None:
    hub.publish("a", 0, "state", {})
    leaving = hub.follow("a")
    await anext(leaving)
    await leaving.aclose()
    hub.publish("a", 0, "finished", {})
    hub.close("a")
    assert len(await all_of(hub.follow("a"))) == 2


def test_events_of_the_store_show_where_output_was() -> None:
    stored = [
        AttemptEvent(attempt_id="a", run_number=1, seq=seq, kind="unit", at=StoppedClock().now())
        for seq in (1, 2, 6)
    ]
    assert shown(list(insert_gaps(stored, 0))) == [
        (1, 1, "unit"),
        (1, 2, "unit"),
        (1, 5, "gap"),
        (1, 6, "unit"),
    ]


async def test_output_written_byte_by_byte_is_not_kept_byte_by_byte(hub: EventHub) -> None:
    for _ in range(10_000):
        hub.publish("a", 1, "stdout", {"unit": "a", "text": "x"})
    hub.close("a")
    assert len(await all_of(hub.follow("a"))) <= events.MAX_RING_BYTES // events.EVENT_OVERHEAD_BYTES + 1
