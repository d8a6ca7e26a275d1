"""Creates read-only mounts that are passed to another mount namespace as descriptors."""

from __future__ import annotations

import ctypes
import errno
import os

from assayd.engines.oci import launcher
from assayd.errors import EngineError

_libc = ctypes.CDLL(None, use_errno=True)


def open_read_only_mount(path: str) -> int:
    """Return a descriptor of a detached, permanently read-only mount of a folder.

    Raises: EngineError ``engine.template``.
    """
    try:
        return launcher.open_read_only_mount(_libc, path)
    except OSError as problem:
        raise mapping_error(path, problem.errno or 0) from problem


def mapping_error(path: str, number: int) -> EngineError:
    """Return the error for a folder that can't be mounted for a container."""
    old = "; templates need Linux 5.12" if number == errno.ENOSYS else ""
    return EngineError("engine.template", f"can't map the owner of {path}: {os.strerror(number)}{old}")
