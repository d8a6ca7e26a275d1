"""The runner's ends of a child's pipes: its output, its errors and its reports, each read up to a limit.

The child's standard input is written as fast as the child reads it, and is discarded once the child stops
reading. The report pipe transports results and policy events (hostile data). This module counts, limits and
forwards the data. The daemon decides whether a result is valid.
"""

from __future__ import annotations

import os

from .frames import FrameDecoder, FrameError, split_into_bodies
from .substitutes import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .frames import Header
    from .requests import GuestLimits
    from .substitutes import Selector
    from .unit import Pipes

    Send = Callable[[Header, bytes], None]


class OutputCapture:
    """A counter of output that returns the first half of `kept_bytes` at once, and stores the last half.

    The tail never overlaps the head.
    """

    def __init__(self, kept_bytes: int) -> None:
        self.total_bytes = 0
        self._head_room = kept_bytes // 2
        self._tail_room = kept_bytes // 2
        self._tail = bytearray()

    def feed(self, content: bytes) -> bytes:
        """Add data, and return the part of the data that belongs to the head."""
        self.total_bytes += len(content)
        head = content[: self._head_room]
        self._head_room -= len(head)
        self._tail += content[len(head) :]
        # Trimming moves bytes, so it waits until there is as much to drop as to keep.
        if len(self._tail) > 2 * self._tail_room:
            self._trim()
        return head

    def tail(self) -> bytes:
        """Return the last bytes after the head, at most half of `kept_bytes`."""
        self._trim()
        return bytes(self._tail)

    def _trim(self) -> None:
        del self._tail[: max(len(self._tail) - self._tail_room, 0)]


MAX_EVENTS = 200
_EVENTS_FOR_ALLOWED = 150
"""Maximum number of events about allowed operations; the rest is reserved for forbidden ones."""
_MAX_RESULTS = 2
"""Maximum results to forward: a second one affects the verdict, but further ones don't."""
_MAX_OVERHEAD_BYTES = 2**20
_MAX_KIND_CHARS = 64
_MAX_DETAIL_CHARS = 512
_MAX_EVENT_LINE = 10**7
_MAX_FILENAME_CHARS = 100
_EVENT_FIELDS = ("kind", "detail", "allowed", "enforced", "file", "line")


class ReportReader:
    """A reader of the report frames from a child's pipe."""

    def __init__(self, unit: int, result_bytes: int) -> None:
        self.results = 0
        self.malformed: str | None = None
        self.events_dropped = 0
        self.overflow = False
        self.passes_events = True
        self._unit = unit
        self._cap = result_bytes
        self._decoder = FrameDecoder()
        self._read_bytes = 0
        self._result_bytes = 0
        self._events = 0
        self._in_result = False
        self._broken = False

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """Add received data, and yield the complete frames to send to the daemon.

        After malformed data, yield nothing more.
        """
        self._read_bytes += len(data)
        self.overflow = self.overflow or self._read_bytes > self._cap + _MAX_OVERHEAD_BYTES
        if self._broken:
            return
        try:
            for header, body in self._decoder.feed(data):
                yield from self._handle_frame(header, body)
        except FrameError as problem:
            self._broken = True
            self.malformed = self.malformed or str(problem)

    def finish(self) -> Iterator[tuple[Header, bytes]]:
        """Process the end of the stream.

        If the child's result is incomplete, yield the frame that ends it.
        """
        if self.malformed is None and (self._decoder.buffered_bytes or self._in_result):
            self.malformed = "the report ends in the middle of a frame or result"
        if self._in_result and self.results < _MAX_RESULTS:
            yield {"type": "result", "unit": self._unit, "index": self.results, "last": True}, b""

    def _handle_frame(self, header: Header, body: bytes) -> Iterator[tuple[Header, bytes]]:
        match header:
            case {"type": "result", "last": bool(last)}:
                yield from self._handle_result(last, body)
            case {"type": "event"} if not body and _is_event(header):
                yield from self._handle_event({name: header.get(name) for name in _EVENT_FIELDS})
            case _:
                raise FrameError(f"not a frame of a child: {str(header.get('type'))[:_MAX_KIND_CHARS]!a}")

    def _handle_result(self, last: bool, body: bytes) -> Iterator[tuple[Header, bytes]]:
        index = self.results
        self._result_bytes += len(body)
        if self._result_bytes > self._cap:
            self.overflow = True
            return
        self._in_result = not last
        self.results += last
        if index > 0:
            self.malformed = self.malformed or "more than one result"
        if index < _MAX_RESULTS:
            yield {"type": "result", "unit": self._unit, "index": index, "last": last}, body

    def _handle_event(self, event: Header) -> Iterator[tuple[Header, bytes]]:
        if not self.passes_events:
            return
        room = _EVENTS_FOR_ALLOWED if event["allowed"] else MAX_EVENTS
        if self._events >= room:
            self.events_dropped += 1
            return
        self._events += 1
        yield {"type": "event", "unit": self._unit, **event}, b""


