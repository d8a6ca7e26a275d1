"""Server-sent events as a resumable stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assayd.api.middleware import charge_time_to_caller, wait_while_throttled
from assayd.documents import build_event_document, build_progress_document, serialize_compact
from assayd.documents.attempts import EventDocument
from assayd.documents.batches import BatchEventDocument
from assayd.documents.chains import GenerationEventDocument, RepairEventDocument, WorkflowEventDocument
from assayd.documents.policy_review import TrialEventDocument
from assayd.model.batch import BatchProgress
from assayd.model.records import AttemptEvent

StreamDocument = (
    EventDocument
    | BatchEventDocument
    | GenerationEventDocument
    | RepairEventDocument
    | TrialEventDocument
    | WorkflowEventDocument
)
Documents = AsyncGenerator[StreamDocument, None]

UNREAD_TIMEOUT_S = 60.0
"""The seconds after which a stream with unread data ends, because it occupies a connection slot."""


class EventStream(Response):
    """A streaming response that lasts until the events end or the client disconnects.

    A comment every `heartbeat_s` seconds shows that a silent stream is alive. If data stays
    unread for `UNREAD_TIMEOUT_S` seconds, the stream ends; a client that reconnects resumes the stream with
    ``Last-Event-ID``.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: Documents, *, heartbeat_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._events = events
        self._heartbeat_s = heartbeat_s
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events and heartbeats until the events end or the client disconnects.

        The stream also ends if data stays unread for too long.
        """
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(charge_time_to_caller(partial(self._send_events, send)))
            unread = scope.get("state", {}).get("unread_bytes", lambda: 0)
            beating = group.create_task(self._send_heartbeats(send, unread))
            leaving = group.create_task(_wait_for_disconnect(receive))
            await asyncio.wait({sending, beating, leaving}, return_when=asyncio.FIRST_COMPLETED)
            for task in (sending, beating, leaving):
                task.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                await send(_build_body_message(_encode_message(event)))
                await wait_while_throttled()

    async def _send_heartbeats(self, send: Send, unread_bytes: Callable[[], int]) -> None:
        """Send comments as heartbeats until the client leaves data unread for too long."""
        read_at = self._clock()
        while self._clock() - read_at < UNREAD_TIMEOUT_S:
            await send(_build_body_message(b": still here\n\n"))
            await asyncio.sleep(self._heartbeat_s)
            if not unread_bytes():
                read_at = self._clock()


async def stream_attempt_events(events: AsyncGenerator[AttemptEvent, None]) -> Documents:
    """Yield the events of one attempt as documents."""
    async with aclosing(events):
        async for event in events:
            yield build_event_document(event)


async def stream_all_events(events: AsyncGenerator[tuple[str, AttemptEvent], None]) -> Documents:
    """Yield the events of all attempts as documents. The id of each is its position in this stream."""
    async with aclosing(events):
        async for place, event in events:
            yield build_event_document(event, place)


async def stream_batch_progress(told: AsyncGenerator[BatchProgress, None]) -> Documents:
    """Yield a document whenever the batch makes progress. Close `told` at the end."""
    async with aclosing(told):
        async for progress in told:
            yield build_progress_document(progress)


def _encode_message(document: StreamDocument) -> bytes:
    data = serialize_compact(document)  # one line: JSON escapes every line break
    head = f"id: {document.id}\nevent: {document.kind}\n"
    return b"%bdata: %b\n\n" % (head.encode(), data)


def _build_body_message(body: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
