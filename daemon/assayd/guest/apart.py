"""Keeps a solution apart from its tests: forks the solution's processes, and passes messages as bytes.

The runner reads tests, arguments and results, and traces of them stay in its memory. Before any of this
data arrives, the runner therefore forks the nursery, which has only the solution's text. For each test, the
nursery forks a solution, which begins by importing the code; the nursery runs none of the code. Over a
socket, the nursery receives the descriptors for each solution, and returns the solution's PID and its wait
status.

The processes of the tests and of the solution have no descriptor, file or memory in common. The runner counts
and times the messages between them; it reads only whose turn it is, never a value. The tests are notified if
a solution is late, sends a message out of turn, or exits.
"""

from __future__ import annotations

import _socket
import fcntl
import gc
import os

from . import child, substitutes
from .frames import FrameDecoder, FrameError, encode_frame
from .peer import serve_solution
from .seccomp import REPORT
from .substitutes import READ, WRITE, Value, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from .frames import Header
    from .substitutes import Selector
    from .unit import Pipes
else:
    import _signal as signal


READING, WRITING = 5, 6
_DESCRIPTOR_COUNT = 6
_DESCRIPTOR_BYTES = 4
_MESSAGE_BYTES = 64
_EXIT_BROKEN = 70

_READ_BYTES = 64 * 1024
_MAX_UNSENT_BYTES = 16 * 2**20
_MAX_BYTES = 64 * 2**20
"""Maximum bytes that one side can send in one test."""
_TESTS_FRAME_KINDS = frozenset({"ask", "answer"})
_SOLUTION_FRAME_KINDS = frozenset({"ready", "broken", "ask", "answer"})


class SolutionPipes(Value):
    """The runner's ends of one solution's pipes, all of which are non-blocking."""

    serial: int
    calls: int
    answers: int
    stdout: int
    stderr: int
    report: int


