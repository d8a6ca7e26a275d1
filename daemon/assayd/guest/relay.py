"""The container's end of the proxy: a loopback listener that forwards its connections in frames.

This module doesn't interpret the data that guest code sends to the proxy. The daemon reads the data and
answers. This module limits the number of simultaneous connections (others wait in the listener's queue),
the total number of connections, and the bytes in transit in each direction: each end grants credit to its
peer. Each round of the selector transfers a bounded amount of data per connection, so that a busy
connection doesn't delay output, results and other connections.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque

from .frames import MIN_WINDOW_COST, WINDOW, compute_window_cost
from .requests import InvalidRequest, RelayLimits, get
from .substitutes import READ, WRITE, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from .frames import Header
    from .streams import Send
    from .substitutes import Selector

    _T = TypeVar("_T")

PORT = 3128

_READ_BYTES = 32 * 1024
_LISTEN_BACKLOG = 128
_MAX_ACCEPTED_PER_ROUND = 16
_MIN_GRANT_BYTES = WINDOW // 4
_MAX_REFUSED_SOCKETS = 8
_REFUSAL_RESPONSE = (
    b"HTTP/1.1 429 network.too_many_connections\r\nX-Assayd-Rule: network.too_many_connections\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
"""The response to a connection above the limit, like the daemon's, which isn't asked about it."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class _Connection:
    """One connection of guest code.

    `credit` is the number of bytes that can still be sent to the daemon, `unsent` is the data that guest
    code has not read yet, and `taken` is the number of bytes that guest code has read but that haven't been
    reported to the daemon.
    """

    def __init__(self, number: int, accepted: socket.socket) -> None:
        self.number = number
        self.socket = accepted
        self.credit = WINDOW
        self.unsent = bytearray()
        self.taken = 0
        self.guest_ended = self.daemon_ended = False
        self.watched = 0


