"""Sends a response's headers together with the beginning of its body."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent


class _BufferingTransport:
    """A transport wrapper that buffers all writes until it is flushed."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._held: list[bytes] = []

    def write(self, content: bytes) -> None:
        """Add data to the buffer."""
        self._held.append(content)

    def is_closing(self) -> bool:
        """Return whether the transport is closing."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Send the buffered data, and close the transport."""
        self.flush()
        self.transport.close()

    def flush(self) -> None:
        """Send the buffered data."""
        held, self._held = self._held, []
        if any(held):
            self.transport.write(b"".join(held))


class JoinedAnswer(RequestResponseCycle):
    """A response of known length whose headers are sent together with the beginning of its body.

    Without this class, the server writes headers and body separately; the client wakes up twice, and its
    first read returns an incomplete response.
    """

    _head: ASGISendEvent | None = None

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the response; hold back the headers until the first part of the body."""
        if message["type"] == "http.response.start" and _has_content_length(message):
            self._head = message
            return
        head, self._head = self._head, None
        if head is None:
            await super().send(message)
            return
        together = _BufferingTransport(self.transport)
        self.transport = cast("asyncio.Transport", together)
        try:
            await super().send(head)
            await super().send(message)
        finally:
            together.flush()
            self.transport = together.transport


def _has_content_length(start: HTTPResponseStartEvent) -> bool:
    return any(name == b"content-length" for name, _ in start.get("headers", ()))
