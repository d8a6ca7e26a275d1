"""Marks that identify a record's daemon, so that another daemon can check whether it has exited.

A mark identifies a process by its PID and start time, within one boot and one PID namespace.

Source: proc(5), proc_pid_stat(5), pid_namespaces(7).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19
"""Index of the start time among the fields after the name in ``/proc/PID/stat`` (field 22, counted from
1).
"""


@cache
def own_process_mark() -> str:
    """Return the mark of this process."""
    return ":".join((*_boot_and_namespace(), str(os.getpid()), _start_time(os.getpid())))


def has_process_ended(mark: str) -> bool:
    """Return whether the process with this mark has certainly exited.

    Return False for a process in another namespace and for a malformed mark, because the state is unknown.
    """
    try:
        boot, namespace, pid, started = mark.split(":")
        number = int(pid)
    except ValueError:
        return False
    own_boot, own_namespace = _boot_and_namespace()
    if boot != own_boot:
        return True
    if namespace != own_namespace:
        return False
    try:
        return _start_time(number) != started
    except (FileNotFoundError, ProcessLookupError):
        return True


def _boot_and_namespace() -> tuple[str, str]:
    namespace = Path("/proc/self/ns/pid").readlink()
    return _BOOT.read_text(encoding="ascii").strip(), str(namespace).strip("pid:[]")


def _start_time(pid: int) -> str:
    # The name can contain any characters, including parentheses.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(") ")[2].split()[_STARTED]
