"""Assigns exclusive user ids on this host: a locked block per engine, and two ids per container.

A template has one id for its own processes, and one for each of its clones. The kernel's per-user limits
(pending signals, locked memory, watches) therefore apply to each container separately.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import EngineError

PER_BLOCK = 4096
PER_CONTAINER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """A range of the host's user ids for containers; group ids have the same numbers."""

    first: int
    count: int


HOST_IDS = IdRange(first=0x7000_0000, count=4096 * PER_BLOCK)
"""The range that root uses.

Source: systemd.io/UIDS-GIDS: nothing else uses 1879048192 to 2147483647.
"""


class Ranges:
    """An allocator that assigns the first user id to each container.

    Args:
        folder: the folder with the locks of the blocks; all daemons that use the same ids share it.
        ids: the range that is divided into blocks; a range that is smaller than a block is a single block.
    """

    def __init__(self, folder: Path, ids: IdRange = HOST_IDS) -> None:
        self._folder = folder
        self._first = ids.first
        self._per_block = min(PER_BLOCK, ids.count)
        self._blocks = ids.count // self._per_block
        self._lock: int | None = None
        self._base = 0
        self._used: dict[int, int] = {}

    def take(self, count: int = PER_CONTAINER) -> int:
        """Return the first of `count` consecutive free ids.

        Raises: EngineError ``engine.no_ids``.
        """
        if self._lock is None:
            self._take_block()
        first = self._base
        for taken in sorted(self._used):
            if taken - first >= count:
                break
            first = taken + self._used[taken]
        if first + count <= self._base + self._per_block:
            self._used[first] = count
            return first
        raise EngineError(
            "engine.no_ids", f"all {self._per_block} user ids for containers are in use", retryable=True
        )

    def give_back(self, first: int) -> None:
        """Release the ids of a removed container; ignore ids of other engines."""
        self._used.pop(first, None)

    def close(self) -> None:
        """Release the block."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_block(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(self._blocks):
            lock = os.open(self._folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self._lock, self._base = lock, self._first + number * self._per_block
            return
        raise EngineError("engine.no_ids", f"all {self._blocks} blocks of user ids are used by other daemons")
