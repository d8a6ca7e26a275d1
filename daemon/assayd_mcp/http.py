"""Serves MCP over streamable HTTP on a loopback address. Every request requires a token."""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server

from assayd.errors import RequestError
from assayd_client import AsyncClient, Target
from assayd_client.cli.own_user import SameUserHttpProtocol
from assayd_mcp.daemon import DaemonConnection
from assayd_mcp.server import AgentServer
from assayd_mcp.serving import MESSAGE_BYTES

MOST_CALLS = 64
MIN_TOKEN_CHARS = 32
NEW_TOKEN_BYTES = 32

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def serve_http(daemon: Target, address: str, token_file: Path) -> None:
    """Serve on a loopback address until the process ends.

    Raises: RequestError ``usage``, if the address isn't loopback or if others can read the token file.
    """
    host, port = parse_loopback_address(address)
    token = read_token(token_file)
    client = AsyncClient(daemon)
    server = AgentServer(DaemonConnection(client)).build_server()
    application = TokenGuard(_build_application(server, client), token)
    config = uvicorn.Config(
        application,
        http=SameUserHttpProtocol,
        host=host,
        port=port,
        log_level="warning",
        limit_concurrency=MOST_CALLS,
        ws="none",
    )
    print(f"assay: MCP on http://{_format_host(host)}:{port}/mcp, token in {token_file}", file=sys.stderr)
    uvicorn.Server(config).run()


def parse_loopback_address(text: str) -> tuple[str, int]:
    """Return the host and the port in ``[HOST:]PORT``.

    Raises: RequestError ``usage``, if the host isn't a loopback address or the port is invalid.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        message = f"--http is {text!r}: other machines could connect; use a loopback address"
        raise RequestError("usage", f"{message} (127.0.0.1 or ::1)")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise RequestError("usage", f"--http is {text!r}: write [HOST:]PORT, with a port from 1 to 65535")
    return host, int(port)


def read_token(path: Path) -> str:
    """Return the token in a file, which is created with a new token if it doesn't exist.

    Raises: RequestError ``usage``, if other users can read the file or the token can be guessed.
    """
    try:
        return _create_token(path)
    except FileExistsError:
        pass
    except OSError as error:
        raise RequestError("usage", f"--token-file {path}: {error.strerror}") from error
    try:
        with path.open(encoding="ascii") as file:
            found = os.fstat(file.fileno())
            token = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("usage", f"--token-file {path}: it cannot be read: {error}") from error
    if found.st_uid != os.geteuid():
        raise RequestError("usage", f"--token-file {path}: it belongs to another user; name another file")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise RequestError(
            "usage", f"--token-file {path}: other users can read or write it; chmod 600 {path}"
        )
    if len(token) < MIN_TOKEN_CHARS or not token.isprintable() or " " in token:
        message = f"--token-file {path}: a token has at least {MIN_TOKEN_CHARS} characters and no spaces"
        raise RequestError("usage", f"{message}; delete the file to get a new token")
    return token


def _create_token(path: Path) -> str:
    token = secrets.token_urlsafe(NEW_TOKEN_BYTES)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


class TokenGuard:
    """A middleware that accepts requests with the token, and rejects all others with status 401."""

    def __init__(self, application: Application, token: str) -> None:
        self._application = application
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request that contains the token, or reject it."""
        if scope["type"] == "lifespan" or self._has_token(scope):
            await self._application(scope, receive, send)
            return
        headers = [
            (b"content-type", b"text/plain"),
            (b"www-authenticate", b"Bearer"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"the token is missing or wrong\n"})

    def _has_token(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        return len(given) == 1 and secrets.compare_digest(given[0], self._wanted)


def _build_application(server: Server[Any], client: AsyncClient) -> Application:
    """Return the server as an ASGI application that closes its client when it stops."""
    application = server.streamable_http_app(max_request_body_size=MESSAGE_BYTES)
    inner = application.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        async with client, inner(app) as state:
            yield state

    application.router.lifespan_context = lifespan
    served: Application = application
    return served


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
