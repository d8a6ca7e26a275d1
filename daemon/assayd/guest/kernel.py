"""What Python has no function for: prctl, signalfd, a seccomp filter, an end like an interpreter's."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import NoReturn

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_SIGSET_BYTES = 128
_INSTRUCTION_BYTES = 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
# Looked up here: a child's own lookup would be an event of the audit hook.
_end_interpreter = ctypes.pythonapi.Py_Exit
_end_interpreter.argtypes, _end_interpreter.restype = [ctypes.c_int], None


class _Program(ctypes.Structure):
    """``struct sock_fprog``: how the kernel wants a filter."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def set_dumpable(dumpable: bool) -> None:
    """Let processes of the same user look into this one through /proc and ptrace, or not."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def become_subreaper() -> None:
    """Become the parent of every orphaned descendant, as PID 1 is by itself."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Renounce privileges that an execve could bring; the kernel asks this of who loads a filter."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def load_filter(program: bytes) -> None:
    """Put a seccomp filter (BPF instructions) on this process and all that it starts, for good."""
    fprog = _Program(len(program) // _INSTRUCTION_BYTES, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(fprog))


def end_interpreter(status: int) -> NoReturn:
    """End this process as a Python program ends: threads joined, exit functions run, open files flushed."""
    _end_interpreter(status)
    raise RuntimeError("the interpreter did not end")


def child_signals() -> int:
    """Return a descriptor that is readable when a child has ended; SIGCHLD is blocked from here on.

    A blocked signal with a descriptor, and not a handler: PID 1 must have none, since a signal without
    a handler is one that nothing in the container can send it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    mask = bytearray(_SIGSET_BYTES)
    mask[(signal.SIGCHLD - 1) // 8] |= 1 << (signal.SIGCHLD - 1) % 8
    descriptor = int(_libc.signalfd(-1, bytes(mask), os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor < 0:
        raise _last_error("signalfd")
    return descriptor


def _prctl(option: int, value: int, address: int = 0) -> None:
    if _libc.prctl(option, value, address, 0, 0) != 0:
        raise _last_error("prctl")


def _last_error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
