"""Mounts that are handed to another mount namespace as descriptors, read-only before they leave.

Source: open_tree(2) and move_mount(2), Linux 5.2; mount_setattr(2), Linux 5.12.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from assayd.errors import EngineError

_OPEN_TREE, _MOUNT_SETATTR = 428, 442
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_CLONE, _CLOEXEC = 0x1, 0o2000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 0x1, 0x2, 0x4, 0x8
_PRIVATE = 0x40000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.argtypes, _libc.syscall.restype = [ctypes.c_long] * 6, ctypes.c_long


def read_only_tree(path: str) -> int:
    """Return a descriptor of a mount of this folder that is mounted nowhere yet, and can never be written.

    Raises: EngineError ``engine.template``.
    """
    name, nothing = ctypes.create_string_buffer(os.fsencode(path)), ctypes.create_string_buffer(b"")
    tree = _libc.syscall(_OPEN_TREE, _AT_FDCWD, ctypes.addressof(name), _CLONE | _CLOEXEC, 0, 0)
    if tree < 0:
        raise _refused(path, ctypes.get_errno())
    wanted = struct.pack("QQQQ", _RDONLY | _NOSUID | _NODEV | _NOEXEC, 0, _PRIVATE, 0)
    attributes = ctypes.create_string_buffer(wanted, len(wanted))
    arguments = (tree, ctypes.addressof(nothing), _AT_EMPTY_PATH, ctypes.addressof(attributes), len(wanted))
    if _libc.syscall(_MOUNT_SETATTR, *arguments) < 0:
        problem = _refused(path, ctypes.get_errno())
        os.close(tree)
        raise problem
    return int(tree)


def _refused(path: str, number: int) -> EngineError:
    old = "; templates need Linux 5.12" if number == errno.ENOSYS else ""
    return EngineError("engine.template", f"cannot hand {path} over: {os.strerror(number)}{old}")
