"""An in-memory daemon's API behind TLS on loopback, for clients with the only accepted token."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from assayd.api import ApiLimits, SocketAccess, create_app
from assayd.api.errors import build_error_response
from assayd.api.peer import Caller
from assayd.errors import RequestError
from assayd.model.submission import Peer
from support.daemons.fake_service import FakeService

TLS = Path(__file__).parents[1] / "tls"
CA_FILE = TLS / "gateway-ca.pem"
TOKEN = "t" * 43
TENANT = 2**32


@dataclass
class TlsGateway:
    """The server's address, and the received requests: paths with their headers."""

    port: int
    service: FakeService
    asked: list[tuple[str, dict[bytes, bytes]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"


@contextmanager
def tls_gateway() -> Iterator[TlsGateway]:
    """Serve while the body runs."""
    service = FakeService()
    app = create_app(service, None, access=SocketAccess(), limits=ApiLimits(heartbeat_s=0.05))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gateway = TlsGateway(port=listener.getsockname()[1], service=service)
        config = uvicorn.Config(
            _Gate(app, gateway),
            lifespan="off",
            log_config=None,
            ssl_certfile=TLS / "gateway.pem",
            ssl_keyfile=str(TLS / "gateway.key"),
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield gateway
        finally:
            server.should_exit = True
            thread.join()


class _Gate:
    def __init__(self, app: Any, gateway: TlsGateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        self._gateway.asked.append((scope["path"], headers))
        if headers.get(b"authorization") != f"Bearer {TOKEN}".encode():
            await build_error_response(RequestError("token.refused", "unknown token"))(scope, receive, send)
            return
        scope["state"]["caller"] = Caller(
            peer=Peer(uid=TENANT, gid=TENANT, pid=0), groups=frozenset(), remote=True
        )
        await self._app(scope, receive, send)
