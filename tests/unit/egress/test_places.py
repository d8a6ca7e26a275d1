"""Places that users share."""

from __future__ import annotations

import asyncio

import pytest

from assayd.egress.places import ThresholdSemaphore

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
