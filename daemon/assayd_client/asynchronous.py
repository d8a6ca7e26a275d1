"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from assayd_client.address import Target, find_daemon
from assayd_client.answers import (
    EventReader,
    LineReader,
    StreamEvent,
    lost,
    read_as,
    refuse,
    require_socket,
)
from assayd_client.client_request import SILENCE_S, ClientRequest
from assayd_client.transport import async_http
from assayd_client.verbs import Verbs

if TYPE_CHECKING:
    import httpx


class AsyncClient(Verbs):
    """The asynchronous client; answers are documents with attributes. Raises ClientError."""

    def __init__(self, daemon: Target = None) -> None:
        self.address = find_daemon(daemon)
        self._http = async_http(self.address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, ask: ClientRequest[Any]) -> Any:
        """Send a request and return the document that its answer is."""
        return read_as(ask.reads)((await self._send(ask)).content)

    async def send_for_content(self, ask: ClientRequest[bytes]) -> bytes:
        """Send a request and return its answer as it is."""
        return (await self._send(ask)).content

    async def send_for_events(self, ask: ClientRequest[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Send a request and return the events of its answer, as they come."""
        reader = EventReader()
        async with self._stream(ask, silence_s=SILENCE_S) as chunks:
            async for chunk in chunks:
                for event in reader.feed(chunk):
                    yield event

    async def send_for_lines(self, ask: ClientRequest[Any]) -> AsyncIterator[Any]:
        """Send a request and return the documents that the lines of its answer are, as they come."""
        reader = LineReader(read_as(ask.reads))
        async with self._stream(ask, silence_s=ask.wait_s) as chunks:
            async for chunk in chunks:
                for document in reader.feed(chunk):
                    yield document

    @asynccontextmanager
    async def _stream(
        self, ask: ClientRequest[Any], *, silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        import httpx

        require_socket(self.address)
        try:
            async with self._http.stream(**{**ask.arguments(), "timeout": silence_s}) as response:
                if response.is_error:
                    refuse(response.status_code, response.headers, await response.aread())
                yield response.aiter_bytes()
        except httpx.TransportError as error:
            raise lost(self.address, error) from error

    async def _send(self, ask: ClientRequest[Any]) -> httpx.Response:
        import httpx

        require_socket(self.address)
        arguments = ask.arguments()
        if isinstance(ask.content, Iterable):
            arguments["content"] = _one_by_one(ask.content)
        try:
            response = await self._http.request(**arguments)
        except httpx.TransportError as error:
            raise lost(self.address, error) from error
        if response.is_error:
            refuse(response.status_code, response.headers, response.content)
        return response


async def _one_by_one(body: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece
