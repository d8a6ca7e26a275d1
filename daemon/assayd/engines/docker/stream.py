"""A container's attached streams as plain bytes.

The engine prefixes every piece of output with 8 bytes: the stream's number, three zeros, and a u32 length.
This file takes those away; what the bytes mean belongs to others.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from assayd.errors import EngineError

_READ_BYTES = 256 * 1024
_DIAGNOSTICS_BYTES = 8 * 1024
_HEADER = struct.Struct(">B3xI")
_STDOUT = 1
_STREAMS = frozenset({0, 1, 2, 3})


class Demultiplexer:
    """Takes attached bytes, however they are cut, and returns those of standard output.

    All other streams go to `diagnostics`, of which only the end is kept.
    """

    def __init__(self) -> None:
        self.diagnostics = b""
        self._header = b""
        self._stream = _STDOUT
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of standard output that `data` brings.

        Raises: EngineError ``engine.stream_invalid`` when a header names no stream.
        """
        view = memoryview(data)
        wanted: list[memoryview] = []
        while view:
            if not self._left:
                view = self._take_header(view)
                continue
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            if self._stream == _STDOUT:
                wanted.append(piece)
            else:
                self.diagnostics = (self.diagnostics + bytes(piece[-_DIAGNOSTICS_BYTES:]))[
                    -_DIAGNOSTICS_BYTES:
                ]
        return b"".join(wanted)

    def _take_header(self, view: memoryview) -> memoryview:
        missing = _HEADER.size - len(self._header)
        self._header += bytes(view[:missing])
        if len(self._header) == _HEADER.size:
            self._stream, self._left = _HEADER.unpack(self._header)
            if self._stream not in _STREAMS:
                raise EngineError("engine.stream_invalid", "the engine sent an attached stream out of form")
            self._header = b""
        return view[missing:]


class AttachedStream:
    """The Duplex of one container. Made by `open`.

    Args:
        release: gives back what keeps the connection open on the SDK's side.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, release: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._release = release
        self._demultiplexer = Demultiplexer()
        self._closed = False

    @classmethod
    async def open(cls, connection: socket.socket, release: Callable[[], None]) -> AttachedStream:
        """Hand an attached socket, which becomes ours, to the running loop."""
        connection.setblocking(False)
        unix = connection.family == socket.AF_UNIX
        connect = asyncio.open_unix_connection if unix else asyncio.open_connection
        reader, writer = await connect(sock=connection, limit=_READ_BYTES)
        return cls(reader, writer, release)

    async def read(self) -> bytes:
        """Return the next bytes of standard output; empty at the end and after `close`."""
        output = b""
        while not output:
            try:
                data = await self._reader.read(_READ_BYTES)
            except OSError as problem:
                raise _broken() from problem
            if not data:
                return b""
            output = self._demultiplexer.feed(data)
        return output

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input and wait while its buffer is full."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as problem:
            raise _broken() from problem
        if self._closed:
            raise _broken()

    @property
    def diagnostics(self) -> bytes:
        """The last bytes of standard error."""
        return self._demultiplexer.diagnostics

    async def close(self) -> None:
        """Drop the connection with whatever is still in it."""
        if self._closed:
            return
        self._closed = True
        self._writer.transport.abort()
        self._release()
        with suppress(OSError):
            await self._writer.wait_closed()


def _broken() -> EngineError:
    return EngineError(
        "engine.stream_broken", "the connection to the container's streams is gone", retryable=True
    )
