"""Messages between the daemon and its executors: pickled values with their length, over a socket pair.

Only these processes have the socket. They run the same code as the same user, so an executor that has been
taken over could harm the daemon without pickle, too (docs/decisions/0185).
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable, Mapping
from typing import cast

_LENGTH = struct.Struct(">I")

Handlers = Mapping[str, Callable[..., None]]
"""The function that handles each kind of message; its arguments are the message's values."""


class Link(asyncio.Protocol):
    """One end of a connection between the daemon and an executor."""

    def __init__(self, handlers: Handlers, lost: Callable[[], None]) -> None:
        self._handlers = handlers
        self._lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.received = 0
        """The number of received messages."""

    async def open(self, stream: socket.socket) -> None:
        """Start to receive messages from a connected, non-blocking socket."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=stream)

    def send(self, kind: str, *values: object) -> None:
        """Send a message. After the end of the connection, do nothing."""
        if self._transport is not None and not self._transport.is_closing():
            data = pickle.dumps((kind, *values), pickle.HIGHEST_PROTOCOL)
            self._transport.write(_LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection."""
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Handle all complete messages."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            kind, *values = pickle.loads(bytes(memoryview(buffer)[_LENGTH.size : end]))  # noqa: S301
            del buffer[:end]
            self.received += 1
            self._handlers[kind](*values)
