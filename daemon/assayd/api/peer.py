"""Identifies the user at the other end of a connection through the kernel, with the user's rights."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.api.bounded_http import BoundedHttpTools
from assayd.api.errors import error_response
from assayd.api.fairness import Places, Turns
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch
from assayd.model.submission import Peer

SO_PEERGROUPS = 59
"""Supplementary groups of the peer; Linux, not named by the socket module."""
NOBODY = 2**32 - 1
"""The uid of a caller on another host without a token."""
TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request: its credentials at connection time, and all its groups.

    Attributes:
        remote: whether the caller is on another host and has a token; its uid is then the number of its
            tenant.
        operator: whether the token allows the caller to see everything.
        monitor: whether the token allows the caller to read metrics and examinations.
        token: the id of the token, if the caller is on another host.
        is_node: whether the token belongs to a node of a cluster; its requests serve several users.
    """

    peer: Peer
    groups: frozenset[int]
    remote: bool = False
    operator: bool = False
    monitor: bool = False
    token: str | None = None
    is_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketAccess:
    """The access rules of the socket: who can use it, and who sees all attempts.

    If neither uids nor gids are listed, everyone who can open the socket may use the API; a remote caller's
    token has already been checked. Operators may always use the API: root, the daemon's user `own_uid` (who
    can read its files anyway), and the operators' group. `worker_uid` is the user that runs the worker of a
    cluster's node.
    """

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()
    operators_gid: int | None = None
    own_uid: int | None = None
    worker_uid: int | None = None

    def admits(self, caller: Caller) -> bool:
        """Return whether this caller may use the API at all."""
        if caller.remote or not (self.uids or self.gids) or self.is_operator(caller):
            return True
        return caller.peer.uid in self.uids or not self.gids.isdisjoint(caller.groups)

    def is_operator(self, caller: Caller) -> bool:
        """Return whether this caller may see everything."""
        if caller.remote:
            return caller.operator
        return caller.peer.uid in {0, self.own_uid} or self.operators_gid in caller.groups

    def may_work_for_gateway(self, caller: Caller) -> bool:
        """Return whether this caller may be the worker of a node, which submits attempts of a gateway."""
        return not caller.remote and (caller.peer.uid == self.worker_uid or self.is_operator(caller))

    def sees(self, caller: Caller, owned: Attempt | Batch) -> bool:
        """Return whether this caller may know that an attempt or a batch exists."""
        return owned.peer.uid == caller.peer.uid or self.is_operator(caller)


class PeerGate:
    """Middleware that rejects all requests of callers who aren't admitted."""

    def __init__(self, app: ASGIApp, access: SocketAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if its caller is admitted; otherwise, respond with status 403."""
        if scope["type"] == "http":
            caller = scope.get("state", {}).get("caller")
            if not isinstance(caller, Caller) or not self._access.admits(caller):
                refusal = RequestError("peer.not_allowed", "this user isn't allowed to use the daemon")
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def read_caller(connected: socket.socket) -> Caller | None:
    """Return the peer of a connection, identified by the kernel; None if it isn't a Unix socket."""
    if connected.family != socket.AF_UNIX:
        return None
    pid, uid, gid = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Caller(peer=Peer(uid=uid, gid=gid, pid=pid), groups=_read_peer_groups(connected) | {gid})


def unread_bytes(transport: asyncio.BaseTransport) -> int:
    """Return the number of sent bytes that the peer hasn't read; 0 for other sockets than Unix sockets.

    Source: unix(7), SIOCOUTQ. The kernel's count includes its overhead; it is 0 once the peer has read
    everything.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX or transport.is_closing():
        return 0
    (unread,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    return int(unread)


def _read_peer_groups(connection: socket.socket) -> frozenset[int]:
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 1024)
    except OSError:  # more than 256 groups: those beyond the primary one don't count
        return frozenset()
    return frozenset(struct.unpack(f"{len(packed) // 4}I", packed))


class PeerHttpTools(BoundedHttpTools):
    """The bounded HTTP protocol that identifies its caller and reserves connections for other users."""

    access: SocketAccess | None = None
    """Who is an operator; None: no caller is."""
    places: Places | None = None
    """Shared by all connections of one server; None where connections are counted elsewhere."""
    refused: Callable[[], None] | None = None
    """Called for each connection that was turned away."""

    caller: Caller | None = None
    """Who is at the other end; None if it isn't known."""
    holds_place = False
    """Whether this connection is counted in `places`, which whoever accepted it did."""

    @classmethod
    def admits(cls, caller: Caller | None, user: int) -> bool:
        """Take a slot for a connection, and return whether one was available."""
        if cls.places is None:
            return True
        is_operator = caller is not None and cls.access is not None and cls.access.is_operator(caller)
        is_admitted = cls.places.take(user, is_operator=is_operator)
        if not is_admitted and cls.refused is not None:
            cls.refused()
        return is_admitted

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make the caller available in the state of every request on this connection."""
        super().connection_made(transport)
        self.app_state = {
            **self.app_state,
            "caller": self.caller,
            "unread_bytes": partial(unread_bytes, transport),
            "has_left": lambda: self.has_left,
        }

    def ended(self) -> None:
        """Release the slot once the connection is closed and its last request has ended."""
        if self.is_lost and self.task is None and self.holds_place and self.places is not None:
            self.holds_place = False
            self.places.give_back(self.user)


def protocol_for(
    places: Places | None,
    *,
    access: SocketAccess | None = None,
    silence_s: float = 30.0,
    refused: Callable[[], None] | None = None,
) -> type[PeerHttpTools]:
    """Return the protocol class for one server.

    Args:
        places: the connection slots; None if connections are counted before they reach the protocol.
        access: the rules that decide who is an operator.
        silence_s: the time in seconds for which a response waits for a client that doesn't read.
        refused: a function that is called for each refused connection.
    """
    attributes = {"places": places, "access": access, "silence_s": silence_s, "turns": Turns()}
    return type("PeerHttpTools", (PeerHttpTools,), attributes | {"refused": staticmethod(refused or _ignore)})


def _ignore() -> None:
    """Ignore a refused connection: the default for `refused`."""
