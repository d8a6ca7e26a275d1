"""Reads files of `/proc` and `/sys` with few system calls: in a thread, each of them waits for the GIL."""

from __future__ import annotations

import os

_PIECE_BYTES = 64 * 1024


def read_text(path: str) -> str:
    """Return the content of a kernel file; non-ASCII bytes are replaced. Raises: OSError."""
    pieces = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(descriptor, _PIECE_BYTES):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces).decode("ascii", "replace")
