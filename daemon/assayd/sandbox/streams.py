"""Converts frames to byte streams for the relay, and vice versa, in one conversation.

The data in transit is limited: each direction of each stream has a window, and the receiver grants credit
for the bytes that it has consumed. Frames are always read, even while streams wait, so that streams delay
neither the output nor the end of a unit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from assayd.aio import open_task_group
from assayd.errors import EngineError
from assayd.guest.frames import WINDOW, Header, compute_window_cost, encode_frame
from assayd.model.run import NetworkEvent
from assayd.ports.egress import EgressSession
from assayd.sandbox.channel import GuestProtocolError, RunnerChannel, get_integer

log = structlog.get_logger()

_GRANT_BYTES = WINDOW // 4
_PIECE_BYTES = 32 * 1024
_MAX_STREAM_NUMBER = 2**31


class RelayedStream:
    """One connection of guest code. Implements `ports.egress.GuestStream`."""

    def __init__(self, channel: RunnerChannel, number: int) -> None:
        self._channel = channel
        self.number = number
        self._arrived: deque[bytes] = deque()
        self._held = 0
        self._taken = 0
        self._credit = WINDOW
        self._guest_ended = False
        self._ended = False
        self._gone = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """Return the next bytes, or no bytes at the end of the guest's data or of the connection."""
        while not self._arrived:
            if self._guest_ended or self._gone:
                return b""
            await self._wait_for_change()
        piece = self._arrived.popleft()
        self._held -= compute_window_cost(piece)
        self._taken += compute_window_cost(piece)
        if self._taken >= _GRANT_BYTES and not self._guest_ended:
            taken, self._taken = self._taken, 0
            await self._send_frame("stream_credit", credit=taken)
        return piece

    async def write(self, data: bytes) -> None:
        """Send bytes to the guest. Wait while the guest doesn't read.

        Raises: ConnectionResetError, if the connection is closed.
        """
        rest = memoryview(data)
        while rest:
            while not self._credit and not self._gone:
                await self._wait_for_change()
            if self._gone:
                raise ConnectionResetError
            count = min(len(rest), self._credit, _PIECE_BYTES)
            self._credit -= count
            piece, rest = rest[:count], rest[count:]
            await self._send_frame("stream_data", bytes(piece))

    async def end(self) -> None:
        """Signal the end of data to the guest, unless this was done before or the connection is closed."""
        if not (self._ended or self._gone):
            self._ended = True
            await self._send_frame("stream_end")

    async def reset(self) -> None:
        """Reset the connection if it is still open."""
        if not self._gone:
            self.record_closed()
            await self._send_frame("stream_reset")

    def add_data(self, piece: bytes) -> None:
        """Add received data, unless the connection is closed.

        Raises: GuestProtocolError, if the data exceeds the guest's credit or follows its end of data.
        """
        if self._gone:
            return
        if self._guest_ended:
            raise GuestProtocolError("a relayed stream goes on after its end")
        self._held += compute_window_cost(piece)
        # Received bytes that aren't granted yet aren't credit either.
        if self._held + self._taken > WINDOW:
            raise GuestProtocolError("a relayed stream has sent more than it has credit for")
        self._arrived.append(piece)
        self._changed.set()

    def finish(self) -> None:
        """Record that the guest has sent its last data."""
        self._guest_ended = True
        self._changed.set()

    def record_closed(self) -> None:
        """Record that the connection is closed."""
        self._gone = True
        self._arrived.clear()
        self._changed.set()

    def grant(self, count: int) -> None:
        """Add `count` bytes of credit, unless the connection is closed.

        Raises: GuestProtocolError, if the credit is zero or exceeds the bytes sent.
        """
        if not count:
            raise GuestProtocolError("credit for nothing")
        if self._gone:
            return
        self._credit += count
        if self._credit > WINDOW:
            raise GuestProtocolError("credit for more than was sent")
        self._changed.set()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _send_frame(self, kind: str, body: bytes = b"", **more: object) -> None:
        await self._channel.send(encode_frame({"type": kind, "stream": self.number, **more}, body))


class StreamSet:
    """All streams of an attempt. Only the streams of one unit are open at a time."""

    def __init__(self, channel: RunnerChannel, session: EgressSession, tasks: asyncio.TaskGroup) -> None:
        self._channel = channel
        self._session = session
        self._tasks = tasks
        self._open: dict[int, tuple[RelayedStream, asyncio.Task[None]]] = {}
        self._next = 0

    def process_frame(self, unit: int, header: Header, body: bytes) -> None:
        """Process a frame from the runner. Raises: GuestProtocolError, if the frame is invalid."""
        match header["type"]:
            case "stream_open":
                self._begin_stream(unit, get_integer(header, "stream", most=_MAX_STREAM_NUMBER))
            case "stream_limit":
                self._session.record_limit_reached(unit)
            case kind:
                stream = self._get_stream(get_integer(header, "stream", most=_MAX_STREAM_NUMBER))
                if stream is not None:
                    _deliver_frame(stream, str(kind), header, body)

    async def end_unit(self, unit: int) -> tuple[NetworkEvent, ...]:
        """End the remaining streams of a unit, and return the unit's accesses."""
        self.stop()
        if left := [task for _, task in self._open.values()]:
            await asyncio.wait(left)
        return self._session.events(unit)

    def stop(self) -> None:
        """End all streams immediately."""
        for stream, task in self._open.values():
            stream.record_closed()
            task.cancel()

    def _begin_stream(self, unit: int, number: int) -> None:
        limits = self._session.limits
        if number != self._next or number >= limits.connections:
            raise GuestProtocolError("a relayed stream out of order")
        self._next += 1
        stream = RelayedStream(self._channel, number)
        task = self._tasks.create_task(self._serve_stream(stream, unit), name=f"stream-{number}")
        self._open[number] = (stream, task)
        task.add_done_callback(lambda _: self._open.pop(number))

    def _get_stream(self, number: int) -> RelayedStream | None:
        """Return an open stream, or None if the stream was already closed.

        Raises: GuestProtocolError, if the stream was never opened.
        """
        if number >= self._next:
            raise GuestProtocolError("a relayed stream that was never opened")
        return self._open[number][0] if number in self._open else None

    async def _serve_stream(self, stream: RelayedStream, unit: int) -> None:
        try:
            await self._session.serve(stream, unit)
            await stream.end()
        except EngineError:
            # The container's streams are gone, which their readers notice too.
            stream.record_closed()
        except Exception as problem:
            # An internal error ends only this connection, not the attempt: code that triggers it must not be
            # able to choose its verdict.
            log.exception("egress.broken", problem=type(problem).__name__)
            await self._reset_stream(stream)

    async def _reset_stream(self, stream: RelayedStream) -> None:
        try:
            await stream.reset()
        except EngineError:
            stream.record_closed()


def _deliver_frame(stream: RelayedStream, kind: str, header: Header, body: bytes) -> None:
    match kind:
        case "stream_data":
            stream.add_data(body)
        case "stream_end":
            stream.finish()
        case "stream_reset":
            stream.record_closed()
        case "stream_credit":
            stream.grant(get_integer(header, "credit", most=WINDOW))
        case _:
            raise GuestProtocolError(f"unexpected frame {kind[:40]!r}")


@asynccontextmanager
async def open_streams(channel: RunnerChannel, session: EgressSession) -> AsyncIterator[StreamSet]:
    """Yield the streams of an attempt for the `with` block, and stop them at its end."""
    async with open_task_group() as tasks:
        streams = StreamSet(channel, session, tasks)
        try:
            yield streams
        finally:
            streams.stop()
