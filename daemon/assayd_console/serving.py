"""Assembles the console, starts it on a loopback port, and prints a link by which one browser logs in."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import cast

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.errors import AssaydError, RequestError
from assayd_client import AsyncClient, Target
from assayd_client.cli.own_user import SameUserHttpProtocol, build_server_config
from assayd_console.daemon import ConsoleDaemon, DaemonSampler
from assayd_console.guard import COOKIE, SESSION_LIFETIME_S, ConsoleGuard, SessionStore
from assayd_console.pages import attempts, batches, chains, now, reference, submit, trends
from assayd_console.rendering import HERE, enable_cluster_menu, render_page

MAX_LOGIN_TOKEN_CHARS = 256
USED_LINK_MESSAGE = (
    "This link was already used, or is invalid. For a new one, press Enter in the "
    "terminal of `assay console`.\n"
)
STATUS = {"usage": 400, "invalid": 400, "too_large": 413}
"""HTTP status by error code, for errors that the console detects without the daemon."""

PAGES = (attempts, submit, batches, chains, now, reference, trends)

ADDRESS = "127.0.0.1"
CONNECTIONS = 64
SHUTDOWN_WAIT_S = 1
"""Seconds that the shutdown waits for open pages."""


def build_console(
    daemon: ConsoleDaemon,
    sessions: SessionStore,
    hosts: frozenset[str],
    *,
    after_login: Callable[[], None] | None = None,
) -> ASGIApp:
    """Return the console as an ASGI application.

    Args:
        daemon: the client of the daemon.
        sessions: the login sessions.
        hosts: the allowed values of the header `Host`, e.g. ``127.0.0.1:8737``.
        after_login: called at each login.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if await now.has_nodes(daemon):
            enable_cluster_menu()
        yield
        await daemon.close()

    async def log_in(request: Request) -> Response:
        token = b""
        async for piece in request.stream():
            token = (token + piece)[: MAX_LOGIN_TOKEN_CHARS + 1]
        session = sessions.redeem_login_token(token.decode("ascii", "replace"))
        if session is None:
            return PlainTextResponse(
                USED_LINK_MESSAGE,
                403,
            )
        if after_login is not None:
            after_login()
        answer = Response(status_code=204)
        answer.set_cookie(COOKIE, session, max_age=SESSION_LIFETIME_S, httponly=True, samesite="strict")
        return answer

    async def log_out(request: Request) -> Response:
        sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/", status_code=303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    app = Starlette(
        routes=[
            Route("/", _redirect_home),
            Route("/login", log_in, methods=["POST"]),
            Route("/logout", log_out, methods=["POST"]),
            *(route for room in PAGES for route in room.ROUTES),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        exception_handlers={AssaydError: _error_page, HTTPException: _not_found_page},
        lifespan=lifespan,
    )
    app.state.daemon = daemon
    app.state.pulse = DaemonSampler(daemon)
    return ConsoleGuard(app, sessions=sessions, hosts=hosts, login=_login_page)


async def _redirect_home(_: Request) -> Response:
    return RedirectResponse("/now", status_code=303)


async def _login_page(scope: Scope, receive: Receive, send: Send) -> None:
    await render_page("login.html", status=401)(scope, receive, send)


async def _error_page(request: Request, error: Exception) -> Response:
    """Return the error page or, for a request by htmx, the message as plain text."""
    error = cast("AssaydError", error)
    status = getattr(error, "status", 0) or STATUS.get(error.code, 502)
    if "hx-request" in request.headers:
        return PlainTextResponse(error.message, status_code=status)
    return render_page("error.html", status=status, title="Refused", error=error)


async def _not_found_page(_: Request, error: Exception) -> Response:
    error = cast("HTTPException", error)
    return render_page(
        "error.html",
        status=error.status_code,
        title="No such page",
        error={"code": str(error.status_code), "message": error.detail, "field": None},
    )


def serve(daemon: Target, *, port: int, link_file: Path | None) -> None:
    """Serve until the program ends. Raises: RequestError ``usage``, if the port is already in use."""
    sessions = SessionStore()
    with open_listener(port) as listener:
        taken = listener.getsockname()[1]
        links = LoginLinkPublisher(sessions, taken, link_file)
        hosts = frozenset({f"{ADDRESS}:{taken}"})  # Never localhost, because ::1 may belong to another user.
        app = build_console(
            ConsoleDaemon(AsyncClient(daemon)),
            sessions,
            hosts,
            after_login=links.renew_link if link_file else None,
        )
        config = build_server_config(
            app,
            http=SameUserHttpProtocol,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=SHUTDOWN_WAIT_S,
        )
        links.renew_link()
        if link_file is None and sys.stdin.isatty():
            signal.signal(
                signal.SIGTTIN, signal.SIG_IGN
            )  # In the background, reading fails, but must not stop the program.
            threading.Thread(target=links.renew_on_input, daemon=True).start()
        signal.signal(signal.SIGTERM, _exit_on_signal)  # The server re-raises the signal after its shutdown.
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            links.forget()


class LoginLinkPublisher:
    """The login link, which is printed and renewed on Enter, or written to a file and renewed after use."""

    def __init__(self, sessions: SessionStore, port: int, file: Path | None) -> None:
        self._sessions = sessions
        self._port = port
        self._file = file

    def renew_link(self) -> None:
        """Create a new login link, and print it or write it to the file."""
        link = f"http://{ADDRESS}:{self._port}/#{self._sessions.offer()}"
        if self._file is not None:
            _write_link(self._file, link)
        else:
            print(
                f"{link}\nThis link works once. Enter prints a new one, Ctrl+C ends the console.", flush=True
            )

    def renew_on_input(self) -> None:
        """Create a new login link for each line that the user enters."""
        with suppress(OSError):  # The terminal is gone, or the program runs in the background.
            for _ in sys.stdin:
                self.renew_link()

    def forget(self) -> None:
        """Remove the file with the login link, if any, because the link has become invalid."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _exit_on_signal(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)


def open_listener(port: int) -> socket.socket:
    """Return a listening socket, whose early connections wait for the server.

    Raises: RequestError ``usage``, if the port isn't available.
    """
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen(CONNECTIONS)
    except OSError as error:
        listener.close()
        message = f"port {port} of {ADDRESS}: {error.strerror}; choose another with --port, or 0 for any"
        raise RequestError("usage", message) from error
    return listener


def _write_link(file: Path, link: str) -> None:
    """Write the link atomically to a file that only its owner can read.

    Raises: RequestError ``usage``, if the file can't be written.
    """
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(link + "\n")
        fresh.replace(file)
    except OSError as error:
        raise RequestError("usage", f"--link-file {file}: {error.strerror}") from error
