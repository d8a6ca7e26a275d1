"""Exchanges frames over a container's standard streams with the guest, a hostile peer.

This module checks the form of frames: their size, and the types and ranges of header fields. `conversation`
checks their order and meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from assayd.guest import frames
from assayd.ports.engine import Duplex

Header = frames.Header

FRAMES_PER_TURN = 64


class GuestFault(Exception):
    """A protocol violation by the guest. `sandbox` always converts this exception to the run's end."""


class StreamEnded(Exception):
    """The end of the guest's stream. `sandbox` always converts this exception to the run's end."""


class Channel:
    """The framed connection to one runner."""

    def __init__(self, duplex: Duplex) -> None:
        self.duplex = duplex
        self._decoder = frames.Decoder()
        self._coming: Iterator[tuple[Header, bytes]] = iter(())
        self._given = 0

    async def send(self, *parts: bytes) -> None:
        """Send several encoded frames in one write."""
        if data := b"".join(parts):
            await self.duplex.write(data)

    async def receive(self) -> tuple[Header, bytes]:
        """Return the next frame.

        After every few frames, this method yields to other tasks, because a guest that sends many small
        frames would otherwise occupy the event loop.

        Raises: GuestFault, if the bytes aren't a frame; StreamEnded at the end; EngineError.
        """
        self._given += 1
        if self._given % FRAMES_PER_TURN == 0:
            await asyncio.sleep(0)
        while (frame := self._next()) is None:
            data = await self.duplex.read()
            if not data:
                raise StreamEnded
            self._coming = self._decoder.feed(data)
        return frame

    def _next(self) -> tuple[Header, bytes] | None:
        try:
            return next(self._coming, None)
        except frames.FrameError as problem:
            raise GuestFault(str(problem)) from None

    async def close(self) -> None:
        """Close the streams; must be called before the container is killed."""
        await self.duplex.close()


def integer(header: Header, field: str, *, most: int = 2**53) -> int:
    """Return a header field. Raises: GuestFault, if it isn't a non-negative integer."""
    value = header.get(field)
    if type(value) is not int or not 0 <= value <= most:
        raise GuestFault(f"{header['type']}.{field} is not an integer in range")
    return value


def number(header: Header, field: str) -> float:
    """Return a header field. Raises: GuestFault, if it isn't a non-negative finite number."""
    value = header.get(field)
    if type(value) not in (int, float) or not 0 <= value < 1e12:  # type: ignore[operator]
        raise GuestFault(f"{header['type']}.{field} is not a number in range")
    return float(value)  # type: ignore[arg-type]


def text(header: Header, field: str, *, most: int = 4096) -> str:
    """Return a header field. Raises: GuestFault, if it isn't a string."""
    value = header.get(field)
    if type(value) is not str or len(value) > most:
        raise GuestFault(f"{header['type']}.{field} is not a string of at most {most} characters")
    return value


def boolean(header: Header, field: str) -> bool:
    """Return a header field. Raises: GuestFault, if it isn't a boolean."""
    value = header.get(field)
    if type(value) is not bool:
        raise GuestFault(f"{header['type']}.{field} is not a boolean")
    return value
