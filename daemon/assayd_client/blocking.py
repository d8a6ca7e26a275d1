"""Implements the blocking clients: `Client` for typed documents and `PlainClient` for JSON objects."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

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
    Read,
    StreamEvent,
    create_decoder,
    require_existing_socket,
)
from assayd_client.requests import MAX_SILENCE_S, ClientRequest
from assayd_client.verbs import Verbs


class BlockingClient(Verbs):
    """The base class of blocking clients. Each request uses one connection. Raises: ClientError."""

    def __init__(self, daemon: Target = None) -> None:
        self.address = find_daemon(daemon)
        if isinstance(self.address, ServerChoice):
            require_usable_files(self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing, because every request has already closed its connection."""

    def send(self, ask: ClientRequest[Any]) -> Any:
        """Send a request, and return the response body as a document or JSON value."""
        return self._create_reader(ask)(self.send_for_content(ask))

    def send_for_content(self, ask: ClientRequest[Any]) -> bytes:
        """Send a request, and return the response body as unprocessed bytes."""
        return b"".join(self._iter_response_chunks(ask, ask.timeout_s))

    def send_for_events(self, ask: ClientRequest[StreamEvent]) -> Iterator[StreamEvent]:
        """Send a request, and yield the events of the response as they arrive."""
        reader = EventReader()
        for piece in self._iter_response_chunks(ask, MAX_SILENCE_S):
            yield from reader.feed(piece)

    def send_for_lines(self, ask: ClientRequest[Any]) -> Iterator[Any]:
        """Send a request, and yield the documents in the response, one per line, as they arrive."""
        reader = LineReader(self._create_reader(ask))
        for piece in self._iter_response_chunks(ask, ask.wait_s):
            yield from reader.feed(piece)

    def _create_reader(self, ask: ClientRequest[Any]) -> Read:
        raise NotImplementedError

    def _iter_response_chunks(self, ask: ClientRequest[Any], silence_s: float) -> Iterator[bytes]:
        """Send a request, and yield the pieces of the response body as they arrive."""
        from assayd_client.exchange import PIECE_BYTES, Exchange, translate_connection_errors

        require_existing_socket(self.address)
        exchange = Exchange(ask, self.address)
        with (
            translate_connection_errors(self.address),
            _open_connection(self.address, silence_s or None) as connection,
        ):
            try:
                for data in exchange.iter_request(ask.body()):
                    connection.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                exchange.stop_sending()
            while not exchange.is_complete:
                yield from exchange.receive(connection.recv(PIECE_BYTES))


class Client(BlockingClient):
    """A blocking client whose methods return typed documents and raise ClientError."""

    returned: ClassVar[Mapping[str, str]] = {
        "send": "{}",
        "send_for_content": "bytes",
        "send_for_events": "Iterator[StreamEvent]",
        "send_for_lines": "Iterator[{}]",
    }

    def _create_reader(self, ask: ClientRequest[Any]) -> Read:
        return create_decoder(ask.reads)


class PlainClient(BlockingClient):
    """A blocking client whose methods return JSON objects, for programs that must start quickly."""

    returned: ClassVar[Mapping[str, str]] = {
        **Client.returned,
        "send": "Document",
        "send_for_lines": "Iterator[Document]",
    }

    def _create_reader(self, ask: ClientRequest[Any]) -> Read:
        return json.loads


@contextmanager
def _open_connection(address: Address, silence_s: float | None) -> Iterator[socket.socket]:
    from assayd_client.exchange import CONNECT_S, connect_unix

    if not isinstance(address, ServerChoice):
        with connect_unix(address.path) as connection:
            connection.settimeout(silence_s)
            yield connection
        return
    context = get_tls_context(address)
    with (
        socket.create_connection((address.host, address.port), CONNECT_S) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a batch is sent in pieces
        secured.settimeout(silence_s)
        yield secured
