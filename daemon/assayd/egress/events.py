"""Reads HTTP events from bytes, a limited number at a time, and charges for each event.

Reading costs time per event rather than per byte, e.g. for a message in chunks of one byte, or for one
after a thousand informational responses. Therefore, a step reads at most `MOST_EVENTS` events, adjacent
content is joined, and each event counts as at least the bytes of a stream's smallest piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

import h11

from assayd.guest.frames import LEAST_COST

MOST_EVENTS = 64
"""Maximum events per step. h11 takes 15 to 25 µs for the smallest."""
MOST_LINES = 512
"""Maximum lines of a head. h11 takes 3 to 6 µs for the smallest."""
_HEAD_END = re.compile(rb"\n\r?\n")
_HEAD_BYTES = 2048
"""Bytes that h11 receives at a time when a head is due, because h11 doesn't limit a head that arrives
complete.
"""
_BODY_BYTES = 8192
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
        self._paid += max(len(data), LEAST_COST)

    @property
    def cut_off(self) -> bool:
        """Return whether the stream has ended and all of its bytes have been read."""
        return self._ended and not self._rest

    @property
    def unread_bytes(self) -> bytes:
        """Return the bytes that no event has consumed yet."""
        return self._http.trailing_data[0] + self._rest

    def next_event(self) -> h11.Event | None:
        """Return the next event; None if it needs more bytes, or the response to the previous request.

        Raises: h11.RemoteProtocolError.
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

    def unpaid_cost(self) -> int:
        """Return the amount by which the cost of the events since the last call exceeds their bytes."""
        price, self._read = self._read * LEAST_COST, 0
        extra = max(price - self._paid, 0)
        self._paid = max(self._paid - price, 0)
        return extra

    def _feed_more(self) -> bool:
        """Feed h11 more of the received bytes; return False if none remain."""
        if not self._rest:
            if self._ended and not self._http.trailing_data[1]:
                self._http.receive_data(b"")
                return True
            return False
        heads = self._http.their_state in {h11.IDLE, h11.SEND_RESPONSE}
        size = _HEAD_BYTES if heads else _BODY_BYTES
        part, self._rest = self._rest[:size], self._rest[size:]
        if heads:
            self._lines += _HEAD_END.split(part, maxsplit=1)[0].count(b"\n")
            if self._lines > MOST_LINES:
                raise h11.RemoteProtocolError("too many lines in a head")
        self._http.receive_data(part)
        return True


def _join_content(events: list[h11.Event]) -> Iterator[h11.Event]:
    """Join adjacent events that contain content."""
    for is_content, run in groupby(events, lambda event: isinstance(event, h11.Data)):
        if is_content:
            yield h11.Data(data=b"".join(event.data for event in run if isinstance(event, h11.Data)))
        else:
            yield from run
