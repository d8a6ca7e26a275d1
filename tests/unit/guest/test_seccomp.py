"""The system call filters of a child, interpreted like the kernel does."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from assayd.guest.seccomp import add_isolation_rules, build_filters

X86, ARM = 0xC000003E, 0xC00000B7
ALLOWED = None


def judge(programs: tuple[bytes, ...], number: int, *arguments: int, architecture: int = X86) -> int | None:
    """Interpret the filters for one call; return the errno of the first filter that refuses it, or None."""
    answers = (_judge(program, number, *arguments, architecture=architecture) for program in programs)
    return next((answer for answer in answers if answer is not ALLOWED), ALLOWED)


def _judge(program: bytes, number: int, *arguments: int, architecture: int) -> int | None:
    words = [number, architecture, 0, 0] + [
        part for value in arguments for part in (value & 0xFFFFFFFF, value >> 32)
    ]
    words += [0] * (16 - len(words))
    steps = list(struct.iter_unpack("=HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, skip_if, skip_if_not, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                accumulator = words[operand // 4]
            case 0x54:
                accumulator &= operand
            case 0x06:
                return ALLOWED if operand == 0x7FFF0000 else operand & 0xFFFF
            case _:
                held = {
                    0x15: accumulator == operand,
                    0x35: accumulator >= operand,
                    0x45: bool(accumulator & operand),
                }
                at += skip_if if held[code] else skip_if_not


STRICT = build_filters(allow_exec=False, allow_inet=False, machine="x86_64")
OPEN = build_filters(allow_exec=True, allow_inet=True, machine="x86_64")
ON_ARM = build_filters(allow_exec=False, allow_inet=False, machine="aarch64")


@pytest.mark.parametrize(
    ("name", "number", "arguments", "strict", "opened"),
    [
        ("read", 0, (0,), None, None),
        ("openat", 257, (), None, None),
        ("openat with O_DIRECT", 257, (-100 & 0xFFFFFFFF, 0, 0x4000), errno.EINVAL, errno.EINVAL),
        ("open with O_DIRECT", 2, (0, 0x4000), errno.EINVAL, errno.EINVAL),
        ("openat2", 437, (), errno.ENOSYS, errno.ENOSYS),
        ("fcntl F_SETFL with O_DIRECT", 72, (3, 4, 0x4800), errno.EINVAL, errno.EINVAL),
        ("fcntl F_SETFL with O_NONBLOCK", 72, (3, 4, 0x800), None, None),
        ("fcntl F_DUPFD", 72, (3, 0, 0x4000), None, None),
        ("execve", 59, (), errno.EPERM, None),
        ("execveat", 322, (), errno.EPERM, None),
        ("ptrace", 101, (), errno.EPERM, errno.EPERM),
        ("clone3", 435, (), errno.ENOSYS, errno.ENOSYS),
        ("io_uring_setup", 425, (), errno.ENOSYS, errno.ENOSYS),
        ("fork", 57, (), None, None),
        ("clone of a thread", 56, (0x3D0F00,), None, None),
        ("clone with a user namespace", 56, (0x10000000 | 17,), errno.EPERM, errno.EPERM),
        ("socket AF_UNIX", 41, (socket.AF_UNIX,), errno.EPERM, errno.EPERM),
        ("socket TCP", 41, (socket.AF_INET, socket.SOCK_STREAM, 0), errno.EPERM, None),
        ("socket TCP by name", 41, (2, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 6), errno.EPERM, None),
        ("socket UDP", 41, (socket.AF_INET, socket.SOCK_DGRAM, 0), errno.EPERM, errno.EPERM),
        ("socket raw", 41, (socket.AF_INET, socket.SOCK_RAW, 6), errno.EPERM, errno.EPERM),
        ("socket SCTP", 41, (socket.AF_INET, socket.SOCK_STREAM, 132), errno.EPERM, errno.EPERM),
        ("setsockopt SO_RCVBUF", 54, (3, socket.SOL_SOCKET, socket.SO_RCVBUF), None, errno.EPERM),
        ("setsockopt SO_SNDBUF", 54, (3, socket.SOL_SOCKET, socket.SO_SNDBUF), None, errno.EPERM),
        ("setsockopt SO_KEEPALIVE", 54, (3, socket.SOL_SOCKET, socket.SO_KEEPALIVE), None, None),
        ("setsockopt TCP_NODELAY", 54, (3, socket.IPPROTO_TCP, socket.TCP_NODELAY), None, None),
        ("setsockopt TCP_ULP", 54, (3, socket.IPPROTO_TCP, 31), errno.EPERM, errno.EPERM),
        ("setsockopt SO_ATTACH_FILTER", 54, (3, 1, 26), errno.EPERM, errno.EPERM),
        ("setsockopt SO_ATTACH_BPF", 54, (3, 1, 50), errno.EPERM, errno.EPERM),
        ("setsockopt SO_ATTACH_REUSEPORT_CBPF", 54, (3, 1, 51), errno.EPERM, errno.EPERM),
        ("setsockopt SO_LOCK_FILTER", 54, (3, 1, 44), errno.EPERM, errno.EPERM),
        ("setsockopt of IP", 54, (3, socket.IPPROTO_IP, 35), errno.EPERM, errno.EPERM),
        ("seccomp", 317, (1, 0), errno.EPERM, errno.EPERM),
        ("prctl PR_SET_SECCOMP", 157, (22, 2), errno.EPERM, errno.EPERM),
        ("prctl PR_SET_NAME", 157, (15,), None, None),
        ("socket AF_INET6", 41, (socket.AF_INET6,), errno.EPERM, errno.EPERM),
        ("socketpair AF_UNIX", 53, (socket.AF_UNIX,), None, None),
        ("socketpair AF_TIPC", 53, (30,), errno.EPERM, errno.EPERM),
        ("prlimit64 of itself", 302, (0, 7), None, None),
        ("prlimit64 of another", 302, (1, 7), errno.EPERM, errno.EPERM),
        ("prlimit64 with a dirty upper half", 302, (1 << 32, 7), None, None),
        ("setpriority of itself", 141, (0, 0), None, None),
        ("setpriority of another", 141, (0, 1), errno.EPERM, errno.EPERM),
        ("setpriority of the user", 141, (2, 0), errno.EPERM, errno.EPERM),
        ("sched_setaffinity of another", 203, (1,), errno.EPERM, errno.EPERM),
        ("kill", 62, (1, 9), None, None),
        ("close of the report pipe", 3, (3,), errno.EPERM, None),
        ("close of another", 3, (4,), None, None),
        ("dup2 onto the report pipe", 33, (1, 3), errno.EPERM, None),
        ("dup2 from the report pipe", 33, (3, 1), None, None),
        ("dup3 onto the report pipe", 292, (1, 3), errno.EPERM, None),
        ("close_range over the report pipe", 436, (2, 100), errno.ENOSYS, None),
        ("close_range of the report pipe", 436, (3, 3), errno.ENOSYS, None),
        ("close_range above it", 436, (4, 100), None, None),
        ("x32 read", 0x40000000, (), errno.ENOSYS, errno.ENOSYS),
    ],
)
def test_call(
    name: str, number: int, arguments: tuple[int, ...], strict: int | None, opened: int | None
) -> None:
    assert (judge(STRICT, number, *arguments), judge(OPEN, number, *arguments)) == (strict, opened), name


@pytest.mark.parametrize(
    ("name", "number", "arguments"),
    [
        ("prctl PR_SET_SECCOMP", 157, (22, 2)),  # a child loads its own filter on top
        ("close of descriptor 3", 3, (3,)),
        ("dup2 onto descriptor 3", 33, (9, 3)),
    ],
)
def test_shared_filter_leaves_a_child_its_own_confinement(
    name: str, number: int, arguments: tuple[int, ...]
) -> None:
    assert judge(STRICT[:1], number, *arguments) is ALLOWED, name


def test_another_architecture_has_no_calls() -> None:
    assert judge(STRICT, 0, architecture=0x40000003) == errno.ENOSYS


@pytest.mark.parametrize(
    ("number", "arguments", "result"),
    [
        (63, (), None),
        (221, (), errno.EPERM),
        (220, (17,), None),
        (198, (2,), errno.EPERM),
        (117, (), errno.EPERM),
        (57, (3,), errno.EPERM),
        (56, (0, 0, 0x4000), None),  # O_DIRECTORY there
        (56, (0, 0, 0x10000), errno.EINVAL),
        (24, (1, 3), errno.EPERM),
    ],
)
def test_numbers_of_arm(number: int, arguments: tuple[int, ...], result: int | None) -> None:
    assert judge(ON_ARM, number, *arguments, architecture=ARM) == result


def test_unknown_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        build_filters(allow_exec=False, allow_inet=False, machine="riscv64")


OWN, OTHER = 41, 42
APART = {
    "kill": (62, OTHER, 9),
    "kill of all": (62, -1 & 0xFFFFFFFF, 9),
    "tgkill": (234, OTHER, OTHER, 9),
    "tkill": (200, OTHER, 9),
    "rt_sigqueueinfo": (129, OTHER, 9, 0),
    "fork": (57,),
    "vfork": (58,),
    "clone of a process": (56, 17),
    "owner of a descriptor": (72, 3, 8, OTHER),
    "signal of a descriptor": (72, 3, 10, 9),
    "owner by ioctl": (16, 3, 0x8901, 0),
}
WRITES = {
    "open for writing": (2, 0, 0x41),
    "openat for writing": (257, 0, 0, 0x241),
    "temporary file": (257, 0, 0, 0x410002),
    "mkdir": (83, 0),
    "symlinkat": (266, 0, 0, 0),
    "rename": (82, 0, 0),
    "unlink": (87, 0),
}
KEPT_APART = {
    "own signal": (62, OWN, 9),
    "own thread": (234, OWN, OWN, 6),
    "thread": (56, 0x10F00),
    "open for reading": (257, 0, 0, 0x80000),
    "flags of a descriptor": (72, 3, 4, 0x800),
    "size of a terminal": (16, 1, 0x5413, 0),
}


def filters() -> tuple[bytes, bytes, bytes]:
    """Return a child's filter, a solution's, and its tests'."""
    _, own = build_filters(allow_exec=False, allow_inet=False, machine="x86_64")
    made = (add_isolation_rules(own, OWN, writes=writes, machine="x86_64") for writes in (True, False))
    return own, *made  # type: ignore[return-value]


@pytest.mark.parametrize("call", APART)
def test_call_that_reaches_another_process_is_refused_to_pairs_alone(call: str) -> None:
    assert [judge((program,), *APART[call]) for program in filters()] == [ALLOWED, errno.EPERM, errno.EPERM]


@pytest.mark.parametrize("call", WRITES)
def test_call_that_leaves_a_file_is_refused_to_tests_alone(call: str) -> None:
    assert [judge((program,), *WRITES[call]) for program in filters()] == [ALLOWED, ALLOWED, errno.EROFS]


@pytest.mark.parametrize("call", KEPT_APART)
def test_call_of_honest_pairs_is_allowed(call: str) -> None:
    assert [judge((program,), *KEPT_APART[call]) for program in filters()] == [ALLOWED] * 3
