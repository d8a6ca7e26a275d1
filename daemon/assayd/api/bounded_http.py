"""HTTP/1.1 with limits on the work that a single connection can cause, regardless of the client.

uvicorn's fast protocol has none of these limits: it parses all received data at once, and creates a
request for each header block in it, even if the client has disconnected. Here, connections take turns to
have a small piece of received data parsed. Data after a request stays unparsed until that request is
answered. Data that exceeds a limit is refused with status 400. A response's headers are sent with the
beginning of its body.

`TurnQueue` and `ConnectionSlots` share one server among users: the order of input, and connections per user.
Parsing and starting a request takes processor time before anything is known about it. Without turns, a user
whose many connections send at the same moment delays all other users until all of that input is processed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from assayd.fair_queue import FairQueue, UserThrottle

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent


class TurnQueue:
    """A queue of work from all connections of a server. Each iteration of the event loop does one piece."""

    def __init__(self, pace: UserThrottle | None = None) -> None:
        self._waiting: FairQueue[tuple[int, Callable[[], None]]] = FairQueue()
        self._pace = pace or UserThrottle()
        self._is_due = False
        self._throttle_timer: asyncio.TimerHandle | None = None

    def take(self, user: int, key: str, work: Callable[[], None]) -> None:
        """Do `work` now or in a later turn. Do nothing if work with this key is already waiting."""
        if key in self._waiting:
            return
        self._pace.note(user)
        if self._is_due or user in self._waiting.waiting_users() or self._pace.get_throttle_delay_s(user):
            self._waiting.put(user, "", key, (user, work))
            self._schedule_turn()
        else:
            self._run_work(user, work)

    def forget(self, key: str) -> None:
        """Remove the work with this key from the queue if it is still waiting."""
        if key in self._waiting:
            self._waiting.remove(key)

    def _run_work(self, user: int, work: Callable[[], None]) -> None:
        self._schedule_turn()  # before the work, so that an error in it doesn't block the others
        began = perf_counter()
        try:
            work()
        finally:
            self._pace.record_use(user, perf_counter() - began)

    def _schedule_turn(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Do the next piece of work of a user who isn't throttled.

        If all waiting users are throttled, schedule another turn.
        """
        self._is_due = False
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        rests = {
            user: rest_s
            for user in self._waiting.waiting_users()
            if (rest_s := self._pace.get_throttle_delay_s(user))
        }
        item = self._waiting.pop_other_user(rests)
        if item is not None:
            self._run_work(*item)
        elif rests:
            self._throttle_timer = asyncio.get_running_loop().call_later(
                min(rests.values()), self._schedule_turn
            )


OPERATORS_SHARE = 8
"""The divisor for the operators' share: an eighth of all slots is reserved for operators."""


class ConnectionSlots:
    """The connection slots of a server. A running request whose client has disconnected also holds a slot.

    Except for operators, a user can't hold more slots than are free. Each further user can therefore get
    half of the remaining slots, regardless of how many idle connections others hold.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[Hashable] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """Return the number of occupied slots."""
        return self._total

    def acquire(self, user: Hashable, *, is_operator: bool = False) -> bool:
        """Acquire a slot for a user, and return whether a slot was available."""
        kept = 0 if is_operator else self._limit // OPERATORS_SHARE
        free = self._limit - kept - self._total
        if free <= 0 or (not is_operator and self._held[user] > free):
            return False
        self._held[user] += 1
        self._total += 1
        return True

    def release(self, user: Hashable) -> None:
        """Release one of the user's slots."""
        self._total -= 1
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]


class _BufferingTransport:
    """A transport wrapper that buffers all writes until it is flushed."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._held: list[bytes] = []

    def write(self, content: bytes) -> None:
        """Add data to the buffer."""
        self._held.append(content)

    def is_closing(self) -> bool:
        """Return whether the transport is closing."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Send the buffered data, and close the transport."""
        self.flush()
        self.transport.close()

    def flush(self) -> None:
        """Send the buffered data."""
        held, self._held = self._held, []
        if any(held):
            self.transport.write(b"".join(held))


