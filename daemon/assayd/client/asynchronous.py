"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from assayd.client.address import find_socket
from assayd.client.answers import (
    Document,
    EventReader,
    LineReader,
    StreamEvent,
    lost,
    read_object,
    refuse,
    require_socket,
)
from assayd.client.blocking import SILENCE_S
from assayd.client.verbs import Ask, Verbs, arguments, send_batch

if TYPE_CHECKING:
    import httpx


class AsyncClient(
    Verbs[Awaitable[Document], Awaitable[bytes], AsyncIterator[StreamEvent], AsyncIterator[Document]]
):
    """The asynchronous client. Raises ClientError and DaemonUnreachable."""

    def __init__(self, socket: str | Path | None = None) -> None:
        import httpx

        self.socket = find_socket(str(socket) if socket else None)
        # No TLS on a socket; reading the system's certificates for it would take most of a short call.
        transport = httpx.AsyncHTTPTransport(uds=str(self.socket.path), verify=False)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://assayd")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send_batch(
        self,
        body: Iterable[bytes] | AsyncIterable[bytes],
        *,
        name: str | None = None,
        concurrency: int | None = None,
        dedupe: bool | None = None,
    ) -> Document:
        """Send the lines of a batch, in any pieces; the same again adds only what is missing."""
        content = body if isinstance(body, AsyncIterable) else _one_by_one(body)
        return read_object(await self._send(send_batch(name, concurrency, dedupe), content=content))

    async def _ask(self, ask: Ask) -> Document:
        return read_object(await self._send(ask))

    async def _ask_bytes(self, ask: Ask) -> bytes:
        return (await self._send(ask)).content

    async def _ask_events(self, ask: Ask) -> AsyncIterator[StreamEvent]:
        reader = EventReader()
        async with self._stream(ask, silence_s=SILENCE_S) as chunks:
            async for chunk in chunks:
                for event in reader.feed(chunk):
                    yield event

    async def _ask_lines(self, ask: Ask) -> AsyncIterator[Document]:
        reader = LineReader()
        async with self._stream(ask, silence_s=ask.wait_s) as chunks:
            async for chunk in chunks:
                for document in reader.feed(chunk):
                    yield document

    @asynccontextmanager
    async def _stream(self, ask: Ask, *, silence_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        import httpx

        require_socket(self.socket)
        try:
            async with self._http.stream(**{**arguments(ask), "timeout": silence_s}) as response:
                if response.is_error:
                    await response.aread()
                    refuse(response)
                yield response.aiter_bytes()
        except httpx.TransportError as error:
            raise lost(self.socket, error) from error

    async def _send(self, ask: Ask, *, content: AsyncIterable[bytes] | None = None) -> httpx.Response:
        import httpx

        require_socket(self.socket)
        body = {} if content is None else {"content": content}
        try:
            response = await self._http.request(**{**arguments(ask), **body})
        except httpx.TransportError as error:
            raise lost(self.socket, error) from error
        refuse(response)
        return response


async def _one_by_one(body: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece
