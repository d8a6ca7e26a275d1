"""Turns of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from assayd.egress.turns import ThresholdSemaphore, TurnScheduler

CROWD, ALONE = 1, 2


async def test_users_alternate_whatever_one_of_them_has_waiting() -> None:
    turns, order = TurnScheduler(), list[int]()

    async def work(owner: int, lane: str) -> None:
        await turns.wait_for_turn(owner, lane)
        order.append(owner)

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(work(CROWD, str(number)))
        for _ in range(3):
            group.create_task(work(ALONE, "a"))

    assert [order.index(ALONE), order.count(ALONE)] <= [2, 3]
    assert max(i for i, owner in enumerate(order) if owner == ALONE) <= 6


async def test_no_round_of_the_loop_has_more_than_one_turn() -> None:
    turns, taken, most = TurnScheduler(), 0, 0

    async def work(number: int) -> None:
        nonlocal taken
        await turns.wait_for_turn(CROWD, str(number))
        taken += 1

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(work(number))
        while taken < 20:
            before = taken
            await asyncio.sleep(0)
            most = max(most, taken - before)

    assert most == 1


async def test_what_a_turn_takes_is_followed_by_a_rest() -> None:
    now = 0.0
    turns = TurnScheduler(share=0.5, burst_s=0.0, clock=lambda: now)

    async def work() -> None:
        nonlocal now
        await turns.wait_for_turn(CROWD, "a")
        now += 0.03

    loop = asyncio.get_running_loop()
    began = loop.time()
    await work()
    await work()

    assert loop.time() - began >= 0.025


async def test_dropped_connection_holds_nobody_up() -> None:
    turns = TurnScheduler()
    gone = [asyncio.ensure_future(turns.wait_for_turn(CROWD, "a")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.wait_for(turns.wait_for_turn(ALONE, "b"), 5)

    assert all(task.cancelled() or task.done() for task in gone)


GREEDY, SECOND, THIRD = 1, 2, 3


async def taken(places: ThresholdSemaphore, owner: int, wanted: int) -> tuple[int, list[asyncio.Task[None]]]:
    """Want so many places for a user; tell how many it has, and who still waits."""
    waiting = [asyncio.ensure_future(places.acquire(owner)) for _ in range(wanted)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    left = [one for one in waiting if not one.done()]
    return wanted - len(left), left


async def drop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_each_user_gets_half_of_what_is_left() -> None:
    places = ThresholdSemaphore(256)
    counts, waiting = [], []
    for owner in (GREEDY, SECOND, THIRD):
        count, left = await taken(places, owner, 256)
        counts.append(count)
        waiting += left
    await drop(waiting)

    assert counts == [128, 64, 32]


async def test_place_that_comes_free_goes_to_whoever_has_fewer() -> None:
    places = ThresholdSemaphore(4)
    _, greedy = await taken(places, GREEDY, 4)
    _, second = await taken(places, SECOND, 4)
    places.release(GREEDY)
    await asyncio.sleep(0)
    held = {GREEDY: 4 - len([t for t in greedy if not t.done()]) - 1, SECOND: 0}
    await drop(greedy + second)

    assert held[GREEDY] <= 2


async def test_one_place_serves_one_user_after_the_other() -> None:
    places = ThresholdSemaphore(1)
    await places.acquire(GREEDY)
    waiting = asyncio.ensure_future(places.acquire(SECOND))
    await asyncio.sleep(0)
    places.release(GREEDY)
    await waiting
    places.release(SECOND)

    assert places.free == 1


async def test_cancelled_wait_leaves_no_place_taken() -> None:
    places = ThresholdSemaphore(1)
    await places.acquire(GREEDY)
    waiting = asyncio.ensure_future(places.acquire(SECOND))
    await asyncio.sleep(0)
    places.release(GREEDY)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert places.free == 1
