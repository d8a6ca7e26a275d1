"""Compiles the shared seccomp profile with libseccomp to instructions for the kernel.

A runtime compiles the profile for the containers that it starts. Clones of a template get the filter from
the daemon instead, so that all containers have the same profile.

Source: seccomp_export_bpf(3), seccomp_rule_add(3); Open Container Initiative, runtime specification,
seccomp.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from assayd.engines.oci.config import parse_seccomp_profile
from assayd.errors import EngineError

_LIBRARY = "libseccomp.so.2"
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_ACTIONS = {"SCMP_ACT_ALLOW": _ALLOW, "SCMP_ACT_ERRNO": _ERRNO}
_OPERATORS = {
    name: number for number, name in enumerate(("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"), start=1)
}
_INSTRUCTION_BYTES = 8
_UNKNOWN_CALL = -1
_OPTIMIZE, _BINARY_TREE = 8, 2
_MAX_BYTES = 4096 * _INSTRUCTION_BYTES


class _ArgumentComparison(ctypes.Structure):
    """The C structure ``struct scmp_arg_cmp``."""

    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


@cache
def compile_filter(text: str, machine: str) -> bytes:
    """Return the profile as kernel instructions for this machine.

    Raises: EngineError ``engine.seccomp``.
    """
    profile = parse_seccomp_profile(text, machine)
    library = _load_library()
    context = library.seccomp_init(_get_action_code(profile["defaultAction"], profile["defaultErrnoRet"]))
    if not context:
        raise _seccomp_error("start", -errno.ENOMEM)
    try:
        for rule in profile["syscalls"]:
            _add_rule(library, context, rule)
        # Without effect in versions before 2.5; the kernel loads the instructions faster.
        library.seccomp_attr_set(context, _OPTIMIZE, _BINARY_TREE)
        return _export_bpf(library, context)
    finally:
        library.seccomp_release(context)


def _add_rule(library: ctypes.CDLL, context: int, rule: Mapping[str, Any]) -> None:
    action = _get_action_code(rule["action"], rule.get("errnoRet", errno.EPERM))
    compared = _to_comparisons(rule.get("args", ()))
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        # Not a system call of this machine, or unknown to the library: the default action applies.
        if number == _UNKNOWN_CALL:
            continue
        done = library.seccomp_rule_add_array(context, action, number, len(compared), compared)
        if done < 0:
            raise _seccomp_error(f"add {name}", done)


def _to_comparisons(conditions: Sequence[Mapping[str, Any]]) -> ctypes.Array[_ArgumentComparison]:
    return (_ArgumentComparison * len(conditions))(
        *(
            _ArgumentComparison(
                each["index"],
                _OPERATORS[each["op"].removeprefix("SCMP_CMP_")],
                each["value"],
                each.get("valueTwo", 0),
            )
            for each in conditions
        )
    )


def _export_bpf(library: ctypes.CDLL, context: int) -> bytes:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    try:
        done = library.seccomp_export_bpf(context, descriptor)
        if done < 0:
            raise _seccomp_error("export", done)
        made = os.pread(descriptor, _MAX_BYTES + 1, 0)
    finally:
        os.close(descriptor)
    if not made or len(made) > _MAX_BYTES or len(made) % _INSTRUCTION_BYTES:
        raise _seccomp_error("export", -errno.EMSGSIZE)
    return made


def _get_action_code(name: str, number: int) -> int:
    return _ACTIONS[name] | (number if name == "SCMP_ACT_ERRNO" else 0)


def _load_library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as problem:
        message = f"{_LIBRARY} isn't installed; install it (Debian: apt-get install libseccomp2)"
        raise EngineError("engine.seccomp", message) from problem
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
    ]
    library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library


def _seccomp_error(what: str, result: int) -> EngineError:
    reason = os.strerror(-result)
    return EngineError("engine.seccomp", f"libseccomp could not {what} the seccomp filter: {reason}")
