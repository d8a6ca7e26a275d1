"""Ends what nothing has happened on for too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from assayd.egress.refusal import failed
from assayd.findings.network_rules import NetworkTrouble


@asynccontextmanager
async def idle_after(idle_s: float) -> AsyncIterator[Callable[[], None]]:
    """Bound how long the body may go without calling what it is given.

    Raises: NotServed ``network.idle``.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(idle_s) as timeout:

            def moved() -> None:
                # One whose time is up already is on its way out, and can't be told again.
                if not timeout.expired():
                    timeout.reschedule(loop.time() + idle_s)

            yield moved
    except TimeoutError:
        raise failed(NetworkTrouble.IDLE) from None
