"""Forks the processes of a solution from a process that has never read any test.

The runner reads tests, arguments and results, and traces of them stay in its memory. Before any of this
data arrives, the runner therefore forks the nursery, which has only the solution's text. For each test, the
nursery forks a solution, which begins by importing the code; the nursery runs none of the code. Over a
socket, the nursery receives the descriptors for each solution, and returns the solution's PID and its wait
status.
"""

from __future__ import annotations

import _socket
import fcntl
import gc
import os

from . import child, substitutes
from .answering import serve_solution
from .seccomp import REPORT
from .substitutes import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

READING, WRITING = 5, 6
_PASSED = 6
_DESCRIPTOR_BYTES = 4
_MESSAGE_BYTES = 64
_BROKEN = 70


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
        """Request the fork of the next solution, and return the pipes to it. Raises: OSError."""
        stdin, stdout, stderr, report, calls, answers = (os.pipe2(os.O_CLOEXEC) for _ in range(_PASSED))
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
        """Return the fork server's messages: ``pid`` or ``end``, serial number, and PID or wait status."""
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
    status = _BROKEN
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
    said, extra, _, _ = orders.recvmsg(_MESSAGE_BYTES, _socket.CMSG_SPACE(_PASSED * _DESCRIPTOR_BYTES))
    if not said or not extra:
        return ()
    content = extra[0][2]
    return tuple(
        int.from_bytes(content[at : at + _DESCRIPTOR_BYTES], "little")
        for at in range(0, _PASSED * _DESCRIPTOR_BYTES, _DESCRIPTOR_BYTES)
    )


def _run_solution(
    confinement: child.Confinement, document: bytes, passed: tuple[int, ...], work: int
) -> NoReturn:
    """Turn this fork into a solution's process, and run it. This call never returns."""
    status = _BROKEN
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
        child.drop_privileges(confinement, child.SOLUTION)
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
    return tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, REPORT + _PASSED) for one in passed)
