"""Implements the asynchronous client for asyncio and for other event loops that anyio supports."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import anyio
from anyio.abc import ByteStream, UNIXSocketStream

from assayd_client.address import (
    Address,
    ServerChoice,
    Target,
    find_daemon,
    get_tls_context,
    require_usable_files,
)
from assayd_client.answers import (
    EventReader,
    LineReader,
    StreamEvent,
    create_decoder,
    require_existing_socket,
)
from assayd_client.exchange import CONNECT_S, PIECE_BYTES, Exchange, connect_unix, translate_connection_errors
from assayd_client.requests import MAX_SILENCE_S, ClientRequest
from assayd_client.verbs import Verbs


class AsyncClient(Verbs):
    """A client for asyncio and anyio whose methods return typed documents and raise ClientError."""

    returned: ClassVar[Mapping[str, str]] = {
        "send": "Awaitable[{}]",
        "send_for_content": "Awaitable[bytes]",
        "send_for_events": "AsyncIterator[StreamEvent]",
        "send_for_lines": "AsyncIterator[{}]",
    }

    def __init__(self, daemon: Target = None) -> None:
        self.address = find_daemon(daemon)
        if isinstance(self.address, ServerChoice):
            require_usable_files(self.address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Do nothing, because every request has already closed its connection."""

    async def send(self, ask: ClientRequest[Any]) -> Any:
        """Send a request, and return the response body as a document."""
        return create_decoder(ask.reads)(await self.send_for_content(ask))

    async def send_for_content(self, ask: ClientRequest[Any]) -> bytes:
        """Send a request, and return the response body as unprocessed bytes."""
        return b"".join([piece async for piece in self._iter_response_chunks(ask, ask.timeout_s)])

    async def send_for_events(self, ask: ClientRequest[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Send a request, and yield the events of the response as they arrive."""
        reader = EventReader()
        async with aclosing(self._iter_response_chunks(ask, MAX_SILENCE_S)) as pieces:
            async for piece in pieces:
                for event in reader.feed(piece):
                    yield event

    async def send_for_lines(self, ask: ClientRequest[Any]) -> AsyncIterator[Any]:
        """Send a request, and yield the documents in the response, one per line, as they arrive."""
        reader = LineReader(create_decoder(ask.reads))
        async with aclosing(self._iter_response_chunks(ask, ask.wait_s)) as pieces:
            async for piece in pieces:
                for document in reader.feed(piece):
                    yield document

    async def _iter_response_chunks(
        self, ask: ClientRequest[Any], silence_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Send a request, and yield the pieces of the response body as they arrive."""
        require_existing_socket(self.address)
        exchange = Exchange(ask, self.address)
        with translate_connection_errors(self.address):
            async with _open_connection(self.address) as connection:
                await _send_request(connection, exchange, ask)
                while not exchange.is_complete:
                    for piece in exchange.receive(await _receive_chunk(connection, silence_s or None)):
                        yield piece


async def _send_request(connection: ByteStream, exchange: Exchange, ask: ClientRequest[Any]) -> None:
    body = ask.body()
    try:
        if not isinstance(body, AsyncIterable):
            for data in exchange.iter_request(body):
                await connection.send(data)
            return
        await connection.send(exchange.head())
        async for piece in body:
            await connection.send(exchange.encode_chunk(piece))
        await connection.send(exchange.end())
    except anyio.BrokenResourceError:
        exchange.stop_sending()


async def _receive_chunk(connection: ByteStream, silence_s: float | None) -> bytes:
    """Return the next bytes, or empty bytes if the connection is closed. Raises: OSError."""
    try:
        with anyio.fail_after(silence_s):
            return await connection.receive(PIECE_BYTES)
    except anyio.EndOfStream:
        return b""
    except anyio.BrokenResourceError as error:
        raise ConnectionError(str(error.__cause__ or "the connection broke")) from error


@asynccontextmanager
async def _open_connection(address: Address) -> AsyncIterator[ByteStream]:
    with anyio.fail_after(CONNECT_S):
        connection = await _open_byte_stream(address)
    try:
        yield connection
    finally:
        await anyio.aclose_forcefully(connection)


async def _connect_unix(path: Path) -> ByteStream:
    """Connect to a Unix socket; if its backlog is full, wait in a separate thread."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.connect(str(path))
    except BlockingIOError:
        connection.close()
        connection = await anyio.to_thread.run_sync(connect_unix, path, abandon_on_cancel=True)
        connection.setblocking(False)
    except BaseException:
        connection.close()
        raise
    return await UNIXSocketStream.from_socket(connection)


async def _open_byte_stream(address: Address) -> ByteStream:
    if not isinstance(address, ServerChoice):
        return await _connect_unix(address.path)
    return await anyio.connect_tcp(
        address.host,
        address.port,
        ssl_context=get_tls_context(address),
        tls_hostname=address.host,
        tls_standard_compatible=False,
    )
