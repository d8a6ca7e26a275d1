"""The guest's end of a proxy connection: h11 reads its HTTP/1.1 requests and writes the responses.

All input is hostile. A request must arrive in time and within the head limit. After a rejection, the relay
sends the response, ends its side, and reads a little longer, so that a client that is still sending doesn't
lose the response.

Reading costs time per event rather than per byte, e.g. for a message in chunks of one byte, or for one after
a thousand informational responses. Therefore, a step reads at most `MOST_EVENTS` events, adjacent content is
joined, and each event counts as at least the bytes of a stream's smallest piece.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from itertools import groupby

import h11

from assayd.egress.access import EgressLedger
from assayd.egress.decision import (
    ALERT,
    ESTABLISHED,
    AccessNotServedError,
    answer,
    build_rule_violation_error,
    failed,
)
from assayd.egress.turns import Turn
from assayd.findings.network_rules import NetworkRule, NetworkTrouble
from assayd.guest.frames import MIN_WINDOW_COST
from assayd.ports.egress import EgressLimits, GuestStream

MOST_EVENTS = 64
"""Maximum events per step. h11 takes 15 to 25 µs for the smallest."""
MOST_LINES = 512
"""Maximum lines of a head. h11 takes 3 to 6 µs for the smallest."""
_HEAD_END_PATTERN = re.compile(rb"\n\r?\n")
_HEAD_CHUNK_BYTES = 2048
"""Bytes that h11 receives at a time when a head is due, because h11 doesn't limit a head that arrives
complete.
"""
_BODY_CHUNK_BYTES = 8192
"""Bytes of content that h11 receives at a time; also limited, because trailers are a head too."""


class HttpReader:
    """A reader of the HTTP events that one end of a connection sends."""

    def __init__(self, http: h11.Connection) -> None:
        self._http = http
        self._rest = b""
        self._ended = False
        self._paid = 0
        self._read = 0
        self._lines = 0
        self._problem: h11.RemoteProtocolError | None = None
        self.busy = False
        """Whether the last step left events that the next step can read."""

    def feed(self, data: bytes) -> None:
        """Add received bytes; empty bytes mean the end of the stream."""
        self._ended = self._ended or not data
        self._rest += data
        self._paid += max(len(data), MIN_WINDOW_COST)

    @property
    def cut_off(self) -> bool:
        """Return whether the stream has ended and all of its bytes have been read."""
        return self._ended and not self._rest

    @property
    def unread_bytes(self) -> bytes:
        """Return the bytes that no event has consumed yet."""
        return self._http.trailing_data[0] + self._rest

    def next_event(self) -> h11.Event | None:
        """Return the next event. Return None if more bytes, or the previous response, must come first.

        Raises: h11.RemoteProtocolError, if the input isn't valid HTTP.
        """
        if self._problem is not None:
            raise self._problem
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Event):
                self._lines = 0
                self._read += 1
                return event
            if event is h11.PAUSED or not self._feed_more():
                return None

    def step(self) -> list[h11.Event]:
        """Return the events that can be read now: at most `MOST_EVENTS`, up to the end of a message.

        Raises: h11.RemoteProtocolError, after the events before the fault were returned.
        """
        events: list[h11.Event] = []
        while len(events) < MOST_EVENTS and not (events and isinstance(events[-1], h11.EndOfMessage)):
            try:
                event = self.next_event()
            except h11.RemoteProtocolError as problem:
                if not events:
                    raise
                self._problem = problem
                break
            if event is None:
                break
            events.append(event)
        self.busy = len(events) == MOST_EVENTS or self._problem is not None
        return list(_join_content(events))

    def take_excess_cost(self) -> int:
        """Return the amount by which the cost of the events since the last call exceeds their bytes."""
        price, self._read = self._read * MIN_WINDOW_COST, 0
        extra = max(price - self._paid, 0)
        self._paid = max(self._paid - price, 0)
        return extra

    def _feed_more(self) -> bool:
        """Feed h11 more of the received bytes. Return False if none remain.

        Raises: h11.RemoteProtocolError, if a head has too many lines.
        """
        if not self._rest:
            if self._ended and not self._http.trailing_data[1]:
                self._http.receive_data(b"")
                return True
            return False
        heads = self._http.their_state in {h11.IDLE, h11.SEND_RESPONSE}
        size = _HEAD_CHUNK_BYTES if heads else _BODY_CHUNK_BYTES
        part, self._rest = self._rest[:size], self._rest[size:]
        if heads:
            self._lines += _HEAD_END_PATTERN.split(part, maxsplit=1)[0].count(b"\n")
            if self._lines > MOST_LINES:
                raise h11.RemoteProtocolError("too many lines in a head")
        self._http.receive_data(part)
        return True


def _join_content(events: list[h11.Event]) -> Iterator[h11.Event]:
    """Yield the events, with the data of adjacent content events joined into one event."""
    for is_content, run in groupby(events, lambda event: isinstance(event, h11.Data)):
        if is_content:
            yield h11.Data(data=b"".join(event.data for event in run if isinstance(event, h11.Data)))
        else:
            yield from run


HEAD_LIMIT_BYTES = 16 * 1024
MAX_METHOD_BYTES = 32
"""Maximum bytes of a method; the longest registered one has 17. Methods are recorded per request."""


class Phase(Enum):
    """The phase of a connection: what the guest waits for, which determines how a failure is reported."""

    ANSWER = auto()
    """The guest waits for an HTTP response."""
    GREETING = auto()
    """The guest waits for the answer to its TLS handshake."""
    CONTENT = auto()
    """The guest waits for the next bytes of an incomplete response."""


class GuestConnection:
    """One connection of guest code.

    Args:
        stream: the byte stream of the connection.
        ledger: counts all bytes that are read, and raises AccessNotServedError at the limit.
        limits: the time limits.
        turn: waits for the connection's turn.
    """

    def __init__(self, stream: GuestStream, ledger: EgressLedger, limits: EgressLimits, turn: Turn) -> None:
        self.stream = stream
        self.limits = limits
        self._ledger = ledger
        self._turn = turn
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._events = HttpReader(self._http)
        self._phase = Phase.ANSWER
        self._method = b""

    async def read(self) -> bytes:
        """Return the next bytes. The result is empty once the guest has sent everything.

        Raises: AccessNotServedError, if the attempt has reached the limit of sent bytes.
        """
        data = await self.stream.read()
        if data:
            self._ledger.spend_sent_bytes(len(data))
        await self._turn()
        return data

    async def request(self) -> h11.Request | None:
        """Return the next request, or None if the guest sends no more requests or is idle for too long.

        Raises: AccessNotServedError, if the input isn't a request or arrives too slowly.
        """
        self._phase, self._method = Phase.ANSWER, b""
        event = self._next_event()
        if event is None:
            try:
                async with asyncio.timeout(self.limits.idle_s):
                    self._events.feed(await self.read())
            except TimeoutError:
                return None
        try:
            async with asyncio.timeout(self.limits.head_s):
                event = event or await self._read_event()
        except TimeoutError:
            raise build_rule_violation_error(NetworkRule.TOO_SLOW) from None
        if not isinstance(event, h11.Request):
            return None
        self._method = event.method
        # h11 limits an incomplete head, but not one that arrived complete.
        size = sum(len(name) + len(value) for name, value in event.headers) + len(event.target)
        if size > HEAD_LIMIT_BYTES or len(event.method) > MAX_METHOD_BYTES:
            raise build_rule_violation_error(NetworkRule.HTTP_MALFORMED)
        return event

    async def read_early_bytes(self) -> bytes:
        """Return the bytes after the head of a CONNECT request.

        Raises: AccessNotServedError, if the request has a body.
        """
        event = await self._read_event()
        if not isinstance(event, h11.EndOfMessage):
            raise build_rule_violation_error(NetworkRule.HTTP_MALFORMED)
        return self._events.unread_bytes

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the request's body in pieces.

        Raises: AccessNotServedError, if the body is malformed.
        """
        if self._http.they_are_waiting_for_100_continue:
            await self.send(h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            for event in await self._read_body_events():
                if not isinstance(event, h11.Data):
                    return
                yield bytes(event.data)

    async def send(self, *events: h11.Event) -> None:
        """Send parts of the response in one write.

        Raises: AccessNotServedError, if a part contradicts earlier parts.
        """
        try:
            data = b"".join(self._http.send(event) or b"" for event in events)
        except h11.LocalProtocolError as problem:
            raise failed(NetworkTrouble.BROKEN_OFF) from problem
        if any(isinstance(event, h11.Response) for event in events):
            self._phase = Phase.CONTENT
        if data:
            await self.stream.write(data)

    async def accept_connect(self) -> None:
        """Accept a CONNECT request. Afterwards, the connection doesn't carry HTTP anymore."""
        await self.stream.write(ESTABLISHED)
        self._phase = Phase.GREETING

    def mark_tunnel_open(self) -> None:
        """Record that the guest now communicates directly with the host."""
        self._phase = Phase.CONTENT

    def prepare_next_request(self) -> bool:
        """Return whether another request can follow on this connection, and prepare for it."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def refuse(self, end: AccessNotServedError) -> None:
        """Send the guest the reason why its request failed or was interrupted, and close the connection.

        In the middle of a response, which can't contain a reason, reset the stream.
        """
        if self._phase is Phase.CONTENT:
            await self.stream.reset()
            return
        told = ALERT if self._phase is Phase.GREETING else answer(end, with_body=self._method != b"HEAD")
        await self.stream.write(told)
        await self.drain_and_close()

    async def drain_and_close(self) -> None:
        """End this side, then read until the guest ends the other. At the timeout, reset the stream."""
        await self.stream.end()
        try:
            async with asyncio.timeout(self.limits.head_s):
                while await self.read():
                    pass
        except (TimeoutError, AccessNotServedError):
            await self.stream.reset()

    async def _read_event(self) -> h11.Event:
        while (event := self._next_event()) is None:
            self._events.feed(await self.read())
        return event

    def _next_event(self) -> h11.Event | None:
        """Return an event that is already complete, or None if more bytes are needed.

        Raises: AccessNotServedError, if the input is malformed or no more input is allowed.
        """
        with self._translate_errors():
            event = self._events.next_event()
        if event is None and self._http.their_state in {h11.DONE, h11.CLOSED}:
            raise build_rule_violation_error(NetworkRule.HTTP_MALFORMED)
        return event

    async def _read_body_events(self) -> list[h11.Event]:
        """Return the next events of a body."""
        if self._events.busy:
            await self._turn()
        while True:
            with self._translate_errors():
                events = self._events.step()
            if events:
                return events
            self._events.feed(await self.read())

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate protocol errors into AccessNotServedError, and charge for events.

        A client that disconnects violates no rule.
        """
        try:
            yield
        except h11.RemoteProtocolError as problem:
            if self._events.cut_off:
                raise failed(NetworkTrouble.BROKEN_OFF) from problem
            raise build_rule_violation_error(
                NetworkRule.HTTP_MALFORMED, _strip_quoted_input(problem)
            ) from problem
        self._ledger.charge_guest_bytes(self._events.take_excess_cost())


_KNOWN_MESSAGES = (
    "illegal request line",
    "illegal header line",
    "no request line received",
    "too many lines in a head",
    "Receive buffer too long",
    "Missing mandatory Host: header",
    "Found multiple Host: headers",
    "conflicting Content-Length headers",
    "bad Content-Length",
    "multiple Transfer-Encoding headers",
    "Only Transfer-Encoding: chunked is supported",
    "illegal chunk header",
    "malformed chunk footer",
)


def _strip_quoted_input(problem: h11.RemoteProtocolError) -> str:
    """Return h11's error message without the quoted input, which may contain a password."""
    text = str(problem)
    return next((known.lower() for known in _KNOWN_MESSAGES if text.startswith(known)), "")
