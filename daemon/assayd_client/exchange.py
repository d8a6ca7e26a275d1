"""Encodes one request and decodes its response on an HTTP connection. Performs no I/O.

The clients perform the I/O, both in the same way: they connect, send the bytes from `Exchange.iter_request`,
and pass received bytes to the exchange until it is complete. Each connection is used for one request, because
opening a connection to a local socket is cheaper than keeping it open.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h11

from assayd_client.address import Address, ServerChoice, build_authorization_header
from assayd_client.answers import build_connection_error, raise_response_error
from assayd_client.requests import ClientRequest

PIECE_BYTES = 64 * 2**10
CONNECT_S = 10.0
"""Maximum number of seconds for connecting to a server, including the TLS handshake."""


class Exchange:
    """The state of a connection's single request and response.

    Attributes:
        is_complete: whether the complete response has been received.
    """

    def __init__(self, request: ClientRequest[Any], address: Address) -> None:
        self._request = request
        self._address = address
        self._state = h11.Connection(h11.CLIENT)
        self._status = 0
        self._headers: dict[str, str] = {}
        self._refusal: list[bytes] = []
        self.is_complete = False

    def iter_request(self, body: bytes | Iterable[bytes]) -> Iterator[bytes]:
        """Yield the encoded request, in one piece if its body is `bytes`.

        Raises: the same errors as `head`.
        """
        if isinstance(body, bytes):
            yield self.head() + self.encode_chunk(body) + self.end()
            return
        yield self.head()
        yield from map(self.encode_chunk, body)
        yield self.end()

    def head(self) -> bytes:
        """Return the request line and the headers. Raises: RequestError, if the token can't be read."""
        body = self._request.body()
        headers = {
            **_build_address_headers(self._address),
            "Connection": "close",
            "Content-Type": "application/json",
            **build_trace_headers(),
            **self._request.headers,
        }
        if isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
        else:
            headers["Transfer-Encoding"] = "chunked"
        return self._encode_event(
            h11.Request(
                method=self._request.method, target=self._request.target, headers=list(headers.items())
            )
        )

    def encode_chunk(self, data: bytes) -> bytes:
        """Return a piece of the body in the transfer encoding of the request."""
        return self._encode_event(h11.Data(data=data))

    def end(self) -> bytes:
        """Return the bytes that end the request."""
        return self._encode_event(h11.EndOfMessage())

    def stop_sending(self) -> None:
        """Record that the daemon stopped reading the request, because its response rejects the request."""
        self._state.send_failed()

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Process received bytes, and yield the pieces of the response body that they contain.

        Empty bytes mean that the connection is closed. Raises: ClientError, if a complete error response has
        been received; h11.RemoteProtocolError, if the response is invalid or incomplete.
        """
        self._state.receive_data(data)
        while not self.is_complete and (event := self._state.next_event()) is not h11.NEED_DATA:
            match event:
                case h11.Response(status_code=status, headers=headers):
                    self._status = status
                    self._headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in headers}
                case h11.Data(data=piece) if self._status >= 400:
                    self._refusal.append(bytes(piece))
                case h11.Data(data=piece):
                    yield bytes(piece)
                case h11.EndOfMessage():
                    self.is_complete = True
                case h11.ConnectionClosed():
                    raise h11.RemoteProtocolError("closed without an answer")
        if self.is_complete and self._status >= 400:
            raise_response_error(self._status, self._headers, b"".join(self._refusal))

    def _encode_event(self, event: h11.Event) -> bytes:
        return self._state.send(event) or b""


def build_trace_headers() -> dict[str, str]:
    """Return the headers with which the daemon continues the caller's trace, or {} without a trace.

    If the caller has imported OpenTelemetry and has a valid current span, the span's trace is used.
    Otherwise, the trace is read from the environment.
    """
    api = sys.modules.get("opentelemetry.trace")
    span = api.get_current_span().get_span_context() if api is not None else None
    if span is not None and span.is_valid:
        state = span.trace_state.to_header()
        parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 1:02x}"
    else:
        parent, state = os.environ.get("TRACEPARENT", ""), os.environ.get("TRACESTATE", "")
    if not _HEADER_PATTERN.fullmatch(parent):
        return {}
    return {"traceparent": parent, **({"tracestate": state} if _HEADER_PATTERN.fullmatch(state) else {})}


_HEADER_PATTERN = re.compile(r"[!-~]([ -~]{0,510}[!-~])?")
"""Matches text that is valid in a header; the daemon parses the value strictly."""


def connect_unix(path: Path, wait_s: float = CONNECT_S) -> socket.socket:
    """Return a connection to a socket. If its backlog is full, the kernel waits for up to `wait_s`.

    A non-blocking socket, or a socket with a Python timeout, would fail immediately if the backlog is full.
    Raises: OSError, if the connection can't be made.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _set_socket_timeout(connection, wait_s)
        connection.connect(str(path))
        _set_socket_timeout(connection, 0)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_socket_timeout(connection: socket.socket, seconds: float) -> None:
    """Set the kernel's send timeout of a socket in seconds, which also limits connecting; 0 disables it."""
    whole = int(seconds)
    bound = struct.pack("ll", whole, int((seconds - whole) * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)


@contextmanager
def translate_connection_errors(address: Address) -> Iterator[None]:
    """Raise DaemonUnreachable in place of a connection error in the body."""
    try:
        yield
    except (OSError, h11.ProtocolError) as error:
        raise build_connection_error(address, error) from error


def _build_address_headers(address: Address) -> dict[str, str]:
    """Return the Host header and, for a gateway, the Authorization header."""
    if not isinstance(address, ServerChoice):
        return {"Host": "assayd"}
    return {"Host": address.authority, "Authorization": build_authorization_header(address)}
