"""Provides live pages through server-sent events, each of which contains a fragment of a page.

Fragments show the daemon's events, but are sent no faster than a person can read: events that arrive
together are combined into one fragment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import NoReturn, cast

from markupsafe import escape
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assayd_client import ClientError, StreamEvent
from assayd_client.cli.terminal import plain

HEARTBEAT_S = 20.0
PAUSE_S = 0.4
"""Seconds between two fragments of a page."""

Tell = Callable[[str, str], Awaitable[None]]
"""Sends a named fragment of a page."""


class LivePage(Response):
    """A response that ends when `produce` ends or the browser disconnects."""

    media_type = "text/event-stream"

    def __init__(self, produce: Callable[[Tell], Awaitable[None]]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._produce = produce

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send fragments and heartbeats concurrently."""

        async def tell(name: str, text: str) -> None:
            await send(_build_body_chunk(encode_event(name, text)))

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with asyncio.TaskGroup() as group:
            producing = group.create_task(self._produce_events(tell))
            beating = group.create_task(_send_heartbeats(send))
            leaving = group.create_task(_wait_for_disconnect(receive))
            await asyncio.wait({producing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            for task in (producing, beating, leaving):
                task.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _produce_events(self, tell: Tell) -> None:
        await tell("lost", "")  # Clears the message of an earlier connection failure.
        try:
            await self._produce(tell)
        except* ClientError as errors:  # The browser reconnects by itself.
            message = plain(str(errors.exceptions[0]))
            await tell("lost", str(escape(f"No response since {datetime.now(UTC):%H:%M:%S} UTC: {message}")))


def encode_event(name: str, text: str) -> bytes:
    """Return one server-sent event, with carriage returns escaped, because browsers end lines at them."""
    lines = text.replace("\r", "&#13;").split("\n")
    return f"event: {name}\n{''.join(f'data: {line}' + chr(10) for line in lines)}\n".encode()


async def follow_events(
    events: AsyncIterator[StreamEvent],
    note: Callable[[StreamEvent], None],
    show: Callable[[], Awaitable[None]],
    *,
    pause_s: float = PAUSE_S,
) -> None:
    """Pass each event to `note`, and call `show` at most once per `pause_s` seconds, and at the end."""
    news = asyncio.Event()

    async def read() -> None:
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent, None]", events)) as stream:
                async for event in stream:
                    note(event)
                    news.set()
        finally:
            news.set()

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read())
        while not reading.done():
            await news.wait()
            news.clear()
            if not reading.done():
                await show()
                await asyncio.sleep(pause_s)
    await show()


async def _send_heartbeats(send: Send) -> NoReturn:
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        await send(_build_body_chunk(b": still here\n\n"))


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _build_body_chunk(body: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": True}
