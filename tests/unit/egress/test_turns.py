"""Turns of the event loop."""

from __future__ import annotations

import asyncio

from assayd.egress.turns import Turns

CROWD, ALONE = 1, 2


async def test_users_alternate_whatever_one_of_them_has_waiting() -> None:
    turns, order = Turns(), list[int]()

    async def work(owner: int, lane: str) -> None:
        await turns.take(owner, lane)
        order.append(owner)

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(work(CROWD, str(number)))
        for _ in range(3):
            group.create_task(work(ALONE, "a"))

    assert [order.index(ALONE), order.count(ALONE)] <= [2, 3]
    assert max(i for i, owner in enumerate(order) if owner == ALONE) <= 6


async def test_no_round_of_the_loop_has_more_than_one_turn() -> None:
    turns, taken, most = Turns(), 0, 0

    async def work(number: int) -> None:
        nonlocal taken
        await turns.take(CROWD, str(number))
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
    turns = Turns(share=0.5, burst_s=0.0, clock=lambda: now)

    async def work() -> None:
        nonlocal now
        await turns.take(CROWD, "a")
        now += 0.03

    loop = asyncio.get_running_loop()
    began = loop.time()
    await work()
    await work()

    assert loop.time() - began >= 0.025


async def test_dropped_connection_holds_nobody_up() -> None:
    turns = Turns()
    gone = [asyncio.ensure_future(turns.take(CROWD, "a")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.wait_for(turns.take(ALONE, "b"), 5)

    assert all(task.cancelled() or task.done() for task in gone)
