"""The client that blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
from assayd.client.verbs import Ask, Verbs, arguments, send_batch

if TYPE_CHECKING:
    import httpx

SILENCE_S = 60.0
"""How long an event stream may be silent, heartbeats included, before it counts as lost."""


class Client(Verbs[Document, bytes, Iterator[StreamEvent], Iterator[Document]]):
    """The blocking client. Raises ClientError and DaemonUnreachable."""

    def __init__(self, socket: str | Path | None = None) -> None:
        import httpx

        self.socket = find_socket(str(socket) if socket else None)
        # No TLS on a socket; reading the system's certificates for it would take most of a short call.
        transport = httpx.HTTPTransport(uds=str(self.socket.path), verify=False)
        self._http = httpx.Client(transport=transport, base_url="http://assayd")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send_batch(
        self,
        body: Iterable[bytes],
        *,
        name: str | None = None,
        concurrency: int | None = None,
        dedupe: bool | None = None,
    ) -> Document:
        """Send the lines of a batch, in any pieces; the same again adds only what is missing."""
        return read_object(self._send(send_batch(name, concurrency, dedupe), content=body))

    def _ask(self, ask: Ask) -> Document:
        return read_object(self._send(ask))

    def _ask_bytes(self, ask: Ask) -> bytes:
        return self._send(ask).content

    def _ask_events(self, ask: Ask) -> Iterator[StreamEvent]:
        reader = EventReader()
        with self._stream(ask, silence_s=SILENCE_S) as chunks:
            for chunk in chunks:
                yield from reader.feed(chunk)

    def _ask_lines(self, ask: Ask) -> Iterator[Document]:
        reader = LineReader()
        with self._stream(ask, silence_s=ask.wait_s) as chunks:
            for chunk in chunks:
                yield from reader.feed(chunk)

    @contextmanager
    def _stream(self, ask: Ask, *, silence_s: float) -> Iterator[Iterator[bytes]]:
        import httpx

        require_socket(self.socket)
        try:
            with self._http.stream(**{**arguments(ask), "timeout": silence_s}) as response:
                if response.is_error:
                    response.read()
                    refuse(response)
                yield response.iter_bytes()
        except httpx.TransportError as error:
            raise lost(self.socket, error) from error

    def _send(self, ask: Ask, *, content: Iterable[bytes] | None = None) -> httpx.Response:
        import httpx

        require_socket(self.socket)
        body = {} if content is None else {"content": content}
        try:
            response = self._http.request(**{**arguments(ask), **body})
        except httpx.TransportError as error:
            raise lost(self.socket, error) from error
        refuse(response)
        return response
