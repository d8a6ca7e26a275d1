"""Reads files of /proc and /sys by few system calls: in a thread, each waits for the interpreter's lock."""

from __future__ import annotations

import os

_PIECE_BYTES = 64 * 1024


def read_text(path: str) -> str:
    """Return what the kernel writes there, what is not ASCII replaced. Raises: OSError."""
    pieces = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(descriptor, _PIECE_BYTES):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces).decode("ascii", "replace")
