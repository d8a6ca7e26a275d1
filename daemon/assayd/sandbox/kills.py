"""Reads the kernel's machine-wide count of out-of-memory kills, as evidence if the engine has none.

A container's own counters are removed with the container, and engines miss some kills, but this count
persists. The count is meaningless if the engine runs on a different kernel; the isolation check detects
that case.
"""

from __future__ import annotations

from pathlib import Path

COUNTERS = Path("/proc/vmstat")


def kernel_oom_kills(counters: Path = COUNTERS) -> int | None:
    """Return the number of processes that the kernel killed for lack of memory, or None if unknown."""
    try:
        text = counters.read_bytes()
    except OSError:
        return None
    _, found, rest = (b"\n" + text).partition(b"\noom_kill ")
    count = rest.partition(b"\n")[0]
    return int(count) if found and count.isdigit() else None
