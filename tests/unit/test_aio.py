"""Deadlines and cleanup."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from assayd.aio import Deadline, compute_backoff_delay_s, pause, run_cleanup


async def test_a_scope_ends_when_the_time_is_up():
    with pytest.raises(TimeoutError):
        async with Deadline(0.01).scope():
            await asyncio.Event().wait()


async def test_time_that_is_left_out_is_not_counted():
    loop, deadline = asyncio.get_running_loop(), Deadline(0.02)
    began = loop.time()
    deadline.exclude_time(0.03)
    with pytest.raises(TimeoutError):
        async with deadline.scope():
            await asyncio.Event().wait()
    assert loop.time() - began > 0.049


async def test_a_deadline_comes_at_three_times_its_time_whatever_is_left_out():
    deadline = Deadline(0.02)
    deadline.exclude_time(3600)
    with pytest.raises(TimeoutError):
        async with deadline.scope():
            await asyncio.Event().wait()


class StallingLoop(asyncio.SelectorEventLoop):
    """A loop that can simulate that it was busy for a while."""

    stalled_s = 0.0

    def time(self) -> float:
        return super().time() + self.stalled_s


@pytest.mark.parametrize(("stalls", "in_time"), [((12.0,), True), ((12.0, 20.0), False), ((0.0,), True)])
def test_time_in_which_the_loop_stood_still_is_not_counted(stalls: tuple[float, ...], in_time: bool):
    loop = StallingLoop()

    async def body() -> bool:
        with suppress(TimeoutError):
            async with Deadline(10).scope():
                for stall_s in stalls:
                    loop.stalled_s += stall_s
                    for _ in range(5):
                        await asyncio.sleep(0)
                return True
        return False

    try:
        assert loop.run_until_complete(body()) is in_time
    finally:
        loop.close()


async def test_cancelling_ends_an_open_scope_at_once():
    deadline = Deadline(60)
    asyncio.get_running_loop().call_soon(deadline.cancel)
    with pytest.raises(TimeoutError):
        async with deadline.scope():
            await asyncio.Event().wait()
    assert deadline.cancelled


async def test_cancelling_ends_scopes_that_are_opened_later():
    deadline = Deadline(60)
    deadline.cancel()
    with pytest.raises(TimeoutError):
        async with deadline.scope():
            await asyncio.Event().wait()


async def test_a_restarted_deadline_stays_cancelled():
    deadline = Deadline(60)
    deadline.cancel()
    deadline.restart(60)
    with pytest.raises(TimeoutError):
        async with deadline.scope():
            await asyncio.Event().wait()


async def test_cleanup_goes_on_when_its_caller_is_cancelled():
    release, done = asyncio.Event(), asyncio.Event()

    async def cleanup() -> None:
        await release.wait()
        done.set()

    caller = asyncio.ensure_future(run_cleanup(cleanup(), timeout_s=5))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done.is_set()


async def test_cleanup_that_takes_too_long_is_given_up():
    with pytest.raises(TimeoutError):
        await run_cleanup(asyncio.Event().wait(), timeout_s=0.01)


async def test_cleanup_gives_back_its_value_and_its_error():
    async def good() -> int:
        return 7

    async def bad() -> None:
        raise KeyError("x")

    assert await run_cleanup(good(), timeout_s=1) == 7
    with pytest.raises(KeyError):
        await run_cleanup(bad(), timeout_s=1)


async def test_cancelling_again_while_a_scope_cleans_up_changes_nothing():
    deadline = Deadline(60)
    asyncio.get_running_loop().call_soon(deadline.cancel)

    async def wait_and_clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            deadline.cancel()

    with pytest.raises(TimeoutError):
        async with deadline.scope():
            await wait_and_clean_up()


@pytest.mark.parametrize(
    ("failures", "least", "most"),
    [(1, 0.5, 1.0), (2, 1.0, 1.5), (5, 8.0, 8.5), (9, 30.0, 30.0), (10**6, 30.0, 30.0)],
)
def test_pause_doubles_with_each_failure_up_to_its_most(failures: int, least: float, most: float) -> None:
    assert least <= compute_backoff_delay_s(failures) <= most


@pytest.mark.parametrize("rounds", range(4))
async def test_pause_that_is_cancelled_together_with_its_event_is_cancelled(rounds: int) -> None:
    event = asyncio.Event()
    pausing = asyncio.create_task(pause(60, unless=event))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    event.set()
    for _ in range(rounds):
        await asyncio.sleep(0)
    if pausing.cancel():  # else it had ended before
        with pytest.raises(asyncio.CancelledError):
            await pausing
    else:
        assert pausing.result() is None
