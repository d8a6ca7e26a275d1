"""Seccomp filters for guest code: two filters in BPF instructions, in addition to the engine's own filter.

The first filter refuses calls that neither guest code nor a runner without a relay needs. Because loading a
filter takes a fifth of the time of a child's confinement, such a runner loads the first filter once, and
its children inherit it. Each child loads the second filter, which protects the report pipe and refuses
further filters.

Refused calls fail with EPERM (or ENOSYS, if callers have a fallback for it); no call kills the process.
Signals aren't filtered: PID 1 has no handlers, so the kernel itself drops signals from its namespace.

Calls that are refused for reasons that aren't obvious:

- prlimit64, sched_*, setpriority, ioprio_set on another process: the runner has the same user, and a slowed
  runner would enforce deadlines too late.
- shmget, msgget, semget, mq_open: the objects that they create outlive the process, so the next unit could
  access them.
- sendmsg, sendmmsg: the only ways to send a descriptor through a socket. The kernel limits the descriptors
  in transit per user on the whole machine, and all containers run as one user: one container could exhaust
  the limit of the others.
- memfd_create: it creates an executable file, although the only writable directory is mounted noexec.
- close, close_range, dup2, dup3 of the report pipe, if no other program can be started: the child's real
  reports are always sent, so that they contradict a forged record. (Shells use descriptor 3 themselves.)
- socket: refused, except for TCP over AF_INET if the network mode is `allowlist`. The only network device
  is loopback, on which the proxy listens. socketpair of AF_UNIX is allowed, because asyncio needs it to
  wake its event loop.
- setsockopt, except for listed options: a socket filter (SO_ATTACH_FILTER and similar options) is compiled
  into memory that the whole machine shares (net.core.bpf_jit_limit) and that isn't charged to a control
  group.
- setsockopt of buffer sizes, in the mode `allowlist`: TCP buffers use memory of the host, and the
  container's settings (engines/docker/document.py) limit the memory of a socket only if it doesn't request
  more.
- open, openat, fcntl with O_DIRECT: files of the image are shared between containers, and each such read
  accesses the disk.
- seccomp, prctl(PR_SET_SECCOMP): a further filter uses the same shared memory as socket filters.

`add_isolation_rules` adds rules that isolate a solution from its tests, which have the same user and PID
namespace.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    _Table = Mapping[str, tuple[int, int | None]]

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_RET_ALLOW = 0x7FFF0000
_RET_ERRNO = 0x00050000

REPORT = 3
"""The descriptor that a child reports on."""

_NAMESPACE_FLAGS = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
"""CLONE_NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWNS."""
_AF_UNIX, _AF_INET, _SOCK_STREAM, _IPPROTO_TCP = 1, 2, 1, 6
_SOCKET_OPTIONS: dict[int, tuple[int, ...]] = {
    # SO_REUSEADDR, KEEPALIVE, LINGER, REUSEPORT, RCVTIMEO, SNDTIMEO
    1: (2, 9, 13, 15, 20, 21),
    # TCP_NODELAY, CORK, KEEPIDLE, KEEPINTVL, KEEPCNT, DEFER_ACCEPT, QUICKACK, USER_TIMEOUT
    6: (1, 3, 4, 5, 6, 9, 12, 18),
}
"""Allowed options by level; equal on both architectures. Importing `socket` would take too long."""
_BUFFER_SIZES: dict[int, tuple[int, ...]] = {1: (7, 8)}
"""SO_SNDBUF, SO_RCVBUF: with these, a socket can use more memory than the container allows."""
_PR_SET_SECCOMP = 22
_F_SETFL = 4
_O_DIRECT = {"x86_64": 0x4000, "aarch64": 0x10000}
_SOCKET_KIND = 0x0F
"""The bits of a socket's type without SOCK_CLOEXEC and SOCK_NONBLOCK."""
_PRIO_PROCESS = 0
_IOPRIO_WHO_PROCESS = 1

