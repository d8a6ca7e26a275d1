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
        text = counters.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.isdigit():
            return int(count)
    return None
