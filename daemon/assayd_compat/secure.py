"""Serves other hosts in front of a gateway, with TLS, connection limits per address, and tokens."""

from __future__ import annotations

import hashlib
import socket
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.api.peer import build_protocol_class
from assayd.errors import ConfigError, RequestError
from assayd_client import Target
from assayd_client.cli.own_user import build_server_config
from assayd_client.errors import ClientError
from assayd_cluster.gate import SHOWN
from assayd_cluster.secure_server import CertificateFiles, TlsServer
from assayd_compat.app import build_service
from assayd_compat.bodies import get_executor, get_token, json_response

OPEN = frozenset({"/healthz"})
"""The paths that need no token, for load balancers."""
TOKEN_CACHE_S = 60.0
"""Seconds for which a valid token lets new connections stay open; the gateway still checks each request."""
MAX_CACHED_TOKENS = 1024
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="assayd"'}


class RequireTokenMiddleware:
    """An ASGI middleware that rejects requests without a valid token before it reads their bodies."""

    def __init__(self, app: ASGIApp, *, shown: str) -> None:
        """Create the middleware. `shown` is the key of the callback for valid tokens in the connection."""
        self._app = app
        self._shown = shown
        self._good: OrderedDict[bytes, float] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request that has a valid token or needs none, and reject any other."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            problem, status = await self._check_token(request)
        except ClientError as error:
            problem, status = error.message, error.status if error.status in {401, 403} else 503
        if not problem:
            await self._app(scope, receive, send)
            return
        refusal = json_response({"message": problem, "error": problem, "detail": problem}, status)
        refusal.headers.update(CHALLENGE if status == 401 else {})
        await refusal(scope, receive, send)

    async def _check_token(self, request: Request) -> tuple[str, int]:
        """Return the fault of a request's token and the HTTP status, or an empty string for a valid token.

        Raises: ClientError, if the gateway refuses the token or doesn't respond.
        """
        token = get_token(request)
        if token is None:
            return "send the gateway's token, as `Authorization: Bearer …` or `X-Auth-Token`", 401
        digest, now = hashlib.sha256(token.encode()).digest(), time.monotonic()
        if self._good.get(digest, 0.0) < now:
            await get_executor(request).check_daemon()
            self._good[digest] = now + TOKEN_CACHE_S
            self._good.move_to_end(digest)
            if len(self._good) > MAX_CACHED_TOKENS:
                self._good.popitem(last=False)
        if (shown := request.scope.get("state", {}).get(self._shown)) is not None:
            shown(is_operator=False)
        return "", 200


CONNECTIONS = 1024
GRACE_S = 10


class CompatTlsServer(TlsServer):
    """A gateway's server that handles signals in the same way as uvicorn's own server."""

    capture_signals = uvicorn.Server.capture_signals


def serve_remote_hosts(
    daemon: Target,
    listener: socket.socket,
    files: tuple[Path, Path],
    *,
    at_once: int,
    policies: Mapping[str, str],
) -> None:
    """Serve other hosts until the program ends. `files` contains the certificate and its key.

    Raises: RequestError ``usage``, if the files can't be used.
    """
    try:
        certificate = CertificateFiles(*files)
    except ConfigError as error:
        raise RequestError("usage", error.message) from error
    config = build_server_config(
        build_service(
            daemon,
            at_once=at_once,
            policies=policies,
            callers=[Middleware(RequireTokenMiddleware, shown=SHOWN)],
        ),
        http=build_protocol_class(None),
        timeout_graceful_shutdown=GRACE_S,
    )
    listener.setblocking(False)
    CompatTlsServer(config, certificate, connections=CONNECTIONS).run(sockets=[listener])
