"""The client for those that must start fast: h11 on the connection, answers as JSON objects.

A connection serves one request: on a socket of the same host, making one costs less than keeping it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import h11

from assayd_client.address import Address, ServerChoice, Target, find_daemon
from assayd_client.answers import EventReader, LineReader, StreamEvent, lost, refuse, require_socket
from assayd_client.client_request import SILENCE_S, ClientRequest
from assayd_client.verbs import Verbs

PIECE_BYTES = 64 * 2**10
CONNECT_S = 10.0
"""How long a server may take to be connected to, and to say who it is."""


class PlainClient(Verbs):
    """The blocking client whose answers are JSON objects. Raises ClientError."""

    def __init__(self, daemon: Target = None) -> None:
        self.address = find_daemon(daemon)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing: every request has closed its connection."""

    def send(self, ask: ClientRequest[Any]) -> Any:
        """Send a request and return the JSON that its answer is."""
        return json.loads(self.send_for_content(ask))

    def send_for_content(self, ask: ClientRequest[Any]) -> bytes:
        """Send a request and return its answer as it is."""
        with _exchange(self.address, ask, ask.timeout_s) as pieces:
            return b"".join(pieces)

    def send_for_events(self, ask: ClientRequest[StreamEvent]) -> Iterator[StreamEvent]:
        """Send a request and return the events of its answer, as they come."""
        reader = EventReader()
        with _exchange(self.address, ask, SILENCE_S) as pieces:
            for piece in pieces:
                yield from reader.feed(piece)

    def send_for_lines(self, ask: ClientRequest[Any]) -> Iterator[Any]:
        """Send a request and return the JSON that each line of its answer is, as they come."""
        reader = LineReader(json.loads)
        with _exchange(self.address, ask, ask.wait_s) as pieces:
            for piece in pieces:
                yield from reader.feed(piece)


@contextmanager
def _exchange(address: Address, ask: ClientRequest[Any], silence_s: float) -> Iterator[Iterator[bytes]]:
    """Send a request, and give its answer in pieces.

    Raises: ClientError, as the answer says, or DaemonUnreachable; RequestError, for files of a server.
    """
    require_socket(address)
    host, more = "assayd", {}
    if isinstance(address, ServerChoice):
        from assayd_client.secure import authorization

        host, more = address.authority, {"Authorization": authorization(address)}
    try:
        with _connect(address, silence_s or None) as connected:
            wire = _Wire(connected=connected, state=h11.Connection(h11.CLIENT))
            wire.send(ask, {"Host": host, **more})
            status, headers = wire.head()
            if status >= 400:
                refuse(status, headers, b"".join(wire.body()))
            yield wire.body()
    except (OSError, h11.ProtocolError) as error:
        raise lost(address, error) from error


@contextmanager
def _connect(address: Address, silence_s: float | None) -> Iterator[socket.socket]:
    if not isinstance(address, ServerChoice):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.settimeout(silence_s)
            connected.connect(str(address.path))
            yield connected
        return
    from assayd_client.secure import tls_context

    context = tls_context(address)
    with (
        socket.create_connection((address.host, address.port), CONNECT_S) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        secured.settimeout(silence_s)
        yield secured


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wire:
    """One request and its answer on a connection."""

    connected: socket.socket
    state: h11.Connection

    def send(self, ask: ClientRequest[Any], own: dict[str, str]) -> None:
        """Send a request, with headers that are its address's own.

        A daemon that refuses it may stop reading before its end: it has answered then.
        """
        query = urlencode(list(ask.query))
        headers = {**own, "Connection": "close", **ask.all_headers()}
        body = ask.body()
        if isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
        else:
            headers["Transfer-Encoding"] = "chunked"
        target = f"{ask.path}?{query}" if query else ask.path
        try:
            self._put(h11.Request(method=ask.method, target=target, headers=list(headers.items())))
            for piece in (body,) if isinstance(body, bytes) else body:
                self._put(h11.Data(data=piece))
            self._put(h11.EndOfMessage())
        except (BrokenPipeError, ConnectionResetError):
            self.state.send_failed()

    def head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers of the answer."""
        event = self._next()
        while isinstance(event, h11.InformationalResponse):
            event = self._next()
        if not isinstance(event, h11.Response):
            raise ConnectionError("the daemon has closed the connection without an answer")
        return event.status_code, {name.decode("latin-1"): v.decode("latin-1") for name, v in event.headers}

    def body(self) -> Iterator[bytes]:
        """Return the answer's body as it comes."""
        while isinstance(event := self._next(), h11.Data):
            yield bytes(event.data)

    def _put(self, event: h11.Event) -> None:
        data = self.state.send(event)
        if data:
            self.connected.sendall(data)

    def _next(self) -> Any:  # h11 has no type of its own for its marks
        while (event := self.state.next_event()) is h11.NEED_DATA:
            self.state.receive_data(self.connected.recv(PIECE_BYTES))
        return event
