"""Accepts connections, limits them per user, and serves users in turn.

The standard server of an event loop first creates a transport and a protocol for every waiting connection.
A user who connects and disconnects thousands of times then delays all others. Here, accepting is cheap: if
no slot is free, a connection is refused before any object is created for it. The other connections are
served with users in turn, and a connection whose client has already disconnected is closed unserved.
"""

from __future__ import annotations

import asyncio
import select
import socket
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import cast

import structlog
import uvicorn

from assayd.api.peer import TOO_MANY, Caller, PeerHttpTools, read_caller

log = structlog.get_logger()

ACCEPTING_S = 0.0005
"""How long connections are accepted in one turn of the event loop."""
PAUSE_S = 1.0
"""How long nothing is accepted after the system could not."""


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
        """Wait until no connection is between being accepted and being served."""
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self) -> None:
        """Accept connections for a limited time; the event loop calls again if more are waiting."""
        until = perf_counter() + ACCEPTING_S
        while perf_counter() < until:
            try:
                connected, address = self._listening.accept()
            except BlockingIOError:
                return
            except ConnectionError:  # the client gave up while it waited
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
        if not self._protocol.admits(caller, user):
            with suppress(OSError):  # it has left, or it reads nothing: then it gets no answer
                connected.send(TOO_MANY)
            connected.close()
            return
        key = f"accepted-{connected.fileno()}"
        self._waiting[key] = accepted
        self._protocol.turns.take(user, key, partial(self._serve, key))

    def _serve(self, key: str) -> None:
        """Create the transport and protocol of a connection, unless its client has disconnected."""
        accepted = self._waiting.pop(key)
        if has_left(accepted.connected):
            self._drop_connection(accepted)
            return
        task = self._loop.create_task(self._create_transport(accepted), name="accept")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _create_transport(self, accepted: _AcceptedConnection) -> None:
        def make() -> PeerHttpTools:
            server = self._server
            protocol = self._protocol(server.config, server.server_state, server.lifespan.state)
            protocol.caller, protocol.user, protocol.holds_place = accepted.caller, accepted.user, True
            return protocol

        try:
            await self._loop.connect_accepted_socket(make, accepted.connected)
        except OSError as problem:
            log.debug("connection.not_served", problem=str(problem))
            self._drop_connection(accepted)

    def _drop_connection(self, accepted: _AcceptedConnection) -> None:
        accepted.connected.close()
        if self._protocol.places is not None:
            self._protocol.places.give_back(accepted.user)


def has_left(connected: socket.socket) -> bool:
    """Return whether the client has closed the connection.

    Source: poll(2). On a Unix socket, POLLHUP means that the peer can neither send nor receive.
    """
    poll = select.poll()
    poll.register(connected, 0)  # POLLHUP and POLLERR are always reported
    return bool(poll.poll(0))