# Number on x86_64, number on aarch64 (None: the call doesn't exist).
_REFUSED_CALLS: dict[str, tuple[int, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_FURTHER_FILTERS: dict[str, tuple[int, int | None]] = {"seccomp": (317, 277)}
_ENOSYS_CALLS: dict[str, tuple[int, int | None]] = {
    "clone3": (435, 435),
    "pidfd_open": (434, 434),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "openat2": (437, 437),  # its flags are in memory, which filters can't read
}
_EXEC_CALLS: dict[str, tuple[int, int | None]] = {"execve": (59, 221), "execveat": (322, 281)}
_CHECKED_CALLS: dict[str, tuple[int, int | None]] = {
    "open": (2, None),
    "openat": (257, 56),
    "fcntl": (72, 25),
    "clone": (56, 220),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "setsockopt": (54, 208),
    "prctl": (157, 167),
    "close": (3, 57),
    "dup2": (33, None),
    "dup3": (292, 24),
    "close_range": (436, 436),
}


_SIGNAL_CALLS: dict[str, tuple[int, int | None]] = {
    "kill": (62, 129),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
"""Calls that send signals. Their first argument is the process."""
_ISOLATION_REFUSED_CALLS: dict[str, tuple[int, int | None]] = {
    "tkill": (200, 130),
    "fork": (57, None),
    "vfork": (58, None),
}
_CLONE_THREAD = 0x00010000
_OWNER_COMMANDS = (8, 10, 15)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX: the kernel sends signals to the owner of a descriptor."""
_OWNER_REQUESTS = (0x8901, 0x8902)
"""FIOSETOWN, SIOCSPGRP: the same by ioctl."""
_IOCTL: tuple[int, int | None] = (16, 29)
_WRITING = 0x3 | 0x40 | 0x200 | 0x400000
"""O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, __O_TMPFILE; equal on both architectures."""
_FILE_CHANGES: dict[str, tuple[int, int | None]] = {
    "creat": (85, None),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmodat": (268, 53),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
}

_FILTER_CACHE: dict[tuple[bool, bool], tuple[bytes, bytes]] = {}


def get_filters(*, allow_exec: bool, allow_inet: bool) -> tuple[bytes, bytes]:
    """Return an attempt's seccomp filters for this machine. Each combination is built only once.

    Raises: the same errors as `build_filters`.
    """
    which = allow_exec, allow_inet
    if which not in _FILTER_CACHE:
        _FILTER_CACHE[which] = build_filters(allow_exec=allow_exec, allow_inet=allow_inet)
    return _FILTER_CACHE[which]


def build_filters(*, allow_exec: bool, allow_inet: bool, machine: str | None = None) -> tuple[bytes, bytes]:
    """Return the filter that a runner can share with its children, and the child's own filter.

    Raises: ValueError, if the system calls of the machine's architecture are unknown.
    """
    machine = machine or os.uname().machine
    if machine not in _AUDIT_ARCH:
        raise ValueError(f"no system call numbers for {machine}")
    refused = _REFUSED_CALLS if allow_exec else {**_REFUSED_CALLS, **_EXEC_CALLS}
    shared = _assemble_filter(
        machine,
        refused,
        _ENOSYS_CALLS,
        _build_argument_rules(allow_inet) | _refuse_open_flag(_O_DIRECT[machine]),
    )
    own = _assemble_filter(machine, _FURTHER_FILTERS, {}, _build_child_rules(report=not allow_exec))
    return shared, own


def _assemble_filter(machine: str, refused: _Table, absent: _Table, judgements: Mapping[str, bytes]) -> bytes:
    column = list(_AUDIT_ARCH).index(machine)
    program = _check_architecture(_AUDIT_ARCH[machine])
    for table, number in ((refused, errno.EPERM), (absent, errno.ENOSYS)):
        for call in table.values():
            if (nr := call[column]) is not None:
                program += _encode_instruction(_JUMP_EQUAL, nr, skip_if_not=1) + _return_errno(number)
    for name, block in judgements.items():
        if (nr := _CHECKED_CALLS[name][column]) is not None:
            judged = block + _encode_instruction(_LOAD, _NR)
            program += _encode_instruction(_JUMP_EQUAL, nr, skip_if_not=len(judged) // 8) + judged
    return program + _encode_instruction(_RETURN, _RET_ALLOW)


def add_isolation_rules(program: bytes, pid: int, *, writes: bool, machine: str | None = None) -> bytes:
    """Return the filter with additional rules that isolate a process from others of the same user.

    The process can't start another process, and can't send signals to one, directly or through the kernel. If
    `writes` is False, the process can't create or change files either, so that it can't pass data to others
    in files.
    """
    column = list(_AUDIT_ARCH).index(machine or os.uname().machine)
    added = b""
    for call in _ISOLATION_REFUSED_CALLS.values():
        if (nr := call[column]) is not None:
            added += _encode_instruction(_JUMP_EQUAL, nr, skip_if_not=1) + _return_errno(errno.EPERM)
    blocks = [(call, _deny_unless_equal(0, pid)) for call in _SIGNAL_CALLS.values()]
    owners = b"".join(
        _encode_instruction(_JUMP_EQUAL, one, skip_if_not=1) + _return_errno(errno.EPERM)
        for one in _OWNER_COMMANDS
    )
    requests = b"".join(
        _encode_instruction(_JUMP_EQUAL, one, skip_if_not=1) + _return_errno(errno.EPERM)
        for one in _OWNER_REQUESTS
    )
    blocks += [
        (
            _CHECKED_CALLS["clone"],
            _load_argument(0)
            + _encode_instruction(_JUMP_ANY_BIT, _CLONE_THREAD, skip_if=1)
            + _return_errno(errno.EPERM),
        ),
        (_CHECKED_CALLS["fcntl"], _load_argument(1) + owners),
        (_IOCTL, _load_argument(1) + requests),
    ]
    if not writes:
        for call in _FILE_CHANGES.values():
            if (nr := call[column]) is not None:
                added += _encode_instruction(_JUMP_EQUAL, nr, skip_if_not=1) + _return_errno(errno.EROFS)
        blocks += [(_CHECKED_CALLS["open"], _deny_if_any_bit(1, _WRITING, errno.EROFS))]
        blocks += [(_CHECKED_CALLS["openat"], _deny_if_any_bit(2, _WRITING, errno.EROFS))]
    for call, block in blocks:
        if (nr := call[column]) is not None:
            judged = block + _encode_instruction(_LOAD, _NR)
            added += _encode_instruction(_JUMP_EQUAL, nr, skip_if_not=len(judged) // 8) + judged
    last = _encode_instruction(_RETURN, _RET_ALLOW)
    return program.removesuffix(last) + added + last


def _check_architecture(architecture: int) -> bytes:
    """Return the instructions that refuse calls of other architectures (32 bit, x32).

    Their call numbers have different meanings.
    """
    return (
        _encode_instruction(_LOAD, _ARCH)
        + _encode_instruction(_JUMP_EQUAL, architecture, skip_if=1)
        + _return_errno(errno.ENOSYS)
        + _encode_instruction(_LOAD, _NR)
        + _encode_instruction(_JUMP_GREATER_EQUAL, _X32_BIT, skip_if_not=1)
        + _return_errno(errno.ENOSYS)
    )


def _build_argument_rules(allow_inet: bool) -> dict[str, bytes]:
    """Return the instructions that check the arguments of each conditionally allowed call."""
    own_only = _deny_unless_equal(0, 0)
    return {
        "clone": _load_argument(0)
        + _encode_instruction(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, skip_if_not=1)
        + _return_errno(errno.EPERM),
        "socket": _deny_unless_tcp() if allow_inet else _return_errno(errno.EPERM),
        "setsockopt": _deny_unless_option_listed({} if allow_inet else _BUFFER_SIZES),
        "socketpair": _deny_unless_equal(0, _AF_UNIX),
        "prlimit64": own_only,
        "sched_setaffinity": own_only,
        "sched_setscheduler": own_only,
        "sched_setparam": own_only,
        "sched_setattr": own_only,
        "setpriority": _deny_unless_equal(0, _PRIO_PROCESS) + _deny_unless_equal(1, 0),
        "ioprio_set": _deny_unless_equal(0, _IOPRIO_WHO_PROCESS) + _deny_unless_equal(1, 0),
    }


def _refuse_open_flag(flag: int) -> dict[str, bytes]:
    """Return the instructions that refuse a flag of open files with the error of an unsupported flag."""
    by_fcntl = _deny_if_any_bit(2, flag)
    return {
        "open": _deny_if_any_bit(1, flag),
        "openat": _deny_if_any_bit(2, flag),
        "fcntl": _load_argument(1)
        + _encode_instruction(_JUMP_EQUAL, _F_SETFL, skip_if_not=len(by_fcntl) // 8)
        + by_fcntl,
    }


def _deny_if_any_bit(argument: int, bits: int, number: int = errno.EINVAL) -> bytes:
    return (
        _load_argument(argument)
        + _encode_instruction(_JUMP_ANY_BIT, bits, skip_if_not=1)
        + _return_errno(number)
    )


def _deny_unless_tcp() -> bytes:
    """Return the instructions that refuse all sockets except TCP over IPv4, with any type flags."""
    return (
        _deny_unless_equal(0, _AF_INET)
        + _load_argument(1)
        + _encode_instruction(_AND, _SOCKET_KIND)
        + _encode_instruction(_JUMP_EQUAL, _SOCK_STREAM, skip_if=1)
        + _return_errno(errno.EPERM)
        + _load_argument(2)
        + _encode_instruction(_JUMP_EQUAL, 0, skip_if=2)
        + _encode_instruction(_JUMP_EQUAL, _IPPROTO_TCP, skip_if=1)
        + _return_errno(errno.EPERM)
    )


def _deny_unless_option_listed(more: dict[int, tuple[int, ...]]) -> bytes:
    """Return the instructions that refuse all socket options outside the fixed list and `more`."""
    block = b""
    for level, listed in _SOCKET_OPTIONS.items():
        options = (*listed, *more.get(level, ()))
        judged = b"".join(
            _encode_instruction(_JUMP_EQUAL, option, skip_if_not=1) + _encode_instruction(_RETURN, _RET_ALLOW)
            for option in options
        )
        judged = _load_argument(2) + judged + _return_errno(errno.EPERM)
        block += (
            _load_argument(1) + _encode_instruction(_JUMP_EQUAL, level, skip_if_not=len(judged) // 8) + judged
        )
    return block + _return_errno(errno.EPERM)


def _build_child_rules(*, report: bool) -> dict[str, bytes]:
    """Return the instructions that refuse further filters and protect the report pipe's descriptor.

    A `close_range` call whose range could include that descriptor fails with ENOSYS; callers then close
    descriptors one by one.
    """
    further = {"prctl": _deny_if_equal(0, _PR_SET_SECCOMP)}
    if not report:
        return further
    return {
        **further,
        "close": _deny_if_equal(0, REPORT),
        "dup2": _deny_if_equal(1, REPORT),
        "dup3": _deny_if_equal(1, REPORT),
        "close_range": _load_argument(0)
        + _encode_instruction(_JUMP_GREATER_EQUAL, REPORT + 1, skip_if=1)
        + _return_errno(errno.ENOSYS),
    }


def _deny_if_equal(argument: int, value: int) -> bytes:
    return (
        _load_argument(argument)
        + _encode_instruction(_JUMP_EQUAL, value, skip_if_not=1)
        + _return_errno(errno.EPERM)
    )


def _deny_unless_equal(argument: int, value: int) -> bytes:
    return (
        _load_argument(argument)
        + _encode_instruction(_JUMP_EQUAL, value, skip_if=1)
        + _return_errno(errno.EPERM)
    )


def _load_argument(argument: int) -> bytes:
    """Return the instruction that loads an argument's lower 32 bits (a C int on little-endian machines)."""
    return _encode_instruction(_LOAD, _ARGUMENTS + 8 * argument)


def _return_errno(number: int) -> bytes:
    return _encode_instruction(_RETURN, _RET_ERRNO | number)


def _encode_instruction(code: int, operand: int, *, skip_if: int = 0, skip_if_not: int = 0) -> bytes:
    """Return a ``struct sock_filter``: u16 code, two u8, u32 operand (little-endian machines)."""
    return (code | skip_if << 16 | skip_if_not << 24 | operand << 32).to_bytes(8, "little")
