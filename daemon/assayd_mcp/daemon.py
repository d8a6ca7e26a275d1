"""Sends requests to the daemon and follows long operations, with progress, timeout and cancellation."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, cast

import anyio

from assayd_client import AsyncClient, ClientError, Document, StreamEvent
from assayd_client.requests import ClientRequest

CANCEL_TIMEOUT_S = 10.0
"""Maximum number of seconds for a cancellation request."""

Tell = Callable[[float, str], Awaitable[None]]
"""Called with the progress of a call: an increasing number and a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongOperation:
    """A long operation in the daemon, with functions to follow it, read its state, and cancel it."""

    events: ClientRequest[StreamEvent]
    state: ClientRequest[Any]
    cancel: ClientRequest[Any]


class DaemonConnection:
    """A connection to the daemon with the rights of one user. Raises: ClientError."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def ask(self, request: ClientRequest[Any]) -> Document:
        """Send a request, and return the response as a JSON object."""
        document: Document = json.loads(await self._client.send_for_content(request))
        return document

    async def request_bytes(self, request: ClientRequest[Any]) -> bytes:
        """Send a request, and return the response body as unchanged bytes."""
        return await self._client.send_for_content(request)

    async def begin(self, request: ClientRequest[Any]) -> Document:
        """Start an operation and return its document. Cancellation is delayed until the id is known."""
        begun: list[Document] = []
        with anyio.CancelScope(shield=True):
            begun.append(await self.ask(request))
        return begun[0]

    async def follow_operation(self, course: LongOperation, *, tell: Tell, wait_s: float) -> Document:
        """Follow an operation until it ends, or for up to `wait_s` seconds, and return its state.

        If the call is cancelled, or the peer disconnects, the operation is cancelled too.
        """
        try:
            with anyio.move_on_after(wait_s):
                await self._report_progress_events(course, tell)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CANCEL_TIMEOUT_S, shield=True), suppress(ClientError):
                await self.ask(course.cancel)  # refused if it has finished meanwhile
            raise
        return await self.ask(course.state)

    async def _report_progress_events(self, course: LongOperation, tell: Tell) -> None:
        stream = cast("AsyncGenerator[StreamEvent, None]", self._client.send_for_events(course.events))
        number = 0
        async with aclosing(stream) as events:
            async for event in events:
                number += 1
                said = describe_event(event)
                if said:
                    await tell(number, said)


def describe_event(event: StreamEvent) -> str:
    """Return a short description of an event, or an empty string if the event shows no progress."""
    body = event.body
    match event.kind:
        case "state":
            return str(body.get("state", ""))
        case "stage":
            return f"stage {body.get('name')} {body.get('status')}"
        case "unit":
            return f"unit {body.get('index')} of {body.get('total')} {body.get('status')}"
        case "attempt" | "fix" | "repair":
            return f"{len(body.get('attempts') or ())} answers so far"
        case "finished":
            return "finished"
        case _:
            return ""
