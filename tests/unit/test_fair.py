import asyncio

import pytest

from assayd.fair import LANES_REMEMBERED, FairQueue, FairSlots, Turns


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
    slots, order, go_on = FairSlots(1), [], asyncio.Event()

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


async def test_slot_that_comes_with_a_cancellation_is_given_on() -> None:
    slots = FairSlots(1)
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
    slots = FairSlots(1)
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
    slots = FairSlots(1)
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


def in_turn(turns: Turns, *waiting: str) -> list[str]:
    """Order those who wait; the first letter of each is its lane."""
    return turns.order(waiting, lambda one: one[0])


def test_first_of_each_lane_comes_before_the_second_of_any() -> None:
    assert in_turn(Turns(), "a1", "a2", "a3", "b1", "b2", "c1") == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_lane_that_comes_back_again_and_again_waits_for_the_one_served_before_it() -> None:
    turns = Turns()
    turns.serve("b")
    turns.serve("a")
    turns.serve("b")

    assert in_turn(turns, "b9", "a1", "a2") == ["a1", "b9", "a2"]


def test_lane_never_served_comes_first() -> None:
    turns = Turns()
    turns.serve("a")

    assert in_turn(turns, "a1", "b1") == ["b1", "a1"]


def test_only_so_many_lanes_are_remembered() -> None:
    turns = Turns()
    for lane in range(LANES_REMEMBERED + 1):
        turns.serve(lane)

    assert turns.order([1, 0], lambda lane: lane) == [0, 1]
