"""Which daemon a record was written by, in a form by which another can tell that it has gone.

A process is known by its number and its start, within one boot and one namespace of processes.

Source: proc(5), proc_pid_stat(5), pid_namespaces(7).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19
"""The place of the start time behind the name in ``/proc/PID/stat``, whose fields count from 1: field 22."""


@cache
def own_mark() -> str:
    """Return the mark of this process."""
    return ":".join((*_surroundings(), str(os.getpid()), _start_of(os.getpid())))


def has_gone(mark: str) -> bool:
    """Return whether the process with this mark has certainly ended.

    Of a process in another namespace nobody here can tell, nor by a mark that is none.
    """
    try:
        boot, namespace, pid, started = mark.split(":")
        number = int(pid)
    except ValueError:
        return False
    own_boot, own_namespace = _surroundings()
    if boot != own_boot:
        return True
    if namespace != own_namespace:
        return False
    try:
        return _start_of(number) != started
    except (FileNotFoundError, ProcessLookupError):
        return True


def _surroundings() -> tuple[str, str]:
    namespace = Path("/proc/self/ns/pid").readlink()
    return _BOOT.read_text(encoding="ascii").strip(), str(namespace).strip("pid:[]")


def _start_of(pid: int) -> str:
    # The name before it may hold anything, parentheses too.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(") ")[2].split()[_STARTED]
