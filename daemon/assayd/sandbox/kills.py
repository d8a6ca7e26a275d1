"""How often the kernel has killed for memory, on the whole machine: evidence where an engine has none.

A container's own counters are gone with it, and engines miss some kills. This count stays. It says nothing
when the engine runs on another kernel; the canary finds that out.
"""

from __future__ import annotations

from pathlib import Path

COUNTERS = Path("/proc/vmstat")


def kernel_oom_kills(counters: Path = COUNTERS) -> int | None:
    """Return how many processes the kernel has killed for memory so far; None when it does not say."""
    try:
        text = counters.read_bytes()
    except OSError:
        return None
    _, found, rest = (b"\n" + text).partition(b"\noom_kill ")
    count = rest.partition(b"\n")[0]
    return int(count) if found and count.isdigit() else None
