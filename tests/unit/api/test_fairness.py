"""The order of work in the event loop, among users."""

from __future__ import annotations

import asyncio
from functools import partial

from assayd.api.fairness import Turns
from assayd.fair_queue import UserThrottle


async def test_work_that_comes_alone_is_done_at_once() -> None:
    done: list[int] = []
    Turns().take(1, "a", lambda: done.append(1))
    assert done == [1]


async def test_one_piece_is_done_in_each_turn_and_the_rest_wait() -> None:
    turns, done = Turns(), list[int]()
    counts = []
    for number in range(3):
        turns.take(1, str(number), partial(done.append, number))
    for _ in range(4):
        counts.append(len(done))
        await asyncio.sleep(0)
    assert counts == [1, 2, 3, 3]


async def test_user_with_one_piece_is_served_next_however_many_another_has() -> None:
    turns, done = Turns(), list[int]()
    for number in range(10):
        turns.take(1, str(number), partial(done.append, 1))
    turns.take(2, "other", partial(done.append, 2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 2 in done


async def test_work_that_was_forgotten_is_not_done() -> None:
    turns, done = Turns(), list[int]()
    for number in range(2):
        turns.take(1, str(number), partial(done.append, number))
    turns.forget("1")
    await asyncio.sleep(0)
    assert done == [0]


async def test_key_that_waits_is_not_queued_twice() -> None:
    turns, done = Turns(), list[int]()
    for number in range(2):
        turns.take(1, str(number), partial(done.append, number))
    turns.take(1, "1", partial(done.append, -1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert done == [0, 1]


async def test_user_who_rests_waits_while_another_is_served_at_once() -> None:
    now, done = 0.0, list[int]()
    pace = UserThrottle(clock=lambda: now)
    turns = Turns(pace)
    turns.take(2, "a", partial(done.append, 2))
    await asyncio.sleep(0)
    pace.note(1)
    pace.used(1, 0.01)
    turns.take(1, "b", partial(done.append, 1))
    for _ in range(3):
        await asyncio.sleep(0)
    now = 0.01  # the other user has rested for its own piece, which took microseconds
    turns.take(2, "c", partial(done.append, 2))
    assert done == [2, 2]
    now = 0.1
    async with asyncio.timeout(10):
        while 1 not in done:
            await asyncio.sleep(0.001)


async def test_error_in_a_piece_does_not_keep_others_waiting() -> None:
    turns, done = Turns(), list[int]()

    def fail() -> None:
        raise ValueError("a fault of this piece")

    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    turns.take(1, "first", partial(done.append, 0))
    turns.take(1, "fails", fail)
    turns.take(1, "last", partial(done.append, 1))
    for _ in range(4):
        await asyncio.sleep(0)
    assert done == [0, 1]
    assert [str(each) for each in failures] == ["a fault of this piece"]
