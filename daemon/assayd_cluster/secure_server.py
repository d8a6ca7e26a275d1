"""Serves TLS connections only, with limits that apply until a connection has presented a token.

A connection is counted for its address before the first byte of its handshake is processed, and must finish
the handshake within a few seconds. After the handshake, the daemon's own protocol applies its limits on
headers and idle time.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import cast

import structlog
import uvicorn

from assayd.api.bounded_http import ConnectionSlots
from assayd.api.peer import PeerHttpTools
from assayd.errors import ConfigError
from assayd_cluster.gate import SHOWN, build_rate_limit_key

log = structlog.get_logger()

HANDSHAKE_S = 10.0
LOOK_S = 5.0
"""Seconds between two checks for changes of the certificate's files."""
ACCEPT_S = 1.0
"""Seconds for which no connection is accepted after the system failed to accept one."""
CONNECTIONS = 256
TOKEN_S = 10.0
"""Seconds after the handshake within which a connection must send a valid token."""
MAX_OPERATOR_ADDRESSES = 256
"""Maximum number of operators' addresses to store, which can use the reserved slots."""


class CertificateFiles:
    """A listener's certificate, which is reloaded if its files change, for TLS 1.2 or newer.

    Raises: ConfigError ``tls.unusable``, if the files are unusable at startup.
    """

    def __init__(self, certificate: Path, key: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = (certificate, key)
        self._clock = clock
        self._look_at = clock() + LOOK_S
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        self._seen: tuple[object, ...] | None = None
        try:
            self._load_certificate()
        except (OSError, ssl.SSLError) as problem:
            message = f"{certificate} and {key} can't be used for TLS: {problem}"
            raise ConfigError("tls.unusable", message, field="cluster.certificate_file") from problem

    def reload_if_changed(self) -> None:
        """Reload the certificate files if they have changed.

        If the new files are unusable, the error is logged and the previous certificate stays in use.
        """
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        try:
            if self._get_file_versions() != self._seen:
                self._load_certificate()
                log.info("certificate.reloaded", file=str(self._files[0]))
        except (OSError, ssl.SSLError) as problem:
            log.error("certificate.reload_failed", file=str(self._files[0]), problem=str(problem))

    def _load_certificate(self) -> None:
        seen = self._get_file_versions()
        # A mismatched pair would be applied halfway, so it is tested separately first.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
        self.context.load_cert_chain(*self._files)
        self._seen = seen

    def _get_file_versions(self) -> tuple[object, ...]:
        found = [file.stat() for file in self._files]
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)


