"""The template: a warm interpreter in a separate container, from which sandboxes are cloned.

The template is the first process of its container and uses only the image's standard library. Over its only
socket, it receives its source, followed by a plan. It never has submitted data or guest output in memory,
and can only clone and reap. If the socket is closed, the template exits, and the kernel ends its children.

    daemon ──source, plan──> template ──{"id": ""}──> daemon
           ──{"id"} + streams, order, members, trees──>
           <─{"id", "pid": 0} + pidfd ──  or  ──{"id", "failed": error number}──
           <─{"id", "code"}, once the child has exited

Since children inherit a template's memory, the template identifies them only by number. All other data
about a child is in a file, the order, which only this child reads.

`_confine` lists the isolation steps; the daemon compares the result with the kernel's facts.

Source: docs/decisions/0070; clone(2), pivot_root(2), user_namespaces(7), capabilities(7), seccomp(2).
"""

from __future__ import annotations

import _socket
import array
import base64
import ctypes
import errno
import fcntl
import gc
import importlib
import json
import marshal
import os
import resource
import select
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import signal
else:  # Doesn't use the enum module, which a child would be the first to load.
    import _signal as signal

MESSAGE_BYTES = 192 * 1024
MAX_DESCRIPTORS = 16
BASE = "/sandbox"
"""The template's only writable folder: a tmpfs of the runtime, too small for anything but mount points."""

_NEW = {"mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "pid": 0x20000000, "net": 0x40000000}
_NEW_CGROUP, _NEW_USER, _PIDFD = 0x02000000, 0x10000000, 0x00001000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 0x1, 0x2, 0x4, 0x8
_REMOUNT, _BIND, _REC, _PRIVATE, _DETACH = 0x20, 0x1000, 0x4000, 0x40000, 0x2
_HIDDEN = _NOSUID | _NODEV | _NOEXEC
_MOVE_EMPTY_PATH = 0x4
_SET_DUMPABLE, _SET_SECCOMP, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _AMBIENT = 4, 22, 24, 38, 47
_SECCOMP_FILTER, _AMBIENT_CLEAR_ALL, _CAPABILITY_VERSION = 2, 4, 0x20080522
_MAX_CAPABILITIES = 64
_JOIN_SESSION_KEYRING = 1
_INSTRUCTION_BYTES, _FILTER_HEAD_BYTES = 8, 16
_PYC_HEADER_BYTES = 16
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_AF_INET, _SOCK_DGRAM = int(socket.AF_INET), int(socket.SOCK_DGRAM)
_SYSCALL_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "keyctl": 250},
    "aarch64": {"clone": 220, "pivot_root": 41, "keyctl": 219},
}
_MOVE_MOUNT_NUMBER = 429

_libc = ctypes.PyDLL(None, use_errno=True)
"""The C library. Its calls keep the GIL, because a clone made while another thread holds the GIL could never
acquire it.
"""
_libc.syscall.argtypes, _libc.syscall.restype = [ctypes.c_long] * 6, ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]
_number = _SYSCALL_NUMBERS.get(os.uname().machine, {})

Json = Mapping[str, Any]


