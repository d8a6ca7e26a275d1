from __future__ import annotations

import asyncio
import time

import pytest

from assayd.fair_queue import (
    ALONE_S,
    LOOK_S,
    MAX_THROTTLE_S,
    MAX_TRACKED_USERS,
    SHARE,
    FairQueue,
    FairSemaphore,
    UserThrottle,
)


def served(queue: FairQueue[str]) -> list[str]:
    return [queue.pop() for _ in range(len(queue))]


def filled(*places: tuple[int, str, str]) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for owner, lane, key in places:
        queue.put(owner, lane, key, key)
    return queue


def test_one_lane_is_served_first_come_first_served() -> None:
    assert served(filled((1, "", "a"), (1, "", "b"), (1, "", "c"))) == ["a", "b", "c"]


def test_owners_are_served_in_turn_however_much_each_has() -> None:
    queue = filled(*((1, "", f"a{n}") for n in range(4)), (2, "", "b0"), (2, "", "b1"), (3, "", "c0"))
    assert served(queue) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_lanes_of_an_owner_share_its_turns() -> None:
    queue = filled(*((1, "big", f"a{n}") for n in range(3)), (1, "small", "b0"), (2, "", "c0"), (2, "", "c1"))
    assert served(queue) == ["a0", "c0", "b0", "c1", "a1", "a2"]


def test_short_lane_beside_a_long_one_ends_early() -> None:
    queue = filled(*((1, "long", f"l{n}") for n in range(3000)), *((1, "short", f"s{n}") for n in range(30)))
    order = served(queue)
    assert max(order.index(f"s{n}") for n in range(30)) < 62


def test_newcomer_waits_for_one_turn_of_the_others() -> None:
    queue = filled((1, "", "a0"), (1, "", "a1"), (2, "", "b0"), (2, "", "b1"))
    assert queue.pop() == "a0"
    queue.put(3, "", "c0", "c0")
    assert served(queue) == ["b0", "a1", "c0", "b1"]


def test_removed_item_is_not_served_and_leaves_no_turn_behind() -> None:
    queue = filled((1, "x", "a"), (2, "", "b"), (1, "y", "c"))
    assert queue.remove("a") == "a"
    assert served(queue) == ["c", "b"]
    assert not queue
    with pytest.raises(KeyError):
        queue.pop()
    with pytest.raises(KeyError):
        queue.remove("a")


async def test_slots_are_given_in_turn() -> None:
    slots, order, go_on = FairSemaphore(1), [], asyncio.Event()

    async def work(owner: int, key: str) -> None:
        async with slots.hold(owner, "", key):
            order.append(key)
            await go_on.wait()

    async with asyncio.TaskGroup() as tasks:
        for owner, key in ((1, "a0"), (1, "a1"), (1, "a2"), (2, "b0")):
            tasks.create_task(work(owner, key))
        await asyncio.sleep(0)
        go_on.set()
    assert order == ["a0", "a1", "b0", "a2"]


@pytest.mark.parametrize(("count", "for_one_user"), [(1, 1), (3, 3), (4, 3), (8, 7)])
async def test_last_of_four_slots_or_more_is_for_another_user(count: int, for_one_user: int) -> None:
    slots, inside, go_on = FairSemaphore(count), [], asyncio.Event()

    async def work(user: int, flow: str) -> None:
        async with slots.hold(user, flow, f"{user}{flow}"):
            inside.append(user)
            await go_on.wait()

    async with asyncio.TaskGroup() as tasks:
        for number in range(count + 1):  # each from a process of its own
            tasks.create_task(work(1, str(number)))
        await asyncio.sleep(0)
        assert len(inside) == for_one_user
        tasks.create_task(work(2, ""))
        await asyncio.sleep(0)
        assert (2 in inside) == (for_one_user < count)
        go_on.set()
    assert len(inside) == count + 2


async def test_owner_of_many_lanes_does_not_get_what_is_left_to_other_owners() -> None:
    slots, inside, go_on = FairSemaphore(4), [], asyncio.Event()

    async def work(owner: int, lane: str) -> None:
        async with slots.hold(owner, lane, f"{owner}{lane}"):
            inside.append(f"{owner}{lane}")
            await go_on.wait()

    async with asyncio.TaskGroup() as tasks:
        for owner, lane in ((1, "a"), (2, "a"), (2, "b"), (2, "c"), (3, "a")):
            tasks.create_task(work(owner, lane))
        await asyncio.sleep(0)
        assert inside == ["1a", "2a", "2b", "3a"]
        go_on.set()
    assert inside[4:] == ["2c"]


async def test_slot_that_comes_with_a_cancellation_is_given_on() -> None:
    slots = FairSemaphore(1)
    first = slots.hold(1, "", "first")
    await first.__aenter__()
    second = asyncio.ensure_future(slots.hold(1, "", "second").__aenter__())
    third = asyncio.ensure_future(slots.hold(1, "", "third").__aenter__())
    await asyncio.sleep(0)

    await first.__aexit__(None, None, None)  # the second has the slot now, and does not know it yet
    second.cancel()

    with pytest.raises(asyncio.CancelledError):
        await second
    await asyncio.wait_for(third, 5)