class TlsServer(uvicorn.Server):
    """A uvicorn server that uses TLS and installs no signal handlers."""

    def __init__(
        self, config: uvicorn.Config, files: CertificateFiles, *, connections: int = CONNECTIONS
    ) -> None:
        super().__init__(config)
        self._files = files
        self._places = ConnectionSlots(connections)
        self._operators: OrderedDict[str, None] = OrderedDict()
        self._accepting: set[asyncio.Task[None]] = set()
        self._securing: set[asyncio.Task[None]] = set()
        self._counted: type[asyncio.Protocol]

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Install no handlers, because the program handles signals."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and accept connections on these listening sockets."""
        await self.lifespan.startup()
        spoken = self.config.http_protocol_class
        self._counted = type("CountedHttp", (_CountedProtocol, spoken), {"places": None})
        loop = asyncio.get_running_loop()
        self._accepting = {
            loop.create_task(self._accept_connections(each), name="accept") for each in sockets or []
        }
        self.servers = []
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and let running requests finish."""
        for task in (*self._accepting, *self._securing):
            task.cancel()
        await asyncio.gather(*self._accepting, *self._securing, return_exceptions=True)
        await super().shutdown(sockets)

    @property
    def open(self) -> int:
        """Return the number of connections, including those without a finished TLS handshake."""
        return self._places.total

    async def _accept_connections(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, peer = await loop.sock_accept(listener)
            except ConnectionError:  # the client disconnected while it waited
                continue
            except OSError as problem:  # no descriptor or memory is available
                log.error("connection.not_accepted", problem=str(problem))
                await asyncio.sleep(ACCEPT_S)
                continue
            address = build_rate_limit_key(peer[0])
            if not self._places.acquire(address, is_operator=address in self._operators):
                connected.close()
                continue
            self._files.reload_if_changed()
            task = loop.create_task(self._start_tls(connected, address), name="tls-handshake")
            self._securing.add(task)
            task.add_done_callback(self._securing.discard)

    async def _start_tls(self, connected: socket.socket, address: str) -> None:
        """Perform the TLS handshake of a connection, which is counted until it closes."""
        count = _ConnectionSlot(self._places, address, self._remember_operator)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._create_protocol(count, address),
                connected,
                ssl=self._files.context,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except (OSError, TimeoutError) as problem:  # ssl.SSLError is one of them
            log.debug("handshake.failed", address=address, problem=str(problem))
            count.end()
        except BaseException:
            count.end()
            raise

    def _remember_operator(self, address: str) -> None:
        self._operators[address] = None
        self._operators.move_to_end(address)
        if len(self._operators) > MAX_OPERATOR_ADDRESSES:
            self._operators.popitem(last=False)

    def _create_protocol(self, count: _ConnectionSlot, address: str) -> asyncio.Protocol:
        make = cast("Callable[..., _CountedProtocol]", self._counted)
        made = make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        made.count = count
        made.user = hash(address)  # before a token is shown, input is parsed in turn by address
        return made


class _ConnectionSlot:
    """The counted slot of one connection, which is released exactly once."""

    def __init__(self, places: ConnectionSlots, address: str, remember: Callable[[str], None]) -> None:
        self._places = places
        self._address: str | None = address
        self._remember_operator = remember

    def mark_operator(self) -> None:
        """Let further connections from this address use the slots that are reserved for operators."""
        if self._address is not None:
            self._remember_operator(self._address)

    def end(self) -> None:
        """Release the slot. A second call does nothing."""
        address, self._address = self._address, None
        if address is not None:
            self._places.release(address)


class _CountedProtocol(PeerHttpTools):
    """An HTTP protocol that releases its slot once the connection and its last request have ended."""

    count: _ConnectionSlot
    _token_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout within which the connection must present a valid token."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, SHOWN: self._confirm_token}
        self._token_due = self.loop.call_later(TOKEN_S, self.transport.close)

    def _confirm_token(self, *, is_operator: bool) -> None:
        """Stop the timeout after a valid token, and remember the address of an operator."""
        self._cancel_token_timeout()
        if is_operator:
            self.count.mark_operator()

    def _cancel_token_timeout(self) -> None:
        if self._token_due is not None:
            self._token_due.cancel()
            self._token_due = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout within which the connection must present a token."""
        self._cancel_token_timeout()
        super().connection_lost(exc)

    def ended(self) -> None:
        """Release the slot if the connection is closed and no request is running."""
        if self.is_lost and self.task is None:
            self.count.end()


def listen_tcp(address: str) -> socket.socket:
    """Return a listening socket for ``HOST:PORT``.

    Several gateways of one user can listen on the same address of a host, and the kernel distributes
    connections.

    Raises: ConfigError ``tls.unusable``, if the address has no port or can't be used.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise _build_listen_error(address, "it has no port")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, int(port)), family=family, backlog=1024, reuse_port=True)
    except OSError as problem:
        raise _build_listen_error(address, problem.strerror or str(problem)) from problem
    server.setblocking(False)
    return server


def _build_listen_error(address: str, why: str) -> ConfigError:
    message = f"cluster.listen is {address!r}: {why}; write HOST:PORT of this host"
    return ConfigError("tls.unusable", message, field="cluster.listen")
