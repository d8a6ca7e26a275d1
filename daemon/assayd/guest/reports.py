"""The runner's end of a child's report pipe, which transports results and policy events (hostile data).

This module counts, limits and forwards the data. The daemon decides whether a result is valid.
"""

from __future__ import annotations

from .frames import FrameDecoder, FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .frames import Header

MAX_EVENTS = 200
_EVENTS_FOR_ALLOWED = 150
"""Maximum number of events about allowed operations; the rest is reserved for forbidden ones."""
_RESULTS_PASSED = 2
"""A second result is shown to the daemon, since it decides the verdict; more add nothing."""
_OVERHEAD_BYTES = 2**20
_MAX_KIND = 64
_MAX_DETAIL = 512
_MAX_LINE = 10**7
_MAX_FILE = 100
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
        """Add received data, and return the complete frames to send to the daemon."""
        self._read_bytes += len(data)
        self.overflow = self.overflow or self._read_bytes > self._cap + _OVERHEAD_BYTES
        if self._broken:
            return
        try:
            for header, body in self._decoder.feed(data):
                yield from self._handle_frame(header, body)
        except FrameError as problem:
            self._broken = True
            self.malformed = self.malformed or str(problem)

    def finish(self) -> Iterator[tuple[Header, bytes]]:
        """Process the end of the stream; return the frame that ends an incomplete result of the child."""
        if self.malformed is None and (self._decoder.buffered_bytes or self._in_result):
            self.malformed = "the report ends in the middle of a frame or result"
        if self._in_result and self.results < _RESULTS_PASSED:
            yield {"type": "result", "unit": self._unit, "index": self.results, "last": True}, b""

    def _handle_frame(self, header: Header, body: bytes) -> Iterator[tuple[Header, bytes]]:
        match header:
            case {"type": "result", "last": bool(last)}:
                yield from self._handle_result(last, body)
            case {"type": "event"} if not body and _is_event(header):
                yield from self._handle_event({name: header.get(name) for name in _EVENT_FIELDS})
            case _:
                raise FrameError(f"not a frame of a child: {str(header.get('type'))[:_MAX_KIND]!a}")

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
        if index < _RESULTS_PASSED:
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
            placed = line is None or (type(line) is int and 0 <= line <= _MAX_LINE)
            named = file is None or (type(file) is str and len(file) <= _MAX_FILE)
            return placed and named and len(kind) <= _MAX_KIND and len(detail) <= _MAX_DETAIL
        case _:
            return False
