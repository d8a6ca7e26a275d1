"""The launcher: a small process that starts the runtime, and whose children containers become.

It is small, so that a fork is cheap; it is the reaper of what the runtime leaves, and so knows how containers
ended; and when the daemon dies, its end of the socket says so and it kills every container that it has. It
imports the standard library alone and is run by its path.

    daemon ──{"id", "argv", "join", "pidfile"} + stdin, stdout, stderr──>  launcher
           <─{"id", "pid"} + pidfd ──  or  ──{"id", "failed": status}───
           <─{"id", "code"}, once the container's first process has ended
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress

MESSAGE_BYTES = 64 * 1024
_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_MS_NOSUID, _MS_NODEV = 0x2, 0x4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

Reply = dict[str, str | int]


class Launcher:
    """Starts what it is told to over `control`, and tells what becomes of it."""

    def __init__(self, control: socket.socket, libc: ctypes.CDLL) -> None:
        self._control = control
        self._libc = libc
        self._starting: dict[int, tuple[str, str]] = {}
        """Process of a runtime -> id, file into which it writes the container's first process."""
        self._running: dict[int, str] = {}
        self._ended: dict[int, int] = {}
        """Processes that ended before the runtime had said whose they are."""

    def serve(self) -> None:
        """Serve until the daemon has gone; then end every container."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        waiting = select.poll()
        for descriptor in (self._control.fileno(), reading):
            waiting.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if reading in ready:
                os.read(reading, 4096)
                self._reap()
            if self._control.fileno() in ready and not self._take():
                break
        self._end_all()

    def _take(self) -> bool:
        """Take one request; return whether the daemon is still there."""
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._control, MESSAGE_BYTES, 3, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return False
        if not data:
            return False
        try:
            self._start(json.loads(data), descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _start(self, request: dict[str, object], streams: list[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._starting[pid] = (str(request["id"]), str(request["pidfile"]))
            return
        try:
            # The runtime ends with us; what it has made by then goes with the control group.
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                self._become(request, streams)
        finally:
            os._exit(127)

    def _become(self, request: dict[str, object], streams: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for path in request["join"]:  # type: ignore[attr-defined]
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, b"0")
            os.close(descriptor)
        for stream, descriptor in enumerate(streams):
            os.dup2(descriptor, stream)
        arguments = [str(argument) for argument in request["argv"]]  # type: ignore[attr-defined]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        os.execve(arguments[0], arguments, environment)  # noqa: S606 - as meant

    def _reap(self) -> None:
        # All that have ended are known before any is spoken of: a container may end before its runtime does.
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            self._ended[pid] = status
        for pid in [pid for pid in self._starting if pid in self._ended]:
            self._started(pid, self._ended.pop(pid))
        for pid in [pid for pid in self._running if pid in self._ended]:
            self._say({"id": self._running.pop(pid), "code": _code(self._ended.pop(pid))})
        if not self._starting:
            self._ended.clear()

    def _started(self, runtime: int, status: int) -> None:
        name, path = self._starting.pop(runtime)
        try:
            with open(path, encoding="ascii") as file:  # noqa: PTH123 - this program is to stay small
                pid = int(file.read())
        except (OSError, ValueError):
            self._say({"id": name, "failed": _code(status)})
            return
        if status:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._say({"id": name, "failed": _code(status)})
            return
        self._running[pid] = name
        if pid in self._ended:
            self._say({"id": name, "pid": pid})
            return
        # A child that we have not waited for: the number is its own until then.
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:  # the runtime has waited for it, which none of those that we start does
            del self._running[pid]
            self._say({"id": name, "failed": _code(status)})
            return
        try:
            self._say({"id": name, "pid": pid}, descriptor)
        finally:
            os.close(descriptor)

    def _say(self, reply: Reply, *descriptors: int) -> None:
        passed = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        with suppress(OSError):  # the daemon has gone, which the next turn sees
            self._control.sendmsg([json.dumps(reply).encode()], passed)

    def _end_all(self) -> None:
        while self._starting or self._running:
            for pid in (*self._starting, *self._running):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            pid, status = os.waitpid(-1, 0)
            self._running.pop(pid, None)
            if pid in self._starting:
                self._started(pid, status)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _prepare_mounts(libc: ctypes.CDLL, images: str, target: str, hugetlb: str) -> None:
    """Make, in a mount namespace of our own, what the machine lacks; the host sees none of it.

    Args:
        libc: the C library.
        images: the folder with root filesystems.
        target: where containers find it, read-only, though they may have no rights on its own parents.
        hugetlb: where to mount the control groups of that name, without which crun refuses version 1;
            "" for nowhere.
    """
    _check(libc, libc.unshare(_CLONE_NEWNS), "unshare")
    _mount(libc, "none", "/", None, _MS_REC | _MS_SLAVE)
    if hugetlb:
        os.makedirs(hugetlb, exist_ok=True)  # noqa: PTH103 - this program is to stay small
        _mount(libc, "cgroup", hugetlb, "cgroup", 0, "hugetlb")
    _mount(libc, images, target, None, _MS_BIND)
    _mount(libc, "none", target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _mount(
    libc: ctypes.CDLL, source: str, target: str, kind: str | None, flags: int, options: str = ""
) -> None:
    done = libc.mount(
        source.encode(),
        target.encode(),
        kind and kind.encode(),
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(libc, done, f"mount {target}")


def _check(libc: ctypes.CDLL, result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main() -> int:
    """Serve. Arguments: descriptor, folder of images, where to show it ("" = not at all), hugetlb."""
    number, images, target, hugetlb = sys.argv[1:5]
    libc = ctypes.CDLL(None, use_errno=True)
    control = socket.socket(fileno=int(number))
    control.set_inheritable(False)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        _check(libc, libc.prctl(_PR_SET_CHILD_SUBREAPER, 1), "prctl")
        if target:
            _prepare_mounts(libc, images, target, hugetlb)
    except OSError as problem:
        control.send(json.dumps({"id": "", "failed": str(problem)}).encode())
        return 1
    control.send(json.dumps({"id": "", "pid": os.getpid()}).encode())
    Launcher(control, libc).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
