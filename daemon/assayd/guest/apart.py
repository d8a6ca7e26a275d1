"""Passes calls and results as bytes between the process of the tests and that of the solution.

The two processes have no descriptor, file or memory in common. The runner counts and times the messages
between them; it reads only whose turn it is, never a value. The tests are notified if a solution is late,
sends a message out of turn, or exits.
"""

from __future__ import annotations

import os

from . import substitutes
from .frames import FrameDecoder, FrameError, encode_frame
from .substitutes import READ, WRITE, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from .frames import Header
    from .nursery import SolutionForkServer, SolutionPipes
    from .substitutes import Selector
    from .unit import Pipes
else:
    import _signal as signal

_READ_BYTES = 64 * 1024
_MAX_UNSENT = 16 * 2**20
_MAX_BYTES = 64 * 2**20
"""What one side may send in one test."""
_FROM_TESTS = frozenset({"ask", "answer"})
_FROM_SOLUTION = frozenset({"ready", "broken", "ask", "answer"})


class _ProcessEndpoint:
    """One of the two processes, with the data received from it and the data to send to it."""

    def __init__(self, reading: int, writing: int, kinds: frozenset[str]) -> None:
        self.reading, self.writing, self.kinds = reading, writing, kinds
        self.decoder = FrameDecoder()
        self.unsent = bytearray()
        self.taken = 0
        self.watched = False


class TestSession:
    """The two processes of one test: the solution and the tests. Use `close` to end the session."""

    def __init__(
        self,
        nursery: SolutionForkServer,
        solution: SolutionPipes,
        tests: Pipes,
        selector: Selector,
        call_s: float,
        clock_s: Callable[[], float],
    ) -> None:
        self._nursery, self._serial = nursery, solution.serial
        self._selector = selector
        self._call_s, self._clock_s = call_s, clock_s
        self._tests = _ProcessEndpoint(tests.asking, tests.answering, _FROM_TESTS)
        self._solution = _ProcessEndpoint(solution.answers, solution.calls, _FROM_SOLUTION)
        self._turn = self._solution
        self._since_s = clock_s()
        self._pid: int | None = None
        self._why: str | None = None
        self._told = False
        for end, other in ((self._tests, self._solution), (self._solution, self._tests)):
            self._register(end, other)
        selector.register(nursery.descriptor, READ, self._read_notices)

    def call_timeout_at(self) -> float | None:
        """Return the unit's time at which the current call times out, or None while the tests compute."""
        waits = self._turn is self._solution and not self._told
        return self._since_s + self._call_s if waits else None

    def enforce_timeout(self) -> None:
        """End a solution whose current call has timed out."""
        until_s = self.call_timeout_at()
        if until_s is not None and self._clock_s() >= until_s:
            self._end_solution(f"a call took more than {self._call_s:g} s")

    def close(self) -> None:
        """Stop watching the two processes once both have exited."""
        self._selector.unregister(self._nursery.descriptor)
        for end in (self._tests, self._solution):
            if end.watched:
                self._selector.unregister(end.reading)
            if end.unsent:
                self._selector.unregister(end.writing)
            os.close(end.reading)
            os.close(end.writing)

    def _register(self, end: _ProcessEndpoint, other: _ProcessEndpoint) -> None:
        os.set_blocking(end.reading, False)
        os.set_blocking(end.writing, False)
        end.watched = True
        self._selector.register(end.reading, READ, lambda: self._read_frames(end, other))

    def _read_frames(self, end: _ProcessEndpoint, other: _ProcessEndpoint) -> None:
        try:
            content = os.read(end.reading, _READ_BYTES)
        except BlockingIOError:
            return
        end.taken += len(content)
        if not content:
            self._selector.unregister(end.reading)
            end.watched = False
            if end is self._solution:
                self._end_solution("it closed its connection")
            return
        try:
            for header, body in end.decoder.feed(content):
                self._forward(header, body, end, other)
        except FrameError:
            self._end_solution("it sent bytes that aren't a message")

    def _forward(self, header: Header, body: bytes, end: _ProcessEndpoint, other: _ProcessEndpoint) -> None:
        more = header.get("more") is True
        if self._told:
            if end is self._tests and not more:
                self._send_ended()
            return
        if end is not self._turn or header["type"] not in end.kinds or end.taken > _MAX_BYTES:
            raise FrameError("out of turn")
        if not more:
            self._turn, self._since_s = other, self._clock_s()
        self._queue_frame(other, {"type": header["type"], "more": more}, body)

    def _queue_frame(self, end: _ProcessEndpoint, header: Header, body: bytes) -> None:
        idle = not end.unsent
        end.unsent += encode_frame(header, body)
        if len(end.unsent) > _MAX_UNSENT:
            raise FrameError("too much")
        if idle:
            self._write_pending(end)
            if end.unsent:
                self._selector.register(end.writing, WRITE, lambda: self._continue_writing(end))

    def _continue_writing(self, end: _ProcessEndpoint) -> None:
        self._write_pending(end)
        if not end.unsent:
            self._selector.unregister(end.writing)

    def _write_pending(self, end: _ProcessEndpoint) -> None:
        with suppress(BlockingIOError):
            try:
                while end.unsent:
                    del end.unsent[: os.write(end.writing, end.unsent)]
            except BrokenPipeError:
                end.unsent.clear()

    def _read_notices(self) -> None:
        for kind, serial, number in self._nursery.read_messages():
            if serial != self._serial:
                continue
            if kind == "pid":
                self._pid = number
                if self._why is not None:
                    self._kill_solution()
            else:
                self._pid = None
                self._end_tests(self._why or _describe_status(number))

    def _end_solution(self, why: str) -> None:
        if self._why is None:
            self._why = why
        self._kill_solution()

    def _kill_solution(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _end_tests(self, why: str) -> None:
        """Notify the tests that the solution has exited."""
        if not self._told:
            self._told, self._why = True, why
            self._send_ended()

    def _send_ended(self) -> None:
        with suppress(FrameError):
            self._queue_frame(
                self._tests, {"type": "ended", "more": False}, substitutes.serialize_json(self._why)
            )


def _describe_status(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit code {os.WEXITSTATUS(status)}"