class Template:
    """A template process that clones on request over `control`, and reports how the clones end."""

    def __init__(self, control: socket.socket, plan: Json, program: Callable[[], None] | None) -> None:
        self._control = control
        self._plan = plan
        self._program = program
        self._filter = _build_filter_program(base64.b64decode(plan["filter"]))
        self._running: dict[int, str] = {}

    def serve(self) -> Callable[[], None]:
        """Serve until the daemon disconnects, then exit. In a confined child, return the function to run."""
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
            if self._control.fileno() in ready:
                become = self._handle_request()
                if become is not None:
                    return become

    def _handle_request(self) -> Callable[[], None] | None:
        """Handle one request. Return the function to run in the resulting child, or None in the template."""
        data, descriptors, _, _ = socket.recv_fds(
            self._control, MESSAGE_BYTES, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            os._exit(0)
        number = json.loads(data)["id"]
        pid, pidfd = _fork_into_namespaces()
        if pid == 0:
            self._control.detach()
            self._run_child(descriptors)
            return self._program or _compile_source(self._plan["code"])
        for descriptor in descriptors:
            os.close(descriptor)
        if pid < 0:
            self._send_reply({"id": number, "failed": pidfd})
            return None
        self._running[pid] = number
        self._send_reply({"id": number, "pid": 0}, pidfd)
        os.close(pidfd)
        return None

    def _run_child(self, descriptors: Sequence[int]) -> None:
        """Turn this child into a sandbox. Exit if confining it fails."""
        try:
            _install_streams(descriptors[:3])
            request, handed = json.loads(os.pread(descriptors[3], MESSAGE_BYTES, 0)), descriptors[4:]
            count = len(request["groups"])
            _confine(self._plan, request, handed[:count], handed[count : 2 * count])
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            for name, value in request["limits"].items():
                resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (value, value))
            _reset_main(self._plan["argv"])
            _apply_filter(self._filter)
        except BaseException as problem:  # noqa: BLE001 - whatever it is, nothing may run
            os.write(2, f"can't be confined: {type(problem).__name__}: {problem}\n".encode())
            os._exit(126)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                code = os.waitstatus_to_exitcode(status)
                self._send_reply({"id": self._running.pop(pid, ""), "code": 128 - code if code < 0 else code})

    def _send_reply(self, reply: Json, *descriptors: int) -> None:
        rights = array.array("i", descriptors)
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
        # The daemon disconnected, which the next iteration notices.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._control.sendmsg([json.dumps(reply).encode()], passed)


def main(control: socket.socket) -> Callable[[], None]:
    """Load the plan's modules, prepare the part of the root that all children share, and serve.

    In a confined child, return the function to run.

    Raises: RuntimeError, if a preloaded module started a thread.
    """
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    plan = json.loads(control.recv(MESSAGE_BYTES))
    program = _load_runner(plan["file"], plan["preload"])
    _prepare_root()
    plan["masked"] = {path: os.path.isdir(path) for path in plan["masked"]}  # noqa: PTH112 - stays small
    gc.collect()
    gc.disable()
    gc.freeze()
    if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208 - this program is to stay small
        raise RuntimeError("a preloaded library started threads, which clones wouldn't have")
    control.send(json.dumps({"id": ""}).encode())
    return Template(control, plan, program).serve()


def _load_runner(file: str, preload: Sequence[str]) -> Callable[[], None] | None:
    """Load the runner and the modules to preload. Modules that can't be imported are skipped.

    Return the runner's start function, or None if the plan names no compiled file.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    sys.dont_write_bytecode = True
    names: dict[str, Any] = {"__name__": "guest"}
    if file:
        with open(file, "rb") as compiled:  # noqa: PTH123 - this program is to stay small
            exec(marshal.loads(compiled.read()[_PYC_HEADER_BYTES:]), names)  # noqa: S102, S302 - the image's own
    kept = dict(os.environ)
    constants = kept.get("ASSAYD_CONSTANTS", "").split(":")
    os.environ.clear()
    os.environ.update({name: kept[name] for name in constants if name in kept})
    for name in preload:
        with suppress(Exception):
            importlib.import_module(name)
    os.environ.update(kept)
    if file:
        names["prepare"]()
    return names.get("main")


def _prepare_root() -> None:
    """Create, below `BASE`, a root with the image and devices, and an empty folder for masking paths.

    The root is read-only. Each child gets a copy of these mounts in a separate namespace, and adds further
    mounts.
    """
    _mount("none", "/", "", _REC | _PRIVATE)
    for name in ("root", "empty"):
        os.mkdir(f"{BASE}/{name}", 0o755)  # noqa: PTH102 - this program is to stay small
    os.mkdir("/dev/shm", 0o755)  # noqa: PTH102, S108
    _mount(f"{BASE}/empty", f"{BASE}/empty", "", _BIND)
    _mount("none", f"{BASE}/empty", "", _BIND | _REMOUNT | _RDONLY | _HIDDEN)
    _mount("/", f"{BASE}/root", "", _BIND)
    _mount("/dev", f"{BASE}/root/dev", "", _BIND | _REC)
    _mount("none", f"{BASE}/root/dev", "", _BIND | _REMOUNT | _RDONLY | _NOSUID | _NOEXEC)


def _fork_into_namespaces() -> tuple[int, int]:
    """Fork into new namespaces. Return PID and pidfd, 0 in the child, or -1 and the error number."""
    pidfd = ctypes.c_int(-1)
    flags = sum(_NEW.values()) | _PIDFD | signal.SIGCHLD
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _libc.syscall(_number["clone"], flags, 0, ctypes.addressof(pidfd), 0, 0)
    problem = ctypes.get_errno()
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid, problem if pid < 0 else pidfd.value


def _install_streams(streams: Sequence[int]) -> None:
    """Install the streams, leave the template's session, and ignore its signals about children."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for target, source in enumerate(streams):
        os.dup2(source, target)


