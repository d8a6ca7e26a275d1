"""The frame codec for both directions: u32 header length, u32 body length, JSON header, raw body.

The codec checks only form and size. The reader of a frame interprets the header. Each end treats its peer
as hostile. See docs/guest-protocol.md.
"""

from __future__ import annotations

from . import substitutes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOL = 1
"""Version of the protocol. The daemon sends its version first; if the versions differ, the runner exits."""

MAX_HEADER_BYTES = 64 * 1024
MAX_BODY_BYTES = 1024 * 1024
_LENGTHS_BYTES = 8

WINDOW = 128 * 1024
"""Bytes that each end of a relayed stream can send before its peer grants further credit."""
MIN_WINDOW_COST = 1024
"""Bytes of the window that a small piece of a relayed stream uses, because each piece needs a frame."""

Header = dict[str, object]


class FrameError(ValueError):
    """An exception raised for bytes that aren't a frame, or for a frame that exceeds the limits."""


def encode_frame(header: Header, body: bytes = b"") -> bytes:
    """Return the bytes of one frame.

    Raises: FrameError, if the header or the body exceeds its cap.
    """
    head = substitutes.serialize_json(header)
    if len(head) > MAX_HEADER_BYTES or len(body) > MAX_BODY_BYTES:
        raise FrameError(f"frame too large to send: header {len(head)}, body {len(body)} bytes")
    return b"".join((len(head).to_bytes(4, "big"), len(body).to_bytes(4, "big"), head, body))


def compute_window_cost(piece: bytes) -> int:
    """Return the number of bytes of the window that a piece of a relayed stream uses."""
    return max(len(piece), MIN_WINDOW_COST)


def split_into_bodies(content: bytes, size: int = MAX_BODY_BYTES) -> Iterator[bytes]:
    """Split content into frame bodies. For empty content, return a single empty body."""
    for start in range(0, max(len(content), 1), size):
        yield content[start : start + size]


class FrameDecoder:
    """A decoder of frames from pieces of any size. Between feeds, it buffers at most one frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """Yield every frame that is complete after adding these bytes.

        Raises: FrameError, if a length exceeds its cap or a header isn't a JSON object with a string
        `type`. After an error, the decoder must not be used anymore.
        """
        self._buffer += data
        while True:
            frame = self._next()
            if frame is None:
                return
            yield frame

    @property
    def missing(self) -> int:
        """Return the number of bytes missing from the incomplete frame, or from its length fields."""
        held = len(self._buffer)
        if held < _LENGTHS_BYTES:
            return _LENGTHS_BYTES - held
        head, body = self._buffer[:4], self._buffer[4:_LENGTHS_BYTES]
        return _LENGTHS_BYTES + int.from_bytes(head, "big") + int.from_bytes(body, "big") - held

    @property
    def buffered_bytes(self) -> int:
        """Return the number of buffered bytes of an incomplete frame."""
        return len(self._buffer)

    def _next(self) -> tuple[Header, bytes] | None:
        buffer = self._buffer
        if len(buffer) < _LENGTHS_BYTES:
            return None
        head_size, body_size = int.from_bytes(buffer[:4], "big"), int.from_bytes(buffer[4:8], "big")
        if head_size > MAX_HEADER_BYTES or body_size > MAX_BODY_BYTES:
            raise FrameError(f"frame over the cap: header {head_size}, body {body_size} bytes")
        end = _LENGTHS_BYTES + head_size + body_size
        if len(buffer) < end:
            return None
        head = bytes(buffer[_LENGTHS_BYTES : _LENGTHS_BYTES + head_size])
        body = bytes(buffer[_LENGTHS_BYTES + head_size : end])
        del buffer[:end]
        return _parse_header(head), body


def _parse_header(head: bytes) -> Header:
    try:
        header = substitutes.loads(head)
    except (ValueError, RecursionError) as problem:
        raise FrameError(f"frame header is not JSON: {type(problem).__name__}") from None
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise FrameError("frame header is not an object with a type")
    return header
