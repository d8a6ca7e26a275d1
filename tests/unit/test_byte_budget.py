from __future__ import annotations

import asyncio
import threading

import pytest

from assayd.byte_budget import LARGE_BYTES, SMALL_BYTES, ByteBudget
from assayd.errors import RequestError


def budget_of(total: int) -> ByteBudget:
    return ByteBudget(total, operators=frozenset({0}))


def fill(budget: ByteBudget, uid: int) -> int:
    """Acquire single bytes until no more are granted."""
    for taken in range(10_000):
        try:
            budget.acquire(uid, 1)
        except RequestError:
            return taken
    raise AssertionError("there is no end to it")


def test_however_many_users_fill_it_a_newcomer_and_operators_find_room() -> None:
    budget = budget_of(8000)
    assert fill(budget, 1) == pytest.approx(3500, abs=1)
    assert fill(budget, 2) == pytest.approx(1750, abs=1)
    assert fill(budget, 3) > 800
    assert fill(budget, 0) > 1000
    assert budget.held == 8000


def test_operator_of_the_group_may_use_all_of_it() -> None:
    budget = budget_of(8000)
    budget.acquire(5, 8000, operator=True)
    with pytest.raises(RequestError, match="8000 more bytes") as caught:
        budget.acquire(0, 8000)
    assert (caught.value.code, caught.value.retryable) == ("queue.full", True)
    budget.release(5, 8000)
    assert budget.held == 0


@pytest.mark.parametrize(("uid", "size", "retryable"), [(1, 7000, True), (1, 7001, False), (0, 8001, False)])
def test_only_a_size_that_can_ever_fit_is_worth_another_try(uid: int, size: int, retryable: bool) -> None:
    budget = budget_of(8000)
    budget.acquire(2, 1)

    with pytest.raises(RequestError) as caught:
        budget.acquire(uid, size)

    assert (caught.value.code, caught.value.retryable) == ("queue.full", retryable)


def test_what_is_given_back_is_free_again() -> None:
    budget = budget_of(8000)
    with budget.reserve_growing(1) as held:
        held.resize(3000)
        with pytest.raises(RequestError):
            budget.acquire(1, 3000)
        held.resize(10)
        budget.acquire(1, 3000)
    assert budget.held == 3000


def test_what_an_operator_of_the_group_has_sent_may_wait_in_the_reserve() -> None:
    """Regression: the reserve admitted the body, and the queue refused it without knowing the group."""
    budget = budget_of(8000)
    for uid in range(10, 100):
        fill(budget, uid)
    with budget.reserve_growing(5, operator=True) as held:
        held.resize(900)
    budget.acquire(5, 900)
    budget.release(5, 900)
    with budget.reserve_growing(5, operator=False), pytest.raises(RequestError):
        budget.acquire(5, 900)


@pytest.mark.slow
async def test_large_texts_are_read_one_at_a_time_and_small_ones_beside_them() -> None:
    budget = budget_of(8000)
    async with budget.reading(LARGE_BYTES + 1, 1):
        second = asyncio.create_task(budget.reading(LARGE_BYTES + 1, 1).__aenter__())
        async with budget.reading(LARGE_BYTES, 1):
            await asyncio.sleep(0)
        assert not second.done()
    await second
    assert second.done()


@pytest.mark.slow
async def test_large_texts_of_users_are_read_in_turn() -> None:
    budget, order = budget_of(8000), list[int]()

    async def read(uid: int) -> None:
        async with budget.reading(LARGE_BYTES + 1, uid):
            order.append(uid)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for uid in (1, 1, 1, 1, 2):
            tasks.create_task(read(uid))
    assert order.index(2) <= 2


async def test_one_thread_parses_at_a_time_and_users_are_served_in_turn() -> None:
    budget, order = ByteBudget(100), list[int]()

    async def parse(uid: int) -> None:
        async with budget.wait_to_parse(uid):
            order.append(uid)
            await asyncio.sleep(0)
            assert order[-1] == uid

    async with asyncio.TaskGroup() as tasks:
        for uid in (1, 1, 1, 1, 2):
            tasks.create_task(parse(uid))
    assert order.index(2) <= 2


async def test_user_rests_before_its_next_large_text_while_another_user_is_there() -> None:
    budget, order = ByteBudget(100), list[int]()
    budget.pace.note(2)
    budget.pace.note(1)
    budget.pace.record_use(1, 0.02)

    async def parse(uid: int) -> None:
        async with budget.wait_to_parse(uid):
            order.append(uid)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(parse(1))
        tasks.create_task(parse(2))
    assert order == [2, 1]


async def test_throttled_user_rests_before_its_turn_for_large_texts_not_in_it() -> None:
    budget, order = ByteBudget(100), list[int]()
    budget.pace.note(2)
    budget.pace.note(1)
    budget.pace.record_use(1, 0.02)

    async def read(uid: int) -> None:
        async with budget.reading(LARGE_BYTES + 1, uid), budget.wait_to_parse(uid, LARGE_BYTES + 1):
            order.append(uid)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read(1))
        tasks.create_task(read(2))
    assert order == [2, 1]


async def test_large_text_whose_turn_has_come_is_parsed_without_a_rest() -> None:
    budget = ByteBudget(100)
    budget.pace.note(2)
    budget.pace.note(1)
    async with budget.reading(LARGE_BYTES + 1, 1):
        budget.pace.record_use(1, 1)  # a smaller text of the same user, meanwhile
        async with asyncio.timeout(0), budget.wait_to_parse(1, LARGE_BYTES + 1):
            pass


async def test_text_that_is_not_small_is_parsed_in_a_thread() -> None:
    budget, loops = ByteBudget(100), threading.get_ident()
    for size, in_loop in ((SMALL_BYTES, True), (SMALL_BYTES + 1, False), (LARGE_BYTES + 1, False)):
        read = await budget.parse_in_turn(bytes(size), 1, lambda _: threading.get_ident())
        assert (read == loops) == in_loop