def _confine(plan: Json, request: Json, members: Sequence[int], trees: Sequence[int]) -> None:
    """Apply all isolation except the seccomp filter, in the only order that is possible."""
    # 1. The daemon's control groups come first, so that they count everything that follows. Their namespace
    # begins where the process is.
    for member in members:
        os.write(member, b"0")
    _raise_on_error(_libc.unshare(_NEW_CGROUP), "unshare")
    # 2. A separate network with only loopback, which takes the kernel long to set up and remove if it is up.
    # The host name is the template's.
    if request["loopback"]:
        _set_loopback_up()
    # 3. A separate root: the image, masked kernel file systems, a tmpfs.
    _enter_root(plan, request, trees)
    # 4. A separate user. Its user namespace comes last: a user namespace that doesn't own the PID namespace
    # can't mount `/proc`, so no capability in it affects the earlier steps.
    _set_user(request["uid"], plan["guest"])
    # 5. No capability, permanently.
    _drop_capabilities()
    _prctl(_SET_NO_NEW_PRIVS, 1)


def _set_loopback_up() -> None:
    any_socket = _socket.socket(_AF_INET, _SOCK_DGRAM)
    held = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sH22x", b"lo", 0))
    flags = struct.unpack_from("16sH", held)[1] | _UP
    fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags))
    any_socket.close()


