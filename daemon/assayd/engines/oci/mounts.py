"""Mounts that are handed to another mount namespace as descriptors, read-only before they leave."""

from __future__ import annotations

import ctypes
import errno
import os

from assayd.engines.oci import launcher
from assayd.errors import EngineError

_libc = ctypes.CDLL(None, use_errno=True)


def read_only_tree(path: str) -> int:
    """Return a descriptor of a mount of this folder that is mounted nowhere yet, and can never be written.

    Raises: EngineError ``engine.template``.
    """
    try:
        return launcher.read_only_tree(_libc, path)
    except OSError as problem:
        raise not_handed_over(path, problem.errno or 0) from problem


def not_handed_over(path: str, number: int) -> EngineError:
    """Return the error for a folder that lacks such a mount."""
    old = "; templates need Linux 5.12" if number == errno.ENOSYS else ""
    return EngineError("engine.template", f"can't map the owner of {path}: {os.strerror(number)}{old}")