class SolutionForkServer:
    """The runner's end of the process that forks solutions. Raises: OSError, if it can't be forked."""

    def __init__(self, confinement: child.Confinement, document: bytes, work: int) -> None:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._serial = 0
        self.pid = os.fork()
        if self.pid == 0:
            _serve_forks(theirs.fileno(), confinement, document, work)
        theirs.close()
        ours.setblocking(False)
        self._control = ours
        self.descriptor = ours.fileno()

    def start(self) -> SolutionPipes:
        """Request the fork of the next solution, and return the pipes to it.

        Raises: OSError, if no pipe can be created or the fork server has exited.
        """
        stdin, stdout, stderr, report, calls, answers = (
            os.pipe2(os.O_CLOEXEC) for _ in range(_DESCRIPTOR_COUNT)
        )
        theirs = (stdin[0], stdout[1], stderr[1], report[1], calls[0], answers[1])
        passed = b"".join(one.to_bytes(_DESCRIPTOR_BYTES, "little") for one in theirs)
        self._control.sendmsg([b"fork"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
        for one in (*theirs, stdin[1]):
            os.close(one)
        self._serial += 1
        found = SolutionPipes(
            serial=self._serial,
            calls=calls[1],
            answers=answers[0],
            stdout=stdout[0],
            stderr=stderr[0],
            report=report[0],
        )
        for one in (found.calls, found.answers, found.stdout, found.stderr, found.report):
            os.set_blocking(one, False)
        return found

    def read_messages(self) -> list[tuple[str, int, int]]:
        """Return the fork server's messages: ``pid`` or ``end``, serial number, and PID or wait status.

        Return an empty list if no message has arrived.
        """
        found: list[tuple[str, int, int]] = []
        while True:
            try:
                said = self._control.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return found
            if not said:
                return found
            kind, serial, number = said.decode().split()
            found.append((kind, int(serial), int(number)))


def _serve_forks(control: int, confinement: child.Confinement, document: bytes, work: int) -> NoReturn:
    """Fork one solution after another until the runner has exited. This call never returns."""
    status = _EXIT_BROKEN
    try:
        control, work = _close_other_descriptors(control, work)
        orders = _socket.socket(fileno=control)
        serial = 0
        gc.freeze()
        while passed := _receive_descriptors(orders):
            serial += 1
            pid = os.fork()
            if pid == 0:
                _run_solution(confinement, document, passed, work)
            for one in passed:
                os.close(one)
            orders.send(b"pid %d %d" % (serial, pid))
            _, ended = os.waitpid(pid, 0)
            orders.send(b"end %d %d" % (serial, ended))
        status = 0
    finally:
        os._exit(status)


def _close_other_descriptors(control: int, work: int) -> tuple[int, int]:
    """Close every descriptor except the given two, and return the new numbers of these two."""
    os.setsid()
    kept = [os.dup(one) for one in (control, work)]
    low, high = sorted(kept)
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, os.sysconf("SC_OPEN_MAX"))
    null = os.open(os.devnull, os.O_RDWR)
    for target in range(3):
        os.dup2(null, target)
    os.close(null)
    return kept[0], kept[1]


def _receive_descriptors(orders: _socket.socket) -> tuple[int, ...]:
    """Return the descriptors for the next solution. The result is empty if the runner has exited."""
    said, extra, _, _ = orders.recvmsg(
        _MESSAGE_BYTES, _socket.CMSG_SPACE(_DESCRIPTOR_COUNT * _DESCRIPTOR_BYTES)
    )
    if not said or not extra:
        return ()
    content = extra[0][2]
    return tuple(
        int.from_bytes(content[at : at + _DESCRIPTOR_BYTES], "little")
        for at in range(0, _DESCRIPTOR_COUNT * _DESCRIPTOR_BYTES, _DESCRIPTOR_BYTES)
    )


def _run_solution(
    confinement: child.Confinement, document: bytes, passed: tuple[int, ...], work: int
) -> NoReturn:
    """Turn this fork into a solution's process, and run it. This call never returns."""
    status = _EXIT_BROKEN
    try:
        stdin, stdout, stderr, report, calls, answers = _duplicate_descriptors(passed)
        child.detach_from_runner(
            child.Descriptors(
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                report=report,
                order=stdin,
                work=work,
                paired=(calls, answers),
            )
        )
        child.drop_privileges(confinement, child.SOLUTION_ISOLATION)
        os.close(child.ORDER)
        given: Mapping[str, object] = substitutes.loads(document)  # type: ignore[assignment]  # the daemon wrote it
        confinement.policy.install()
        gc.enable()
        serve_solution(given, confinement.policy, READING, WRITING)
        status = 0
    except BaseException:  # noqa: BLE001 - guest code ran; nothing may get back into our own
        from traceback import format_exc

        os.write(2, format_exc().encode("utf-8", "backslashreplace"))
    finally:
        child.leave(status)


def _duplicate_descriptors(passed: tuple[int, ...]) -> tuple[int, ...]:
    """Return copies of descriptors whose numbers are above those of a child's descriptors."""
    return tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, REPORT + _DESCRIPTOR_COUNT) for one in passed)


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
        self._tests = _ProcessEndpoint(tests.asking, tests.answering, _TESTS_FRAME_KINDS)
        self._solution = _ProcessEndpoint(solution.answers, solution.calls, _SOLUTION_FRAME_KINDS)
        self._turn = self._solution
        self._since_s = clock_s()
        self._pid: int | None = None
        self._why: str | None = None
        self._told = False
        for end, other in ((self._tests, self._solution), (self._solution, self._tests)):
            self._register(end, other)
        selector.register(nursery.descriptor, READ, self._read_notices)

    def call_timeout_at(self) -> float | None:
        """Return the unit's time at which the current call times out, in seconds.

        Return None while the tests compute, or after the solution has ended.
        """
        waits = self._turn is self._solution and not self._told
        return self._since_s + self._call_s if waits else None

    def enforce_timeout(self) -> None:
        """End the solution if its current call has timed out."""
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
        if len(end.unsent) > _MAX_UNSENT_BYTES:
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
        """Notify the tests, once, that the solution has ended."""
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