async def test_waiter_that_is_cancelled_leaves_the_queue() -> None:
    slots = FairSemaphore(1)
    held = slots.hold(1, "", "held")
    await held.__aenter__()
    waiter = asyncio.ensure_future(slots.hold(1, "", "waits").__aenter__())
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter

    await held.__aexit__(None, None, None)

    async with asyncio.timeout(5), slots.hold(1, "", "next"):
        pass


async def test_waiter_cancelled_just_before_its_turn_is_passed_over() -> None:
    slots = FairSemaphore(1)
    held = slots.hold(1, "", "held")
    await held.__aenter__()
    waiter = asyncio.ensure_future(slots.hold(1, "", "waits").__aenter__())
    await asyncio.sleep(0)

    waiter.cancel()
    await held.__aexit__(None, None, None)

    with pytest.raises(asyncio.CancelledError):
        await waiter
    async with asyncio.timeout(5), slots.hold(1, "", "next"):
        pass


def test_those_who_wait_are_told_in_the_order_in_which_they_will_be_served() -> None:
    queue = filled((1, "a", "a1"), (1, "a", "a2"), (1, "b", "b1"), (2, "", "c1"), (1, "a", "a3"))

    told = queue.list_in_order()

    assert told == ["a1", "c1", "b1", "a2", "a3"]
    assert served(queue) == told


def test_item_that_is_served_before_its_turn_uses_up_the_turn_of_its_lane_and_owner() -> None:
    queue = filled((1, "a", "a1"), (1, "a", "a2"), (1, "b", "b1"), (2, "", "c1"))

    assert queue.pop_item("a2") == "a2"

    assert served(queue) == ["c1", "b1", "a1"]


def test_lane_that_comes_back_again_and_again_does_not_pass_those_who_wait() -> None:
    queue = filled((1, "batch", "a1"), (1, "batch", "a2"), (1, "", "b1"))
    assert (queue.pop(), queue.pop()) == ("a1", "b1")
    queue.put(1, "", "b2", "b2")

    assert served(queue) == ["a2", "b2"]


async def test_slot_reserved_for_users_is_not_for_another_flow_of_one_that_has_some() -> None:
    slots, go_on, held = FairSemaphore(2, reserve_from=2), asyncio.Event(), []

    async def work(user: int, flow: str) -> None:
        async with slots.hold(user, flow, f"{user} {flow}"):
            held.append((user, flow))
            await go_on.wait()

    async with asyncio.TaskGroup() as tasks:
        for place in ((1, "a"), (1, "b"), (2, "a")):
            tasks.create_task(work(*place))
        while len(held) < 2:
            await asyncio.sleep(0)
        assert held == [(1, "a"), (2, "a")]
        go_on.set()
    assert held[2:] == [(1, "b")]


def test_items_are_all_that_wait_and_go_on_waiting() -> None:
    queue = filled((1, "", "a"), (1, "b", "c"), (2, "", "d"))
    assert sorted(queue.items()) == ["a", "c", "d"]
    assert len(queue) == 3


async def test_thousands_that_wait_take_little_time_whenever_a_slot_is_given_on() -> None:
    slots, go_on, served_last = FairSemaphore(4), asyncio.Event(), 0

    async def work(number: int) -> None:
        nonlocal served_last
        async with slots.hold(1, "", str(number)):
            await go_on.wait()
            served_last = number

    began = time.process_time()
    async with asyncio.TaskGroup() as tasks:
        for number in range(2000):
            tasks.create_task(work(number))
        await asyncio.sleep(0)
        go_on.set()

    assert served_last == 1999
    assert time.process_time() - began < 1


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


def rest_of(pace: UserThrottle, clock: Clock, user: int) -> float:
    """Let a user rest, asking repeatedly like callers do; return the duration."""
    began = clock.now
    while rest_s := pace.get_throttle_delay_s(user):
        clock.now += rest_s
        pace.note(2)
    return clock.now - began


def test_user_beside_another_rests_so_that_it_uses_its_share() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(1)
    pace.note(2)
    pace.record_use(1, 0.1)
    assert pace.get_throttle_delay_s(2) == 0
    assert 0.1 / (0.1 + rest_of(pace, clock, 1)) == pytest.approx(SHARE)


def test_rests_add_up() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(2)
    pace.record_use(1, 0.01)
    pace.record_use(1, 0.01)
    assert rest_of(pace, clock, 1) == pytest.approx(0.02 * (1 / SHARE - 1))


def test_rest_has_an_end_however_much_was_used() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(2)
    pace.record_use(1, 1000)
    assert rest_of(pace, clock, 1) == pytest.approx(MAX_THROTTLE_S)


def test_what_a_user_used_while_it_was_alone_does_not_count_later() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(1)
    pace.record_use(1, 1000)
    pace.note(2)
    assert pace.get_throttle_delay_s(1) == 0


def test_user_goes_on_once_the_others_have_gone() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(2)
    clock.now += 0.9 * ALONE_S
    pace.record_use(1, 1000)
    assert pace.get_throttle_delay_s(1) == LOOK_S
    clock.now += 0.2 * ALONE_S
    assert pace.get_throttle_delay_s(1) == 0


def test_rests_of_few_users_are_kept() -> None:
    pace = UserThrottle(clock=Clock())
    pace.note(-1)
    for user in range(MAX_TRACKED_USERS + 1):
        pace.record_use(user, 1)
    assert (pace.get_throttle_delay_s(0), pace.get_throttle_delay_s(1) > 0) == (0, True)
