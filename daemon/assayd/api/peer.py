"""Who is at the other end of a connection, as the kernel says, and what they may see."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from assayd.api.errors import error_response
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch
from assayd.model.submission import Peer

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent

SO_PEERGROUPS = 59
"""Supplementary groups of the peer; Linux, not named by the socket module."""
MAX_HEAD_BYTES = 64 * 2**10
"""Request line and headers together; trailers after a body as well."""
HEAD_S = 30.0
"""How long the headers of a request may take."""
OTHERS_SHARE = 8
"""An eighth of all connections is kept for operators; one user leaves as many again to others."""
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request: its credentials when it connected, and all groups that it was in.

    Attributes:
        remote: whether it is on another host, by a token; its uid is then its tenant's number.
        operator: whether its token says that it sees everything.
    """

    peer: Peer
    groups: frozenset[int]
    remote: bool = False
    operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketAccess:
    """Who may use the socket, and who sees everybody's attempts.

    With neither uids nor gids listed, whoever can open the socket may use it; a remote caller's token was
    judged before. Operators always may: root,
    the daemon's own user `own_uid` (who can read its files anyway), and the operators' group.
    """

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()
    operators_gid: int | None = None
    own_uid: int | None = None

    def admits(self, caller: Caller) -> bool:
        """Return whether this caller may use the API at all."""
        if caller.remote or not (self.uids or self.gids) or self.is_operator(caller):
            return True
        return caller.peer.uid in self.uids or not self.gids.isdisjoint(caller.groups)

    def is_operator(self, caller: Caller) -> bool:
        """Return whether this caller sees everything."""
        if caller.remote:
            return caller.operator
        return caller.peer.uid in {0, self.own_uid} or self.operators_gid in caller.groups

    def sees(self, caller: Caller, owned: Attempt | Batch) -> bool:
        """Return whether this caller may know of an attempt or a batch."""
        return owned.peer.uid == caller.peer.uid or self.is_operator(caller)


class PeerGate:
    """Turn away every request of a caller who is not admitted, whatever it asks for."""

    def __init__(self, app: ASGIApp, access: SocketAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or hand the request on."""
        if scope["type"] == "http":
            caller = scope.get("state", {}).get("caller")
            if not isinstance(caller, Caller) or not self._access.admits(caller):
                refusal = RequestError("peer.not_allowed", "this user may not use the daemon")
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def read_caller(transport: asyncio.BaseTransport) -> Caller | None:
    """Ask the kernel who opened a connection; None when it is not a Unix socket."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    # A duplicate, because an event loop hands out only a view of its socket.
    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as own:
        pid, uid, gid = struct.unpack("3i", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return Caller(peer=Peer(uid=uid, gid=gid, pid=pid), groups=_groups(own) | {gid})


def _groups(connection: socket.socket) -> frozenset[int]:
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 1024)
    except OSError:  # more than 256 groups: those beyond the primary one don't count
        return frozenset()
    return frozenset(struct.unpack(f"{len(packed) // 4}I", packed))


class _Together:
    """A transport that writes all that it is given at once, when it is asked to."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._held: list[bytes] = []

    def write(self, content: bytes) -> None:
        """Hold what is to be written."""
        self._held.append(content)

    def is_closing(self) -> bool:
        """Return whether it is being closed."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Write, and close."""
        self.flush()
        self.transport.close()

    def flush(self) -> None:
        """Write what is held."""
        held, self._held = self._held, []
        if any(held):
            self.transport.write(b"".join(held))


class _JoinedAnswer(RequestResponseCycle):
    """Sends the head of an answer of known length together with the beginning of its body.

    The server writes each by itself: the client would wake up twice, and read half an answer first.
    """

    _head: ASGISendEvent | None = None

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the answer, or hold its head until there is a body."""
        if message["type"] == "http.response.start" and _has_length(message):
            self._head = message
            return
        head, self._head = self._head, None
        if head is None:
            await super().send(message)
            return
        together = _Together(self.transport)
        self.transport = cast("asyncio.Transport", together)
        try:
            await super().send(head)
            await super().send(message)
        finally:
            together.flush()
            self.transport = together.transport


def _has_length(start: HTTPResponseStartEvent) -> bool:
    return any(name == b"content-length" for name, _ in start.get("headers", ()))


class PeerHttpTools(HttpToolsProtocol):
    """uvicorn's fast protocol, which knows its caller and refuses endless and very slow headers."""

    silence_s = 30.0
    """How long an answer may wait for a client that does not take it."""

    access: SocketAccess | None = None
    """Who is an operator; None: nobody is known to be."""

    _unread_due: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _head_due: asyncio.TimerHandle | None = None
    _caller: Caller | None = None

    @property
    def uid(self) -> int | None:
        """Return which user connected."""
        return self._caller.peer.uid if self._caller else None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the caller in the state of every request of this connection."""
        super().connection_made(transport)
        self._caller = read_caller(transport)
        self.app_state = {**self.app_state, "caller": self._caller}
        if self._crowds_others_out():
            transport.write(_TOO_MANY)
            transport.close()
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Count what arrives before the headers end; the parser itself has no bound."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        """Start the time limit for the headers of a further request."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Count anew; a body may follow, and headers again after it."""
        self._head_bytes = 0
        self._stop_expecting()
        super().on_headers_complete()
        self.cycle.__class__ = _JoinedAnswer

    def on_body(self, body: bytes) -> None:
        """Count anew: the body has a bound of its own."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count anew: the next request of this connection begins."""
        self._head_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait for a client that is slow to read, but not for ever: it holds a connection and memory."""
        self._unread_due = self.loop.call_later(self.silence_s, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on."""
        self._stop_waiting()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_expecting()
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._unread_due is not None:
            self._unread_due.cancel()
            self._unread_due = None

    def _expect_head(self) -> None:
        self._stop_expecting()
        self._head_due = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _crowds_others_out(self) -> bool:
        """Return whether this caller's connections leave too few to all other users."""
        if self._caller is None or self.limit_concurrency is None:
            return False
        if self.access is not None and self.access.is_operator(self._caller):
            return False
        uids = [each.uid for each in self.connections if isinstance(each, PeerHttpTools)]
        return is_crowded(uids, self._caller.peer.uid, self.limit_concurrency)


def is_crowded(uids: Sequence[int | None], uid: int, limit: int) -> bool:
    """Return whether the newest of these connections, which is this user's, is one too many.

    The last eighth is for operators; one user leaves as many again to others.
    """
    kept = limit // OTHERS_SHARE
    return len(uids) > limit - kept or uids.count(uid) > limit - 2 * kept


def with_silence(silence_s: float, access: SocketAccess | None = None) -> type[PeerHttpTools]:
    """Return the protocol with that patience, and a reserve for the operators that `access` names."""
    return type("PeerHttpTools", (PeerHttpTools,), {"silence_s": silence_s, "access": access})


class PeerH11(H11Protocol):
    """uvicorn's pure Python protocol, which bounds headers itself."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the caller in the state of every request of this connection."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "caller": read_caller(transport)}
