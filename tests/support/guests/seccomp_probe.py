"""Runs inside a container: makes one system call per probe, each in a child, and says how it was answered.

Prints a JSON object: probe -> "ok", the name of the error, or "signal N".
"""

import ctypes
import errno
import json
import mmap
import os
import platform
import socket
from collections.abc import Callable
from functools import partial

X86 = platform.machine() == "x86_64"
LIBC = ctypes.CDLL(None, use_errno=True)
HERE = -100
NEW_USER = 0x10000000

# name: (number on x86_64, number on aarch64 or None, arguments)
CALLS: dict[str, tuple[int, int | None, tuple[int | bytes, ...]]] = {
    "socket of AF_ALG": (41, 198, (38, 5, 0)),
    "socket of AF_VSOCK": (41, 198, (40, 1, 0)),
    "socket of AF_NETLINK": (41, 198, (16, 3, 0)),
    "socket of AF_PACKET": (41, 198, (17, 3, 0)),
    "socket of AF_INET for SCTP": (41, 198, (2, 1, 132)),
    "socket of AF_INET for ICMP": (41, 198, (2, 2, 1)),
    "socket of AF_INET, raw": (41, 198, (2, 3, 6)),
    "socketpair of AF_TIPC": (53, 199, (30, 1, 0, 0)),
    "io_uring_setup": (425, 425, (1, 0)),
    "bpf": (321, 280, (0, 0, 0)),
    "keyctl": (250, 219, (0, -3, 0)),
    "add_key": (248, 217, (b"user", b"x", b"y", 1, -3)),
    "request_key": (249, 218, (b"user", b"x", 0, -3)),
    "userfaultfd": (323, 282, (1,)),
    "perf_event_open": (298, 241, (0, 0, -1, -1, 0)),
    "ptrace": (101, 117, (0, 0, 0, 0)),
    "process_vm_readv": (310, 270, (os.getpid(), 0, 0, 0, 0, 0)),
    "mount": (165, 40, (0, 0, 0, 0, 0)),
    "umount2": (166, 39, (b"/absent", 0)),
    "fsopen": (430, 430, (b"tmpfs", 0)),
    "unshare": (272, 97, (NEW_USER,)),
    "setns": (308, 268, (-1, 0)),
    "clone of a user namespace": (56, 220, (NEW_USER | 17, 0, 0, 0, 0)),
    "clone3": (435, 435, (0, 0)),
    "pidfd_open": (434, 434, (os.getpid(), 0)),
    "memfd_create": (319, 279, (b"x", 0)),
    "kexec_load": (246, 104, (0, 0, 0, 0)),
    "init_module": (175, 105, (0, 0, b"")),
    "open_by_handle_at": (304, 265, (-1, 0, 0)),
    "name_to_handle_at": (303, 264, (HERE, b".", 0, 0, 0)),
    "mq_open": (240, 180, (b"x", 0o102, 0o600, 0)),
    "shmget": (29, 194, (0, 4096, 0o1600)),
    "semget": (64, 190, (0, 1, 0o1600)),
    "msgget": (68, 186, (0, 0o1600)),
    "prlimit64 of another process": (302, 261, (os.getpid(), 7, 0, 0)),
    "sched_setscheduler of another process": (144, 119, (os.getpid(), 0, b"\0\0\0\0")),
    "setpriority of a group": (141, 140, (1, 0, 5)),
    "ioprio_set": (251, 30, (1, 0, 0)),
    "personality without address randomisation": (135, 92, (0x40000,)),
    "ioctl TIOCSTI": (16, 29, (0, 0x5412, b"x")),
    "mincore": (27, 232, (0, 0, 0)),
    "io_setup": (206, 0, (1, 0)),
    "vmsplice": (278, 75, (-1, 0, 0, 0)),
    "modify_ldt": (154, None, (0, 0, 0)),
    "chroot": (161, 51, (b"/",)),
    "syslog": (103, 116, (10, 0, 0)),
    "seccomp": (317, 277, (1, 0, 0)),
    "seccomp with a listener": (317, 277, (1, 8, 0)),
    "prctl PR_SET_MEMORY_MERGE": (157, 167, (67, 1, 0, 0, 0)),
    "prctl PR_SCHED_CORE": (157, 167, (62, 0, 0, 0, 0)),
    "fcntl F_OFD_SETLK": (72, 25, (0, 37, 0)),
    "fcntl F_SETLEASE": (72, 25, (0, 1024, 0)),
    "fcntl F_NOTIFY": (72, 25, (0, 1026, 1)),
    "fcntl F_SETSIG": (72, 25, (0, 10, 40)),
    "setsockopt SO_ATTACH_FILTER": (54, 208, (-1, 1, 26, 0, 16)),
    "setsockopt SO_ATTACH_REUSEPORT_CBPF": (54, 208, (-1, 1, 51, 0, 16)),
    "setsockopt TCP_ULP": (54, 208, (-1, 6, 31, b"tls", 3)),
    "mknodat of a device": (259, 33, (HERE, b"/sandbox/device", 0o020600, 0x103)),
    "call of the x32 table": (0x40000000 + 39, None, ()),
    # Neighbours that must pass.
    "socket of AF_UNIX": (41, 198, (1, 2, 0)),
    "socket of AF_INET, stream": (41, 198, (2, 0o2000001, 0)),
    "socket of AF_INET for UDP": (41, 198, (2, 2, 17)),
    "socket of AF_INET6 for TCP": (41, 198, (10, 1, 6)),
    "socketpair of AF_UNIX": (53, 199, (1, 1, 0, bytes(8))),
    "prlimit64 of the caller": (302, 261, (0, 7, 0, 0)),
    "setpriority of the caller": (141, 140, (0, 0, 5)),
    "fcntl F_GETFL": (72, 25, (0, 3)),
    "fcntl F_SETLK of nothing": (72, 25, (-1, 6, 0)),
    "prctl PR_GET_DUMPABLE": (157, 167, (3, 0, 0, 0, 0)),
    "personality asked for": (135, 92, (0xFFFFFFFF,)),
    "mknodat of a pipe": (259, 33, (HERE, b"/sandbox/pipe", 0o010600, 0)),
}


def answer(number: int, arguments: tuple[int | bytes, ...]) -> str:
    """Make a system call and return its result."""
    caller = os.getpid()
    ctypes.set_errno(0)
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if os.getpid() != caller:
        os._exit(0)  # the child of a clone that went through
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def out_of_band() -> str:
    """Send urgent data over a Unix socket."""
    ours, _theirs = socket.socketpair()
    try:
        ours.send(b"x", socket.MSG_OOB)
    except OSError as problem:
        return errno.errorcode[problem.errno or 0]
    return "ok"


def call_of_the_32_bit_table() -> str:
    """Make a system call through the interrupt of 32-bit programs."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return "ok" if function() > 0 else "refused"


def in_a_child(act: Callable[[], str]) -> str:
    """Run `act` in a child process, which it may kill."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, act().encode())
        os._exit(0)
    os.close(writer)
    status = os.waitpid(child, 0)[1]
    text = os.read(reader, 100).decode()
    os.close(reader)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


def main() -> None:
    """Run every probe that exists on this machine."""
    answers = {"MSG_OOB": in_a_child(out_of_band)}
    for name, (on_x86, on_arm, arguments) in CALLS.items():
        number = on_x86 if X86 else on_arm
        if number is not None:
            answers[name] = in_a_child(partial(answer, number, arguments))
    if X86:
        answers["call of the 32-bit table"] = in_a_child(call_of_the_32_bit_table)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
