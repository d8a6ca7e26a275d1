"""Pages that change while they are open."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from assayd_client import DaemonUnreachable, StreamEvent
from assayd_console.live import LivePage, Tell, follow_events


async def answered(page: LivePage) -> str:
    """Return everything that a page sends to a browser that stays."""
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        await asyncio.Event().wait()

    await page({"type": "http"}, receive, send)
    return b"".join(sent).decode()


async def events(count: int, error: Exception | None = None) -> AsyncIterator[StreamEvent]:
    for number in range(count):
        yield StreamEvent(id=str(number), kind="state", at="", body={"number": number})
    if error is not None:
        raise error


async def test_news_that_comes_together_is_one_piece_and_the_last_is_shown() -> None:
    seen: list[int] = []

    async def produce(tell: Tell) -> None:
        async def show() -> None:
            await tell("rows", f"{seen[-1]} of {len(seen)}")

        await follow_events(events(100), lambda event: seen.append(event.body["number"]), show, pause_s=0)

    text = await answered(LivePage(produce))

    assert text.endswith("event: rows\ndata: 99 of 100\n\n")
    assert text.count("event: rows") < 100


async def test_daemon_that_goes_away_ends_the_page_in_order() -> None:
    gone = DaemonUnreachable("daemon.unreachable", "it has gone <b>")

    async def produce(tell: Tell) -> None:
        async def show() -> None:
            await tell("rows", "x")

        await follow_events(events(1, gone), lambda _: None, show, pause_s=0)

    text = await answered(LivePage(produce))

    assert re.search(r"event: lost\ndata: No response since [0-9:]{8} UTC: .*&lt;b&gt;\n", text)
