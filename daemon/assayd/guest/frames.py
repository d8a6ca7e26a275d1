"""The frame codec: u32 header length, u32 body length, JSON header, raw body, both ways.

Decides only form and size. What a header means belongs to whoever reads it; both ends treat the other
as hostile. See docs/guest-protocol.md.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

PROTOCOL = 1
"""Version of the conversation; it opens with it, and a difference ends it."""

MAX_HEADER = 64 * 1024
MAX_BODY = 1024 * 1024
_LENGTHS = struct.Struct(">II")

WINDOW = 128 * 1024
"""How much each end of a relayed stream may send before the other has taken anything of it."""
LEAST_COST = 1024
"""What the smallest piece of a relayed stream counts for: each costs the other end a frame."""

Header = dict[str, object]


class FrameError(ValueError):
    """Bytes that are not a frame, or one over the caps."""


def encode(header: Header, body: bytes = b"") -> bytes:
    """Return the bytes of one frame.

    Raises: FrameError when header or body is over its cap.
    """
    head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    if len(head) > MAX_HEADER or len(body) > MAX_BODY:
        raise FrameError(f"frame too large to send: header {len(head)}, body {len(body)} bytes")
    return _LENGTHS.pack(len(head), len(body)) + head + body


def cost(piece: bytes) -> int:
    """Return how much of a window a piece of a relayed stream takes up."""
    return max(len(piece), LEAST_COST)


def chunks(content: bytes, size: int = MAX_BODY) -> Iterator[bytes]:
    """Cut content into bodies; empty content gives one empty body."""
    for start in range(0, max(len(content), 1), size):
        yield content[start : start + size]


class Decoder:
    """Turns bytes, however they are cut, into frames. Holds at most one frame's bytes beyond a feed."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """Return every frame that is complete now.

        Raises: FrameError at lengths over the caps or a header that is not a JSON object with a
        string `type`. After that the decoder must not be fed again.
        """
        self._buffer += data
        while True:
            frame = self._next()
            if frame is None:
                return
            yield frame

    @property
    def pending(self) -> int:
        """Return how many bytes of an incomplete frame are held."""
        return len(self._buffer)

    def _next(self) -> tuple[Header, bytes] | None:
        if len(self._buffer) < _LENGTHS.size:
            return None
        head_size, body_size = _LENGTHS.unpack_from(self._buffer)
        if head_size > MAX_HEADER or body_size > MAX_BODY:
            raise FrameError(f"frame over the cap: header {head_size}, body {body_size} bytes")
        end = _LENGTHS.size + head_size + body_size
        if len(self._buffer) < end:
            return None
        head = bytes(self._buffer[_LENGTHS.size : _LENGTHS.size + head_size])
        body = bytes(self._buffer[_LENGTHS.size + head_size : end])
        del self._buffer[:end]
        return _parse(head), body


def _parse(head: bytes) -> Header:
    try:
        header = json.loads(head)
    except (ValueError, RecursionError) as problem:
        raise FrameError(f"frame header is not JSON: {type(problem).__name__}") from None
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise FrameError("frame header is not an object with a type")
    return header
