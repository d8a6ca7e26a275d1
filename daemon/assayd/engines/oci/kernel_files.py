"""Reads files of `/proc` and `/sys` with few system calls, each of which waits for the GIL in a thread."""

from __future__ import annotations

import os

_PIECE_BYTES = 64 * 1024


def read_text(path: str) -> str:
    """Return the content of a kernel file; replace non-ASCII bytes. Raises: OSError."""
    pieces = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(descriptor, _PIECE_BYTES):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces).decode("ascii", "replace")