class SolutionReportReader:
    """A reader of a solution's report frames that returns only policy events."""

    def __init__(self, unit: int, result_bytes: int) -> None:
        self._reports = ReportReader(unit, result_bytes)

    def feed(self, content: bytes) -> Iterator[tuple[Header, bytes]]:
        """Return the policy events in the received frames."""
        return (frame for frame in self._reports.feed(content) if frame[0]["type"] == "event")


def _is_event(header: Header) -> bool:
    match header:
        case {"kind": str(kind), "detail": str(detail), "allowed": bool(), "enforced": bool(), "line": line}:
            file = header.get("file")
            placed = line is None or (type(line) is int and 0 <= line <= _MAX_EVENT_LINE)
            named = file is None or (type(file) is str and len(file) <= _MAX_FILENAME_CHARS)
            return placed and named and len(kind) <= _MAX_KIND_CHARS and len(detail) <= _MAX_DETAIL_CHARS
        case _:
            return False


_READ_BYTES = 64 * 1024


class UnitStreams:
    """The runner's ends of the four pipes of one unit."""

    def __init__(
        self,
        unit: int,
        limits: GuestLimits,
        pipes: Pipes,
        stdin: bytes,
        selector: Selector,
        send: Send,
    ) -> None:
        self.reports = ReportReader(unit, limits.unit_result_bytes)
        self.stdout = OutputCapture(limits.output_kept_bytes)
        self.stderr = OutputCapture(limits.output_kept_bytes)
        self.moved = 0
        """Number of reads of data from the unit's pipes, and of attempted writes to them."""
        self._unit = unit
        self._output_cap = limits.output_read_bytes
        self._selector = selector
        self._send = send
        self._handlers_by_pipe: dict[int, Callable[[bytes], None]] = {}
        self._feeding: int | None = pipes.stdin
        self._unfed = memoryview(stdin)
        self._watch_pipe(pipes.stdout, lambda content: self._handle_output("stdout", self.stdout, content))
        self._watch_pipe(pipes.stderr, lambda content: self._handle_output("stderr", self.stderr, content))
        self._watch_pipe(pipes.report, self._handle_report)
        selector.register(pipes.stdin, WRITE, self._feed_stdin)
        self._feed_stdin()

    @property
    def exceeded(self) -> str | None:
        """Return the exceeded limit under its name in `unit_end`, or None."""
        if self.stdout.total_bytes + self.stderr.total_bytes > self._output_cap:
            return "output_limit"
        return "result_limit" if self.reports.overflow else None

    def finish(self) -> None:
        """Read the remaining data, send the ends of the streams, and close. All writers must be dead."""
        for pipe in list(self._handlers_by_pipe):
            while self._read_pipe(pipe):
                pass
            self._close_pipe(pipe)
        self._close_stdin()
        for header, body in self.reports.finish():
            self._send(header, body)
        for name, capture in (("stdout", self.stdout), ("stderr", self.stderr)):
            if tail := capture.tail():
                self._send_output(name, "tail", tail)

    def watch_events(self, pipe: int, result_bytes: int) -> None:
        """Forward the policy events from a solution's report pipe, and no other frames.

        Events from the tests are dropped, because they would reveal the modules that the tests import.
        """
        self.reports.passes_events = False
        reports = SolutionReportReader(self._unit, result_bytes)

        def take(content: bytes) -> None:
            for header, body in reports.feed(content):
                self._send(header, body)

        self._watch_pipe(pipe, take)

    def _watch_pipe(self, pipe: int, take: Callable[[bytes], None]) -> None:
        self._handlers_by_pipe[pipe] = take
        self._selector.register(pipe, READ, lambda: self._read_or_close(pipe))

    def _feed_stdin(self) -> None:
        """Write as much as the pipe accepts. Close the pipe after the last byte, or if it has no reader."""
        if self._feeding is None:
            return
        try:
            while self._unfed:
                self.moved += 1
                self._unfed = self._unfed[os.write(self._feeding, self._unfed) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._feeding is not None:
            self._selector.unregister(self._feeding)
            os.close(self._feeding)
            self._feeding = None

    def _read_or_close(self, pipe: int) -> None:
        if not self._read_pipe(pipe):
            self._close_pipe(pipe)

    def _read_pipe(self, pipe: int) -> bool:
        """Read a pipe once. Return False at the end of the stream, or if no data is available."""
        try:
            content = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return False
        if content:
            self.moved += 1
            self._handlers_by_pipe[pipe](content)
        return bool(content)

    def _close_pipe(self, pipe: int) -> None:
        self._selector.unregister(pipe)
        del self._handlers_by_pipe[pipe]
        os.close(pipe)

    def _handle_output(self, name: str, capture: OutputCapture, content: bytes) -> None:
        if head := capture.feed(content):
            self._send_output(name, "head", head)

    def _handle_report(self, content: bytes) -> None:
        for header, body in self.reports.feed(content):
            self._send(header, body)

    def _send_output(self, name: str, part: str, content: bytes) -> None:
        for chunk in split_into_bodies(content):
            self._send({"type": "output", "unit": self._unit, "stream": name, "part": part}, chunk)