def _enter_root(plan: Json, request: Json, trees: Sequence[int]) -> None:
    root = f"{BASE}/root"
    _mount("proc", f"{root}/proc", "proc", _HIDDEN)
    for name, value in plan["sysctls"].items():
        _write(f"{root}/proc/sys/{name.replace('.', '/')}", value)
    _mount("sysfs", f"{root}/sys", "sysfs", _HIDDEN | _RDONLY)
    for path in plan["readonly"]:
        _mount(f"{root}{path}", f"{root}{path}", "", _BIND | _REC)
        _mount("none", f"{root}{path}", "", _BIND | _REMOUNT | _RDONLY | _HIDDEN)
    for path, is_folder in plan["masked"].items():
        _mask_path(root + path, is_folder)
    _mount_groups(f"{root}/sys/fs/cgroup", request["groups"], trees)
    _mount("shm", f"{root}/dev/shm", "tmpfs", _HIDDEN, plan["shm"])  # noqa: S108 - the fixed path
    owner = f"uid={request['uid']},gid={request['uid']},mode=0700"
    flags = _HIDDEN & ~_NOEXEC if request["exec"] else _HIDDEN
    _mount("work", root + BASE, "tmpfs", flags, f"{request['work']},{owner}")
    os.chdir(root)
    _raise_on_error(
        _libc.syscall(_number["pivot_root"], *[ctypes.addressof(_CURRENT_DIR)] * 2, 0, 0, 0), "pivot_root"
    )
    _raise_on_error(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def _mask_path(path: str, is_folder: bool) -> None:
    """Hide a file or folder if the kernel provides it.

    A file can't hide a folder, and the kernel waits for a grace period after trying.
    """
    target, empty = path.encode(), [b"/dev/null", f"{BASE}/empty".encode()]
    for source in reversed(empty) if is_folder else empty:
        if _libc.mount(source, target, b"", _BIND, b"") == 0 or ctypes.get_errno() == errno.ENOENT:
            return
    _raise_on_error(-1, f"mask {path}")


def _mount_groups(target: str, names: Sequence[str], trees: Sequence[int]) -> None:
    """Mount the child's control groups, which the daemon passes as read-only mounts."""
    if "" not in names:
        _mount("cgroup", target, "tmpfs", _HIDDEN, "mode=755,size=64k")
    for name, tree in zip(names, trees, strict=True):
        place = f"{target}/{name}".rstrip("/")
        if name:
            os.mkdir(place, 0o755)  # noqa: PTH102 - this program is to stay small
        _path_buffer.value = place.encode()
        moved = _libc.syscall(
            _MOVE_MOUNT_NUMBER,
            tree,
            ctypes.addressof(_EMPTY_STRING),
            -100,
            ctypes.addressof(_path_buffer),
            _MOVE_EMPTY_PATH,
        )
        _raise_on_error(moved, f"move_mount {place}")


def _set_user(uid: int, guest: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # The session keyring must not be shared; kernels without keyrings have none.
    joined = _libc.syscall(_number["keyctl"], _JOIN_SESSION_KEYRING, 0, 0, 0, 0)
    if joined < 0 and ctypes.get_errno() != errno.ENOSYS:
        _raise_on_error(-1, "keyctl")
    _raise_on_error(_libc.unshare(_NEW_USER), "unshare user")
    # A non-dumpable process can't write its own maps.
    _prctl(_SET_DUMPABLE, 1)
    _write("/proc/self/setgroups", "deny")
    for name in ("uid_map", "gid_map"):
        _write(f"/proc/self/{name}", f"{guest} {uid} 1")


def _drop_capabilities() -> None:
    for capability in range(_MAX_CAPABILITIES):
        if _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if ctypes.get_errno() != errno.EINVAL or not capability:
                _raise_on_error(-1, "capabilities")
            break
    _prctl(_AMBIENT, _AMBIENT_CLEAR_ALL)
    _raise_on_error(_libc.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)), "capset")


def _apply_filter(program: ctypes.Array[ctypes.c_char]) -> None:
    """Apply the seccomp filter to this process. This can't be undone."""
    _prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.addressof(program))


def _build_filter_program(program: bytes) -> ctypes.Array[ctypes.c_char]:
    """Return a seccomp filter in the kernel's form (``struct sock_fprog`` and the instructions)."""
    buffer = ctypes.create_string_buffer(_FILTER_HEAD_BYTES + len(program))
    start = ctypes.addressof(buffer) + _FILTER_HEAD_BYTES
    buffer.raw = struct.pack("HxxxxxxQ", len(program) // _INSTRUCTION_BYTES, start) + program
    return buffer


def _reset_main(arguments: Sequence[str]) -> None:
    """Set the program's arguments, and create an empty main module."""
    sys.modules["__main__"] = type(sys)("__main__")
    sys.argv[:] = arguments


def _compile_source(text: str) -> Callable[[], None]:
    code = compile(text, "<string>", "exec")
    gc.enable()
    return lambda: exec(code, vars(sys.modules["__main__"]))  # noqa: S102 - the image's own program


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode())
    _raise_on_error(done, f"mount {target}")


def _prctl(option: int, value: int, address: int = 0) -> None:
    _raise_on_error(_libc.prctl(option, value, address, 0, 0), f"prctl {option}")


def _write(path: str, content: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, content.encode("ascii"))
    os.close(descriptor)


def _raise_on_error(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


_CURRENT_DIR = ctypes.create_string_buffer(b".")
_EMPTY_STRING = ctypes.create_string_buffer(b"")
_path_buffer = ctypes.create_string_buffer(256)
"""A buffer for a mount point. Its size is fixed, because ctypes would create a class for each size."""
