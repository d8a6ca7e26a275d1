"""Connections without activity for too long."""

from __future__ import annotations

import asyncio

import pytest

from assayd.egress.access import limit_idle_time
from assayd.egress.decision import AccessNotServedError


async def test_byte_that_meets_the_end_of_the_time_changes_nothing() -> None:
    async def move_at_the_end() -> None:
        async with limit_idle_time(0) as moved:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                moved()
                raise

    with pytest.raises(AccessNotServedError, match=r"network\.idle"):
        await move_at_the_end()


async def test_what_moves_in_time_goes_on() -> None:
    loop = asyncio.get_running_loop()
    async with limit_idle_time(0.2) as moved:
        began = loop.time()
        while loop.time() < began + 0.3:
            moved()
            await asyncio.sleep(0)

    assert loop.time() >= began + 0.3
