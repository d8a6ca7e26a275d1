"""Captures an output stream of a unit: its size, its head as it arrives, and its tail at the end."""

from __future__ import annotations


class OutputCapture:
    """A byte counter that returns the first half of `kept_bytes` at once, and keeps the last half.

    The tail never overlaps the head.
    """

    def __init__(self, kept_bytes: int) -> None:
        self.total_bytes = 0
        self._head_room = kept_bytes // 2
        self._tail_room = kept_bytes // 2
        self._tail = bytearray()

    def feed(self, content: bytes) -> bytes:
        """Add data, and return the part of the data that belongs to the head."""
        self.total_bytes += len(content)
        head = content[: self._head_room]
        self._head_room -= len(head)
        self._tail += content[len(head) :]
        # Trimming moves bytes, so it waits until there is as much to drop as to keep.
        if len(self._tail) > 2 * self._tail_room:
            self._trim()
        return head

    def tail(self) -> bytes:
        """Return the tail that was kept."""
        self._trim()
        return bytes(self._tail)

    def _trim(self) -> None:
        del self._tail[: max(len(self._tail) - self._tail_room, 0)]
