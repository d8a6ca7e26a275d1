"""Accepts connections in users' turn, within limits per user, and identifies the users through the kernel.

The standard server of an event loop first creates a transport and a protocol for every waiting connection.
A user who connects and disconnects thousands of times then delays all others. Here, accepting is cheap: if
no slot is free, a connection is refused before any object is created for it. The other connections are
served with users in turn, and a connection whose client has already disconnected is closed unserved.
"""

from __future__ import annotations

import asyncio
import fcntl
import select
import socket
import struct
import termios
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import cast

import structlog
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.api.bounded_http import BoundedHttpProtocol, ConnectionSlots, TurnQueue
from assayd.api.errors import build_error_response
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch
from assayd.model.submission import Peer

log = structlog.get_logger()

SO_PEERGROUPS = 59
"""The Linux socket option for a peer's supplementary groups, which the socket module doesn't define."""
NOBODY = 2**32 - 1
"""The uid of a caller on another host without a token."""
TOO_MANY_CONNECTIONS_RESPONSE = (
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
        """Return whether this caller may use the API."""
        if caller.remote or not (self.uids or self.gids) or self.is_operator(caller):
            return True
        return caller.peer.uid in self.uids or not self.gids.isdisjoint(caller.groups)

    def is_operator(self, caller: Caller) -> bool:
        """Return whether this caller is an operator, i.e. can see everything."""
        if caller.remote:
            return caller.operator
        return caller.peer.uid in {0, self.own_uid} or self.operators_gid in caller.groups

    def can_be_node_worker(self, caller: Caller) -> bool:
        """Return whether this caller may be the worker of a node, which submits attempts of a gateway."""
        return not caller.remote and (caller.peer.uid == self.worker_uid or self.is_operator(caller))

    def sees(self, caller: Caller, owned: Attempt | Batch) -> bool:
        """Return whether this caller may know that an attempt or a batch exists."""
        return owned.peer.uid == caller.peer.uid or self.is_operator(caller)


class AccessControlMiddleware:
    """Middleware that rejects all requests of callers who aren't admitted."""

    def __init__(self, app: ASGIApp, access: SocketAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if its caller is admitted. Otherwise, respond with status 403."""
        if scope["type"] == "http":
            caller = scope.get("state", {}).get("caller")
            if not isinstance(caller, Caller) or not self._access.admits(caller):
                refusal = RequestError("peer.not_allowed", "this user isn't allowed to use the daemon")
                await build_error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def read_caller(connected: socket.socket) -> Caller | None:
    """Return the peer of a connection, identified by the kernel, or None if it isn't a Unix socket."""
    if connected.family != socket.AF_UNIX:
        return None
    pid, uid, gid = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Caller(peer=Peer(uid=uid, gid=gid, pid=pid), groups=_read_peer_groups(connected) | {gid})


def unread_bytes(transport: asyncio.BaseTransport) -> int:
    """Return the number of sent bytes that the peer hasn't read, or 0 if this isn't a Unix socket.

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
    except OSError:  # more than 256 groups: only the primary group counts
        return frozenset()
    return frozenset(struct.unpack(f"{len(packed) // 4}I", packed))


class PeerHttpTools(BoundedHttpProtocol):
    """The bounded HTTP protocol that identifies its caller and reserves connections for other users."""

    access: SocketAccess | None = None
    """The rules that decide who is an operator. If None, no caller is."""
    places: ConnectionSlots | None = None
    """The connection slots of the server. None if connections are counted elsewhere."""
    refused: Callable[[], None] | None = None
    """The function that is called for each refused connection."""

    caller: Caller | None = None
    """The peer of the connection, or None if it isn't known."""
    holds_slot = False
    """Whether this connection holds one of the slots, which the listener acquired for it."""

    @classmethod
    def acquire_slot(cls, caller: Caller | None, user: int) -> bool:
        """Acquire a connection slot for a user, and return whether a slot was available.

        Without counted connections, always return True.
        """
        if cls.places is None:
            return True
        is_operator = caller is not None and cls.access is not None and cls.access.is_operator(caller)
        is_admitted = cls.places.acquire(user, is_operator=is_operator)
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
        if self.is_lost and self.task is None and self.holds_slot and self.places is not None:
            self.holds_slot = False
            self.places.release(self.user)


def build_protocol_class(
    places: ConnectionSlots | None,
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
    attributes = {"places": places, "access": access, "silence_s": silence_s, "turns": TurnQueue()}
    return type(
        "PeerHttpTools", (PeerHttpTools,), attributes | {"refused": staticmethod(refused or _ignore_refusal)}
    )


def _ignore_refusal() -> None:
    """Ignore a refused connection: the default for `refused`."""


ACCEPT_TIME_SLICE_S = 0.0005
"""The seconds for which connections are accepted in one turn of the event loop."""
PAUSE_S = 1.0
"""The seconds for which no connection is accepted after the system was unable to accept one."""


class ApiServer(uvicorn.Server):
    """A uvicorn server that serves users in turn and installs no signal handlers."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Do not install signal handlers: the daemon handles signals."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting connections on the given sockets."""
        await self.lifespan.startup()
        listeners = [Listener(each, self) for each in sockets or []]
        for each in listeners:
            each.open()
        self.servers = cast("list[asyncio.base_events.Server]", listeners)
        self.started = True


@dataclass(frozen=True, slots=True)
class _AcceptedConnection:
    """An accepted connection that is waiting to be served."""

    connected: socket.socket
    caller: Caller | None
    user: int


class Listener:
    """A listening socket, together with the accepted connections that are waiting to be served."""

    def __init__(self, listening: socket.socket, server: uvicorn.Server) -> None:
        self._listening = listening
        self._server = server
        self._protocol = cast("type[PeerHttpTools]", server.config.http_protocol_class)
        self._waiting: dict[str, _AcceptedConnection] = {}
        self._serving: set[asyncio.Task[object]] = set()
        self._loop = asyncio.get_running_loop()
        self._resuming: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Start accepting connections."""
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Stop accepting connections, and close all waiting connections."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listening)
        for key, accepted in self._waiting.items():
            self._protocol.turns.forget(key)
            self._drop_connection(accepted)
        self._waiting.clear()

    async def wait_closed(self) -> None:
        """Wait until every connection taken from the queue has its transport and protocol."""
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self) -> None:
        """Accept connections for a limited time. The event loop calls again if more are waiting."""
        until = perf_counter() + ACCEPT_TIME_SLICE_S
        while perf_counter() < until:
            try:
                connected, address = self._listening.accept()
            except BlockingIOError:
                return
            except ConnectionError:  # the client disconnected while it waited
                continue
            except OSError as problem:  # no descriptor or no memory is left
                log.error("connection.not_accepted", problem=str(problem))
                self._loop.remove_reader(self._listening)
                self._resuming = self._loop.call_later(PAUSE_S, self.open)
                return
            self._admit(connected, address)

    def _admit(self, connected: socket.socket, address: object) -> None:
        """Queue a connection to be served, or refuse it if its user has no free slot."""
        connected.setblocking(False)
        caller = read_caller(connected)
        host = address[0] if isinstance(address, tuple) else None
        user = caller.peer.uid if caller else hash(host)
        accepted = _AcceptedConnection(connected, caller, user)
        if not self._protocol.acquire_slot(caller, user):
            with suppress(OSError):  # the client disconnected, or reads nothing and so gets no answer
                connected.send(TOO_MANY_CONNECTIONS_RESPONSE)
            connected.close()
            return
        key = f"accepted-{connected.fileno()}"
        self._waiting[key] = accepted
        self._protocol.turns.take(user, key, partial(self._serve, key))

    def _serve(self, key: str) -> None:
        """Create the transport and protocol of a connection, unless its client has disconnected."""
        accepted = self._waiting.pop(key)
        if is_disconnected(accepted.connected):
            self._drop_connection(accepted)
            return
        task = self._loop.create_task(self._create_transport(accepted), name="accept")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _create_transport(self, accepted: _AcceptedConnection) -> None:
        def make() -> PeerHttpTools:
            server = self._server
            protocol = self._protocol(server.config, server.server_state, server.lifespan.state)
            protocol.caller, protocol.user, protocol.holds_slot = accepted.caller, accepted.user, True
            return protocol

        try:
            await self._loop.connect_accepted_socket(make, accepted.connected)
        except OSError as problem:
            log.debug("connection.not_served", problem=str(problem))
            self._drop_connection(accepted)

    def _drop_connection(self, accepted: _AcceptedConnection) -> None:
        accepted.connected.close()
        if self._protocol.places is not None:
            self._protocol.places.release(accepted.user)


def is_disconnected(connected: socket.socket) -> bool:
    """Return whether the client has closed the connection.

    Source: poll(2). On a Unix socket, POLLHUP means that the peer can neither send nor receive.
    """
    poll = select.poll()
    poll.register(connected, 0)  # POLLHUP and POLLERR are always reported
    return bool(poll.poll(0))
