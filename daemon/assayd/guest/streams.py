"""The runner's ends of a child's pipes. The child's output, errors and reports are read up to a limit.

The child's standard input is written as fast as the child reads it, and is discarded once the child stops
reading.
"""

from __future__ import annotations

import os

from .capture import OutputCapture
from .frames import split_into_bodies
from .reports import ReportReader, SolutionReportReader
from .selector import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .frames import Header
    from .requests import GuestLimits
    from .selector import Selector
    from .spare import Pipes

    Send = Callable[[Header, bytes], None]

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
        """How often something was read from the unit's pipes, or written to one."""
        self._unit = unit
        self._output_cap = limits.output_read_bytes
        self._selector = selector
        self._send = send
        self._takers: dict[int, Callable[[bytes], None]] = {}
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
        for pipe in list(self._takers):
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
        self._takers[pipe] = take
        self._selector.register(pipe, READ, lambda: self._read_or_close(pipe))

    def _feed_stdin(self) -> None:
        """Write as much as the pipe accepts; close the pipe after the last byte, or if it has no reader."""
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
        """Read a pipe once; return False at the end of the stream, or if a pipe being drained is empty."""
        try:
            content = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return False
        if content:
            self.moved += 1
            self._takers[pipe](content)
        return bool(content)

    def _close_pipe(self, pipe: int) -> None:
        self._selector.unregister(pipe)
        del self._takers[pipe]
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