class CoalescedResponse(RequestResponseCycle):
    """A response of known length whose headers are sent together with the beginning of its body.

    Without this class, the server writes headers and body separately; the client wakes up twice, and its
    first read returns an incomplete response.
    """

    _head: ASGISendEvent | None = None

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the response.

        If its length is known, hold back the headers until the first part of the body.
        """
        if message["type"] == "http.response.start" and _has_content_length(message):
            self._head = message
            return
        head, self._head = self._head, None
        if head is None:
            await super().send(message)
            return
        together = _BufferingTransport(self.transport)
        self.transport = cast("asyncio.Transport", together)
        try:
            await super().send(head)
            await super().send(message)
        finally:
            together.flush()
            self.transport = together.transport


def _has_content_length(start: HTTPResponseStartEvent) -> bool:
    return any(name == b"content-length" for name, _ in start.get("headers", ()))


MAX_HEAD_BYTES = 64 * 2**10
"""The maximum size of a request line with its headers, and of the trailers after a body."""
MAX_HEADERS = 128
MAX_WAITING_REQUESTS = 16
"""The maximum number of one connection's parsed requests that wait for earlier responses."""
HEAD_S = 30.0
"""The seconds within which the headers of a request must arrive."""
PIECE_BYTES = 4 * 2**10
"""The bytes parsed in one turn: at most some hundred heads or chunks, which take less than a millisecond."""
BODY_PARSE_CHUNK_BYTES = 64 * 2**10
"""The bytes processed in one turn inside a body of known length, which needs no parsing."""
HELD_BYTES = 64 * 2**10
"""The bytes to buffer while a request is handled; reading is paused if there are more."""


class _LimitExceededError(Exception):
    """An exception raised in a parser callback when a request exceeds a limit."""


