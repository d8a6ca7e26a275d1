"""Serves on TCP: TLS alone, and limits that hold before anybody has shown a token.

A connection is counted by its address before the first byte of its handshake is worked on, and has a few
seconds for that. Behind it stands the daemon's own protocol, with its limits of headers and silence.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import cast

import structlog
import uvicorn

from assayd.api.peer import OTHERS_SHARE
from assayd.errors import ConfigError
from assayd_cluster.gate import counted_address

log = structlog.get_logger()

HANDSHAKE_S = 10.0
LOOK_S = 5.0
"""How often it is looked whether the certificate's files have changed."""
MOST_UNREAD_BYTES = 2**20


class CertificateFiles:
    """The certificate of a listener, taken anew when its files change; TLS 1.2 or newer.

    Raises: ConfigError ``tls.unusable``, for files that cannot be used at the start.
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
            self._load()
        except (OSError, ssl.SSLError) as problem:
            message = f"{certificate} and {key} cannot be used for TLS: {problem}"
            raise ConfigError("tls.unusable", message, field="cluster.certificate_file") from problem

    def refresh(self) -> None:
        """Take changed files; what cannot be used is logged, and the certificate before stays."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        try:
            if self._stamp() != self._seen:
                self._load()
                log.info("certificate.reloaded", file=str(self._files[0]))
        except (OSError, ssl.SSLError) as problem:
            log.error("certificate.reload_failed", file=str(self._files[0]), problem=str(problem))

    def _load(self) -> None:
        seen = self._stamp()
        # A pair that does not fit would be left half taken: tried apart first.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
        self.context.load_cert_chain(*self._files)
        self._seen = seen

    def _stamp(self) -> tuple[object, ...]:
        found = [file.stat() for file in self._files]
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)


class SecureServer(uvicorn.Server):
    """uvicorn behind TLS, without signal handlers of its own."""

    def __init__(self, config: uvicorn.Config, files: CertificateFiles) -> None:
        super().__init__(config)
        self.files = files
        self._open: Counter[str] = Counter()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave signals to the program."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on these sockets."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(lambda: _Securing(self), sock=each) for each in sockets or []
        ]
        self.started = True

    def takes(self, address: str) -> bool:
        """Count a connection; False for one too many, of this address or of all."""
        most = self.config.limit_concurrency or 256
        kept = most // OTHERS_SHARE
        if self._open.total() >= most - kept or self._open[address] >= most - 2 * kept:
            return False
        self._open[address] += 1
        return True

    def gone(self, address: str) -> None:
        """Count a connection no more."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def make_protocol(self) -> asyncio.Protocol:
        """Return what speaks HTTP on a connection that is secured."""
        make = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


class _Securing(asyncio.Protocol):
    """One connection: refused or secured, then passed on to what speaks HTTP."""

    def __init__(self, server: SecureServer) -> None:
        self._server = server
        self._address: str | None = None
        self._http: asyncio.Protocol | None = None
        self._unread: list[bytes] = []
        self._lost = False
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and begin its handshake."""
        plain = cast("asyncio.Transport", transport)
        address = counted_address((plain.get_extra_info("peername") or ("",))[0])
        if not self._server.takes(address):
            plain.abort()
            return
        self._address = address
        self._server.files.refresh()
        loop = asyncio.get_running_loop()
        self._handshake = loop.create_task(self._secure(plain), name="tls-handshake")

    async def _secure(self, plain: asyncio.Transport) -> None:
        secured = None
        try:
            secured = await asyncio.get_running_loop().start_tls(
                plain,
                self,
                self._server.files.context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except (OSError, ssl.SSLError, TimeoutError) as problem:
            log.debug("handshake.failed", address=self._address, problem=str(problem))
        if secured is None or self._lost:
            plain.abort()
            self._forget()
            return
        self._http = self._server.make_protocol()
        self._http.connection_made(secured)
        unread, self._unread = self._unread, []
        for data in unread:
            self._http.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Pass on what came; what comes before the other side is ready waits, and is little."""
        if self._http is not None:
            self._http.data_received(data)
        elif sum(map(len, self._unread)) < MOST_UNREAD_BYTES:
            self._unread.append(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        return self._http.eof_received() if self._http is not None else None

    def pause_writing(self) -> None:
        """Pass on."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on, and count the connection no more."""
        self._lost = True
        if self._http is not None:
            self._http.connection_lost(exc)
        if self._handshake is None or self._handshake.done():
            self._forget()

    def _forget(self) -> None:
        if self._address is not None:
            self._server.gone(self._address)
            self._address = None


def listen_tcp(address: str) -> socket.socket:
    """Return a listening socket for ``HOST:PORT``. Raises: ConfigError ``tls.unusable``."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, int(port)), family=family, backlog=1024)
    except (OSError, ValueError, OverflowError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        message = f"cluster.listen is {address!r}: {why}; write HOST:PORT"
        raise ConfigError("tls.unusable", message, field="cluster.listen") from problem
    server.setblocking(False)
    return server
