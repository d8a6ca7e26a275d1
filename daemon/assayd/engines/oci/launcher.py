"""The launcher: a small process that starts the runtime and becomes the parent of all containers.

The launcher is small, so that forking is cheap. It reaps the processes that the runtime leaves, and
therefore knows how containers ended. If the daemon dies, the socket is closed, and the launcher kills all
of its containers. The launcher imports only the standard library, and is run by its path.

    daemon ──{"id", "argv", "join", "pidfile"} + stdin, stdout, stderr──>  launcher
           <─{"id", "pid"} + pidfd ──  or  ──{"id", "failed": status}───
           <─{"id", "code"}, once the container's first process has exited
           ──{"id", "tree"}──>
           <─{"id", "tree"} + a mount of that folder ──  or  ──{"id", "failed": error number}──

If an ordinary user starts the launcher, it is root in a separate user namespace that contains the user's
subordinate ids. Containers' namespaces are created below this namespace.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

MESSAGE_BYTES = 64 * 1024
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_ID_PROGRAMS = ("/usr/bin/newuidmap", "/usr/bin/newgidmap")
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_MS_NOSUID, _MS_NODEV = 0x2, 0x4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OPEN_TREE, _MOUNT_SETATTR = 428, 442
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_TREE_CLONE, _TREE_CLOEXEC = 0x1, 0o2000000
_ATTR_RDONLY, _ATTR_HIDDEN = 0x1, 0x2 | 0x4 | 0x8
_PRIVATE = 0x40000

Reply = dict[str, str | int]


class Launcher:
    """A process that starts containers on request over `control`, and reports how they end."""

    def __init__(self, control: socket.socket, libc: ctypes.CDLL) -> None:
        self._control = control
        self._libc = libc
        self._starting: dict[int, tuple[str, str]] = {}
        """Process id of a runtime -> container id, and the file for the first process's id."""
        self._running: dict[int, str] = {}
        self._ended: dict[int, int] = {}
        """Processes that ended before the runtime reported their container."""

    def serve(self) -> None:
        """Serve until the daemon disconnects, then end all containers."""
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
            if self._control.fileno() in ready and not self._handle_request():
                break
        self._end_containers()

    def _handle_request(self) -> bool:
        """Handle one request, and return whether the daemon is still connected."""
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._control, MESSAGE_BYTES, 3, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return False
        if not data:
            return False
        request = json.loads(data)
        try:
            if "tree" in request:
                self._send_mount(request["id"], request["tree"])
            else:
                self._start_runtime(request, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _start_runtime(self, request: dict[str, object], streams: list[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._starting[pid] = (str(request["id"]), str(request["pidfile"]))
            return
        try:
            # The runtime ends with this process; its partial container ends with the control group.
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                self._exec_runtime(request, streams)
        finally:
            os._exit(127)

    def _send_mount(self, name: str, path: str) -> None:
        try:
            tree = open_read_only_mount(self._libc, path)
        except OSError as problem:
            self._send_reply({"id": name, "failed": problem.errno or 0})
            return
        self._send_reply({"id": name, "tree": path}, tree)
        os.close(tree)

    def _exec_runtime(self, request: dict[str, object], streams: list[int]) -> None:
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
        # Collect all ended processes before reporting any: a container can end before its runtime does.
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            self._ended[pid] = status
        for pid in [pid for pid in self._starting if pid in self._ended]:
            self._report_start(pid, self._ended.pop(pid))
        for pid in [pid for pid in self._running if pid in self._ended]:
            self._send_reply({"id": self._running.pop(pid), "code": _exit_code(self._ended.pop(pid))})
        if not self._starting:
            self._ended.clear()

    def _report_start(self, runtime: int, status: int) -> None:
        name, path = self._starting.pop(runtime)
        try:
            with open(path, encoding="ascii") as file:  # noqa: PTH123 - this program is to stay small
                pid = int(file.read())
        except (OSError, ValueError):
            self._send_reply({"id": name, "failed": _exit_code(status)})
            return
        if status:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._send_reply({"id": name, "failed": _exit_code(status)})
            return
        self._running[pid] = name
        if pid in self._ended:
            self._send_reply({"id": name, "pid": pid})
            return
        # This child hasn't been reaped, so its process id can't be reused yet.
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:  # The runtime has reaped it, which none of the supported runtimes does.
            del self._running[pid]
            self._send_reply({"id": name, "failed": _exit_code(status)})
            return
        try:
            self._send_reply({"id": name, "pid": pid}, descriptor)
        finally:
            os.close(descriptor)

    def _send_reply(self, reply: Reply, *descriptors: int) -> None:
        passed = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        with suppress(OSError):  # The daemon disconnected, which the next iteration notices.
            self._control.sendmsg([json.dumps(reply).encode()], passed)

    def _end_containers(self) -> None:
        while self._starting or self._running:
            for pid in (*self._starting, *self._running):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            pid, status = os.waitpid(-1, 0)
            self._running.pop(pid, None)
            if pid in self._starting:
                self._report_start(pid, status)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def open_read_only_mount(libc: ctypes.CDLL, path: str) -> int:
    """Return a descriptor of a detached, permanently read-only mount of a folder.

    Source: open_tree(2), Linux 5.2; mount_setattr(2), Linux 5.12.

    Raises: OSError, if the folder doesn't exist or the kernel rejects the mount.
    """
    name, nothing = ctypes.create_string_buffer(os.fsencode(path)), ctypes.create_string_buffer(b"")
    tree = _syscall(libc, _OPEN_TREE, _AT_FDCWD, ctypes.addressof(name), _TREE_CLONE | _TREE_CLOEXEC)
    wanted = struct.pack("QQQQ", _ATTR_RDONLY | _ATTR_HIDDEN, 0, _PRIVATE, 0)
    attributes = ctypes.create_string_buffer(wanted, len(wanted))
    places = (ctypes.addressof(nothing), _AT_EMPTY_PATH, ctypes.addressof(attributes))
    try:
        _syscall(libc, _MOUNT_SETATTR, tree, *places, len(wanted))
    except OSError:
        os.close(tree)
        raise
    return tree


def _syscall(libc: ctypes.CDLL, *numbers: int) -> int:
    done = int(libc.syscall(*map(ctypes.c_long, numbers)))
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def _enter_user_namespace(libc: ctypes.CDLL, first: str, count: str) -> None:
    """Enter a new user namespace in which the daemon's user is root, and `count` ids from `first` follow.

    Only a process outside can write the mappings, and for foreign ids only setuid programs can.

    Raises: OSError, if the ids can't be mapped.
    """
    ids = [(str(os.getpid()), "0", str(own), "1", "1", first, count) for own in (os.getuid(), os.getgid())]
    waiting, going = os.pipe()
    outside = os.fork()
    if not outside:
        try:
            os.close(going)
            told = os.read(waiting, 1)
            done = told and all(
                os.spawnv(os.P_WAIT, program, [program, *each]) == 0  # noqa: S606 - as meant
                for program, each in zip(_ID_PROGRAMS, ids, strict=True)
            )
        finally:
            os._exit(0 if done else 1)
    try:
        _raise_on_error(libc, libc.unshare(_CLONE_NEWUSER), "make a user namespace")
        os.write(going, b"1")
    finally:
        os.close(going)
        os.close(waiting)
        _, status = os.waitpid(outside, 0)
    if status:
        raise OSError(f"{' and '.join(_ID_PROGRAMS)} can't map the user ids {first}+{count}")
    os.setgroups([])


def _prepare_mounts(libc: ctypes.CDLL, images: str, target: str, hugetlb: str) -> None:
    """Create missing mounts in a separate mount namespace that the host doesn't see.

    Args:
        libc: the C library.
        images: the folder of root filesystems.
        target: the folder through which containers see the images read-only; containers can lack access to
            the parents of `images`.
        hugetlb: the mount point of the hugetlb control groups, without which crun rejects version 1; "" for
            none.
    """
    _raise_on_error(libc, libc.unshare(_CLONE_NEWNS), "unshare")
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
    _raise_on_error(libc, done, f"mount {target}")


def _raise_on_error(libc: ctypes.CDLL, result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main() -> int:
    """Run the launcher until the daemon disconnects.

    Return 0, or 1 if the namespaces or mounts can't be created.

    The command-line arguments are the socket's descriptor, the folder of images, the folder that shows it to
    containers ("" for none), and the hugetlb mount point; for an ordinary user, also the first user id for
    containers and the number of ids.
    """
    number, images, target, hugetlb, *ids = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    control = socket.socket(fileno=int(number))
    control.set_inheritable(False)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        _raise_on_error(libc, libc.prctl(_PR_SET_CHILD_SUBREAPER, 1), "prctl")
        if ids:
            _enter_user_namespace(libc, *ids)
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