class _ParserFlow(FlowControl):
    """Flow control that pauses the parser, not the transport, so that a disconnect is always noticed."""

    def __init__(self, transport: asyncio.Transport, connection: BoundedHttpProtocol) -> None:
        super().__init__(transport)
        self._connection = connection

    def pause_reading(self) -> None:
        """Stop parsing received data."""
        self.read_paused = True

    def resume_reading(self) -> None:
        """Resume parsing received data."""
        self.read_paused = False
        self._connection.request_turn()


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's httptools protocol, extended with limits and with turns for users."""

    turns: TurnQueue
    """The queue of work of all connections of one server."""
    silence_s = 30.0
    """The seconds that a response can wait for a client that doesn't read it."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limit_concurrency = None  # uvicorn refuses only after parsing, and refuses operators too
        self.user: int = 0
        self.task: asyncio.Task[None] | None = None
        self.is_lost = False
        self.has_left = False
        self._key = str(id(self))
        self._held = bytearray()
        self._reading_paused = False
        self._settling = False
        self._body_left = 0
        self._head_bytes = 0
        self._in_head = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_due: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None
        self._next: tuple[RequestResponseCycle, ASGI3Application] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the headers of the connection's first request."""
        super().connection_made(transport)
        self.flow = _ParserFlow(transport, self)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        """Buffer received data until this connection's turn. If too much is buffered, stop reading."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._held += data
        self.request_turn()
        if len(self._held) > HELD_BYTES and not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def request_turn(self) -> None:
        """Request a turn if data or a request is waiting."""
        if self._settling:
            return
        if self._next is not None or (self._held and self._can_parse()):
            self.turns.take(self.user, self._key, self._take_turn)

    def _can_parse(self) -> bool:
        """Return whether buffered data can be parsed: a request is incomplete, or none is being handled."""
        cycle = self._answering
        has_ended = cycle is None or cycle.response_complete
        return (has_ended or (cycle is self.cycle and cycle.more_body)) and not self.flow.read_paused

    def _take_turn(self) -> None:
        """Start the waiting request, or parse the next piece and start the request that it completes."""
        if self.parser is None or self.has_left or self.transport.is_closing():
            return
        if self._next is None:
            size = max(PIECE_BYTES, min(BODY_PARSE_CHUNK_BYTES, self._body_left))
            piece = bytes(self._held[:size])
            del self._held[:size]
            self._parse(piece)
        if self._next is not None:
            self._start_request(*self._next)
        if self._reading_paused and len(self._held) <= HELD_BYTES and not self.transport.is_closing():
            self._reading_paused = False
            self.transport.resume_reading()
        if not self.transport.is_closing():
            self._watch_for_head()
            self.request_turn()

    def _parse(self, piece: bytes) -> None:
        self._head_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.refuse("The headers are too large.")
        except httptools.HttpParserUpgrade:  # to an unsupported protocol; the data after it isn't HTTP
            self._held.clear()
            self.cycle.keep_alive = False
        except httptools.HttpParserError as problem:
            reason = problem.__context__
            self.refuse(
                str(reason) if isinstance(reason, _LimitExceededError) else "Invalid HTTP request received."
            )

    def refuse(self, message: str) -> None:
        """Respond with status 400, close the connection, and drop parsed requests without a response.

        If a response is being sent, only close the connection.
        """
        self._held.clear()
        self.pipeline.clear()
        self._next = None
        cycle = self._answering
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:  # an error can't be sent in the middle of an answer
                self.transport.close()
                return
        self.send_400_response(message)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Hold a request until its turn comes. At most one request is in progress."""
        self._next = cycle, app

    def _start_request(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._next = None
        self._answering = cycle
        self.task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(self.task)
        self.task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if task is self.task:
            self.task = None
            self.ended()

    def ended(self) -> None:
        """Handle the end of a request or connection. The base class does nothing."""

    def on_response_complete(self) -> None:
        """Continue with data that arrived while the request was handled."""
        self._settling = True
        super().on_response_complete()
        self._settling = False
        if self._held or self._next is not None:
            self._unset_keepalive_if_required()
            self.loop.call_soon(self.request_turn)  # later: the end of this answer isn't written yet
        elif not self.transport.is_closing():
            self._watch_for_head()

    def on_message_begin(self) -> None:
        """Begin a request. Refuse it if too many earlier requests are waiting."""
        if len(self.pipeline) >= MAX_WAITING_REQUESTS:
            raise _LimitExceededError(f"More than {MAX_WAITING_REQUESTS} requests are waiting for answers.")
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a header, and refuse the request if it has too many.

        Processing a header costs far more than its size suggests.
        """
        if len(self.headers) >= MAX_HEADERS:
            raise _LimitExceededError(f"The request has more than {MAX_HEADERS} headers.")
        if name.lower() == b"content-length" and value.isdigit():
            self._body_left = int(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Reset the count of header bytes: a body, and trailers after it, may follow."""
        self._head_bytes = 0
        self._in_head = False
        self._cancel_head_timer()
        super().on_headers_complete()
        self.cycle.__class__ = CoalescedResponse

    def on_body(self, body: bytes) -> None:
        """Reset the count of header bytes: the body has a separate limit."""
        self._head_bytes = 0
        self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the count of header bytes: the connection's next request begins."""
        self._head_bytes = self._body_left = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Pause writing for a slow client, which occupies a connection slot and memory.

        If it doesn't read for `silence_s`, abort the connection.
        """
        self._unread_due = self.loop.call_later(self.silence_s, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Resume sending to a client that has caught up."""
        self._cancel_unread_timer()
        super().resume_writing()

    def eof_received(self) -> None:
        """Record that the client has disconnected, so that no more work is started for this client."""
        self.has_left = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all work for this connection, because the client has disconnected."""
        self.is_lost = self.has_left = True
        self._cancel_head_timer()
        self._cancel_unread_timer()
        self.turns.forget(self._key)
        self._held.clear()
        self.pipeline.clear()
        self._next = None
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self.ended()

    def _watch_for_head(self) -> None:
        """Start the header timeout for a request that has begun, unless earlier requests are unanswered."""
        if self._in_head and self._head_timer is None and not self._held and not self.pipeline:
            self._start_head_timer()

    def _cancel_unread_timer(self) -> None:
        if self._unread_due is not None:
            self._unread_due.cancel()
            self._unread_due = None

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.close)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
