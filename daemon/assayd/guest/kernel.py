"""Kernel and C functions that Python lacks: prctl, signalfd, seccomp filters and exit steps.

This module calls C functions only through `_ctypes`, because importing the package `ctypes`, which is built
on it, takes as long as importing half of our code.
"""

from __future__ import annotations

import _ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_SIGSET_BYTES = 128
_INSTRUCTION_BYTES = 8
_C, _HOLDS_INTERPRETER, _KEEPS_ERRNO = 1, 4, 8
"""How a function is called: `ctypes.CDLL`, `ctypes.PyDLL`, ``use_errno``."""


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]  # only `ctypes` makes it take one
    _type_ = "i"


class _Short(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "H"


class _Text(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Program(_ctypes.Structure):
    """``struct sock_fprog``, the kernel's form of a filter."""

    _fields_ = (("length", _Short), ("instructions", _Text))


class _Function(_ctypes.CFuncPtr):
    _flags_ = _C | _KEEPS_ERRNO
    _restype_ = _Int


class _PythonFunction(_ctypes.CFuncPtr):
    _flags_ = _C | _HOLDS_INTERPRETER
    _restype_ = _Int


# Looked up here: a child's own lookup would be an event of the audit hook.
_this_process = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # as `ctypes.CDLL(None)` does
_prctl_function = _Function(_ctypes.dlsym(_this_process, "prctl"))
_signalfd_function = _Function(_ctypes.dlsym(_this_process, "signalfd"))
_end_interpreter = _PythonFunction(_ctypes.dlsym(_this_process, "Py_Exit"))
_fflush_function = _PythonFunction(_ctypes.dlsym(_this_process, "fflush"))


def set_dumpable(dumpable: bool) -> None:
    """Set whether processes of the same user can inspect this process through /proc and ptrace."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def become_subreaper() -> None:
    """Become the parent of every orphaned descendant. PID 1 always has this role."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Forbid new privileges through execve, which the kernel requires before a filter is loaded."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def load_filter(program: bytes) -> None:
    """Apply a seccomp filter (BPF instructions) permanently to this process and to all of its children.

    Raises: OSError, if the kernel refuses the filter.
    """
    fprog = _Program(len(program) // _INSTRUCTION_BYTES, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _ctypes.byref(fprog))


def end_interpreter(status: int) -> NoReturn:
    """End this process like a Python program: join threads, run exit functions, and flush open files."""
    _end_interpreter(status)
    raise RuntimeError("the interpreter did not end")


def flush_c_streams() -> None:
    """Flush the output that C code has written and that the C library has buffered."""
    _fflush_function(None)


def open_child_signals() -> int:
    """Return a descriptor that becomes readable when a child exits. Block SIGCHLD from now on.

    Raises: OSError, if the descriptor can't be created.

    The signal is blocked and read from a descriptor, so that PID 1 needs no signal handlers: processes in
    the container can't send PID 1 signals for which it has no handler.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    mask = bytearray(_SIGSET_BYTES)
    mask[(signal.SIGCHLD - 1) // 8] |= 1 << (signal.SIGCHLD - 1) % 8
    descriptor = int(_signalfd_function(-1, bytes(mask), os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor < 0:
        raise _last_error("signalfd")
    return descriptor


def _prctl(option: int, value: int, address: object = 0) -> None:
    if _prctl_function(option, value, address, 0, 0) != 0:
        raise _last_error("prctl")


def _last_error(call: str) -> OSError:
    number = _ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
