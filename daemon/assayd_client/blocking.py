"""The client that blocks, with typed documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
from assayd_client.transport import blocking_http
from assayd_client.verbs import Verbs

if TYPE_CHECKING:
    import httpx


class Client(Verbs):
    """The blocking client; answers are documents with attributes. Raises ClientError."""

    def __init__(self, daemon: Target = None) -> None:
        self.address = find_daemon(daemon)
        self._http = blocking_http(self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, ask: ClientRequest[Any]) -> Any:
        """Send a request and return the document that its answer is."""
        return read_as(ask.reads)(self._send(ask).content)

    def send_for_content(self, ask: ClientRequest[bytes]) -> bytes:
        """Send a request and return its answer as it is."""
        return self._send(ask).content

    def send_for_events(self, ask: ClientRequest[StreamEvent]) -> Iterator[StreamEvent]:
        """Send a request and return the events of its answer, as they come."""
        reader = EventReader()
        with self._stream(ask, silence_s=SILENCE_S) as chunks:
            for chunk in chunks:
                yield from reader.feed(chunk)

    def send_for_lines(self, ask: ClientRequest[Any]) -> Iterator[Any]:
        """Send a request and return the documents that the lines of its answer are, as they come."""
        reader = LineReader(read_as(ask.reads))
        with self._stream(ask, silence_s=ask.wait_s) as chunks:
            for chunk in chunks:
                yield from reader.feed(chunk)

    @contextmanager
    def _stream(self, ask: ClientRequest[Any], *, silence_s: float) -> Iterator[Iterator[bytes]]:
        import httpx

        require_socket(self.address)
        try:
            with self._http.stream(**{**ask.arguments(), "timeout": silence_s}) as response:
                if response.is_error:
                    refuse(response.status_code, response.headers, response.read())
                yield response.iter_bytes()
        except httpx.TransportError as error:
            raise lost(self.address, error) from error

    def _send(self, ask: ClientRequest[Any]) -> httpx.Response:
        import httpx

        require_socket(self.address)
        try:
            response = self._http.request(**ask.arguments())
        except httpx.TransportError as error:
            raise lost(self.address, error) from error
        if response.is_error:
            refuse(response.status_code, response.headers, response.content)
        return response
