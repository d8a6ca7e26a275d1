"""In which turn of the event loop work is done, and whose first."""

from __future__ import annotations

import asyncio
from functools import partial

from assayd.api.fairness import PIECES, TURN_S, Turns


async def test_work_that_comes_alone_is_done_at_once() -> None:
    done: list[int] = []
    Turns().take(1, "a", lambda: done.append(1))
    assert done == [1]


async def test_one_turn_does_a_few_pieces_and_the_rest_wait() -> None:
    turns, done = Turns(), list[int]()
    for number in range(3 * PIECES):
        turns.take(1, str(number), partial(done.append, number))
    counts = [len(done)]
    for _ in range(2):
        await asyncio.sleep(0)
        counts.append(len(done))
    assert counts == [PIECES, 2 * PIECES, 3 * PIECES]


async def test_user_with_one_piece_is_served_next_however_many_another_has() -> None:
    turns, done = Turns(), list[int]()
    for number in range(10 * PIECES):
        turns.take(1, str(number), partial(done.append, 1))
    turns.take(2, "other", partial(done.append, 2))
    await asyncio.sleep(0)
    assert 2 in done


async def test_work_that_was_forgotten_is_not_done() -> None:
    turns, done = Turns(), list[int]()
    for number in range(PIECES + 1):
        turns.take(1, str(number), partial(done.append, number))
    turns.forget(str(PIECES))
    await asyncio.sleep(0)
    assert len(done) == PIECES


async def test_key_that_waits_is_not_queued_twice() -> None:
    turns, done = Turns(), list[int]()
    for number in range(PIECES + 1):
        turns.take(1, str(number), partial(done.append, number))
    turns.take(1, str(PIECES), partial(done.append, -1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert done == list(range(PIECES + 1))


async def test_turn_ends_when_its_time_is_used_however_few_pieces_that_took() -> None:
    now = 0.0
    done: list[int] = []

    def work() -> None:
        nonlocal now
        now += 0.6 * TURN_S
        done.append(1)

    turns = Turns(lambda: now)
    for number in range(4):
        turns.take(1, str(number), work)
    counts = [len(done)]
    await asyncio.sleep(0)
    counts.append(len(done))
    assert counts == [2, 4]
