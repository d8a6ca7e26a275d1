"""Reads the kernel's counters for this container: OOM kills, refused forks, memory and CPU time."""

from __future__ import annotations

import os

from .value import Value

ROOT = "/sys/fs/cgroup"


class Counters(Value):
    """Counters that only increase; the usage of a unit is the difference between two readings."""

    oom_kills: int
    pids_refused: int


class Cgroup:
    """The container's control group, version 1 or 2; values are 0 if the files don't exist.

    The files are opened once and read repeatedly, twice per unit.
    """

    def __init__(self, root: str = ROOT) -> None:
        if os.path.exists(f"{root}/cgroup.controllers"):
            self.version = 2
            names = ("memory.events", "pids.events", "memory.current", "memory.peak")
            self._cpu = _open_or_none(f"{root}/cpu.stat")
        else:
            memory = (
                "memory/memory.oom_control",
                "memory/memory.usage_in_bytes",
                "memory/memory.max_usage_in_bytes",
            )
            names = (memory[0], "pids/pids.events", *memory[1:])
            self.version = 1 if os.path.exists(f"{root}/memory/memory.usage_in_bytes") else 0
            self._cpu = _open_or_none(f"{root}/cpuacct/cpuacct.usage") or _open_or_none(
                f"{root}/cpu,cpuacct/cpuacct.usage"
            )
        self._oom, self._pids, self._current, self._peak = (_open_or_none(f"{root}/{name}") for name in names)

    def read_counters(self) -> Counters:
        """Return the current values of both counters."""
        return Counters(
            oom_kills=_read_field(self._oom, b"oom_kill"), pids_refused=_read_field(self._pids, b"max")
        )

    def cpu_s(self) -> float | None:
        """Return the CPU time in seconds of all processes ever in the group; None if it isn't counted."""
        if self.version == 2:
            used_s = _read_field(self._cpu, b"usage_usec") * 1e-6
        else:
            used_s = _parse_number(_read_file(self._cpu)) * 1e-9
        return used_s or None

    def memory_bytes(self) -> int:
        """Return the number of bytes of memory currently charged to the group."""
        return _parse_number(_read_file(self._current))

    def peak_memory_bytes(self) -> int:
        """Return the peak number of bytes of memory charged to the group."""
        return _parse_number(_read_file(self._peak))


def _open_or_none(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read_file(descriptor: int | None) -> bytes:
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, 4096, 0)
    except OSError:
        return b""


def _read_field(descriptor: int | None, name: bytes) -> int:
    for line in _read_file(descriptor).splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return _parse_number(value)
    return 0


def _parse_number(text: bytes) -> int:
    text = text.strip()
    return int(text) if text.isdigit() else 0