class GuestRelay:
    """The proxy connections of an attempt, for one unit at a time. Inactive until `open` is called."""

    def __init__(self, selector: Selector, send: Send) -> None:
        self._selector = selector
        self._send = send
        self._listener: socket.socket | None = None
        self._listening = False
        self._caps = RelayLimits(streams=0, connections=0)
        self._connections: dict[int, _Connection] = {}
        self._next = 0
        self._unit = 0
        self._refusing = False
        self._refused: deque[socket.socket] = deque(maxlen=_MAX_REFUSED_SOCKETS)

    def open(self, caps: RelayLimits) -> Mapping[str, str]:
        """Start the listener. Return environment variables with the proxy's address.

        Raises: OSError, if the listener can't be started.
        """
        # In a container, always the same port, so that runs are reproducible; elsewhere, it may be in use.
        port = PORT if os.getpid() == 1 else 0
        self._caps = caps
        self._listener = socket.create_server(("127.0.0.1", port), backlog=_LISTEN_BACKLOG)
        self._listener.setblocking(False)
        place = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        found = {"HTTP_PROXY": place, "HTTPS_PROXY": place, "NO_PROXY": "localhost,127.0.0.1"}
        return {**found, **{name.lower(): value for name, value in found.items()}}

    def begin(self, unit: int) -> None:
        """Start accepting connections for the next unit."""
        self._unit, self._refusing = unit, False
        self._listen()

    def end(self) -> None:
        """Close all connections of the unit, including queued ones. The unit's processes must be dead."""
        for connection in list(self._connections.values()):
            self._close_connection(connection)
        while self._refused:
            self._refused.pop().close()
        self._stop_listening()
        while self._listener is not None and (waiting := self._accept_one()) is not None:
            waiting.close()

    def process_frame(self, header: Header, body: bytes) -> None:
        """Process a frame from the daemon. Ignore a frame for a closed connection.

        Raises: InvalidRequest, if the stream never existed, or the frame is invalid or exceeds the credit.
        """
        number = get(header, "stream", int)
        if self._listener is None or not 0 <= number < self._next:
            raise InvalidRequest(f"stream {number} doesn't exist")
        connection = self._connections.get(number)
        if connection is None:
            return
        match header["type"]:
            case "stream_data":
                connection.unsent += body
                if len(connection.unsent) > WINDOW:
                    raise InvalidRequest(f"stream {number} got more than it gave credit for")
            case "stream_end":
                connection.daemon_ended = True
            case "stream_credit":
                connection.credit += get(header, "credit", int)
            case "stream_reset":
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                self._close_connection(connection)
                return
            case other:
                raise InvalidRequest(f"{other} was not expected")
        self._transfer_data(connection)

    def _listen(self) -> None:
        if self._listener is not None and not self._listening:
            self._selector.register(self._listener.fileno(), READ, self._accept_waiting)
            self._listening = True

    def _stop_listening(self) -> None:
        if self._listener is not None and self._listening:
            self._selector.unregister(self._listener.fileno())
            self._listening = False

    def _accept_waiting(self) -> None:
        """Accept waiting connections until the maximum number is open.

        Refuse those above the total number of connections.
        """
        for _ in range(_MAX_ACCEPTED_PER_ROUND):
            if len(self._connections) >= self._caps.streams:
                self._stop_listening()
                return
            accepted = self._accept_one()
            if accepted is None:
                return
            if self._next >= self._caps.connections:
                self._refuse(accepted)
            else:
                self._add_connection(accepted)

    def _accept_one(self) -> socket.socket | None:
        assert self._listener is not None  # noqa: S101 - only what listens accepts
        try:
            return self._listener.accept()[0]
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError:
            # No descriptor is available: listening restarts when one is closed, or with the next unit.
            self._stop_listening()
            return None

    def _refuse(self, accepted: socket.socket) -> None:
        """Send a refusal. Close the socket later, because closing it now could lose the answer."""
        with suppress(OSError):
            accepted.setblocking(False)
            accepted.send(_REFUSAL_RESPONSE)
            accepted.shutdown(socket.SHUT_WR)
        if len(self._refused) == self._refused.maxlen:
            self._refused[0].close()
        self._refused.append(accepted)
        if not self._refusing:
            self._refusing = True
            self._send({"type": "stream_limit", "unit": self._unit}, b"")

    def _add_connection(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(self._next, accepted)
        self._next += 1
        self._connections[connection.number] = connection
        self._send_frame("stream_open", connection)
        self._update_events(connection)

    def _on_ready(self, connection: _Connection) -> None:
        # Its descriptor may belong to another connection by now.
        if self._connections.get(connection.number) is connection:
            self._transfer_data(connection)

    def _transfer_data(self, connection: _Connection) -> None:
        """Transfer all data that can be transferred now, in both directions."""
        try:
            self._write_unsent(connection)
            self._read_available(connection)
        except OSError:
            self._send_frame("stream_reset", connection)
            self._close_connection(connection)
            return
        if connection.guest_ended and connection.daemon_ended and not connection.unsent:
            self._close_connection(connection)
        else:
            self._update_events(connection)

    def _write_unsent(self, connection: _Connection) -> None:
        if connection.unsent:
            count = _call_nonblocking(lambda: connection.socket.send(connection.unsent)) or 0
            del connection.unsent[:count]
            connection.taken += count
        if connection.taken >= _MIN_GRANT_BYTES:
            self._send_frame("stream_credit", connection, credit=connection.taken)
            connection.taken = 0
        if connection.daemon_ended and not connection.unsent:
            connection.socket.shutdown(socket.SHUT_WR)

    def _read_available(self, connection: _Connection) -> None:
        if connection.guest_ended or connection.credit < MIN_WINDOW_COST:
            return
        most = min(connection.credit, _READ_BYTES)
        content = _call_nonblocking(lambda: connection.socket.recv(most))
        if content:
            connection.credit -= compute_window_cost(content)
            self._send_frame("stream_data", connection, content)
        elif content is not None:
            connection.guest_ended = True
            self._send_frame("stream_end", connection)

    def _update_events(self, connection: _Connection) -> None:
        """Watch the events for which the connection is ready. Watch none while it waits for the daemon."""
        reads = not connection.guest_ended and connection.credit >= MIN_WINDOW_COST
        events = reads * READ | bool(connection.unsent) * WRITE
        if events == connection.watched:
            return
        if not connection.watched:
            self._selector.register(connection.socket.fileno(), events, lambda: self._on_ready(connection))
        elif not events:
            self._selector.unregister(connection.socket.fileno())
        else:
            self._selector.modify(connection.socket.fileno(), events)
        connection.watched = events

    def _close_connection(self, connection: _Connection) -> None:
        if connection.watched:
            self._selector.unregister(connection.socket.fileno())
        connection.socket.close()
        del self._connections[connection.number]
        self._listen()

    def _send_frame(self, kind: str, connection: _Connection, body: bytes = b"", **more: object) -> None:
        self._send({"type": kind, "unit": self._unit, "stream": connection.number, **more}, body)


def _call_nonblocking(move: Callable[[], _T]) -> _T | None:
    """Call a socket function and return its result; None if the call would block."""
    try:
        return move()
    except BlockingIOError:
        return None
