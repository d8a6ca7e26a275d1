"""Assembles the console from the pages behind the guard, the login page, and the error pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.errors import AssaydError
from assayd_console.daemon import ConsoleDaemon, DaemonSampler
from assayd_console.guard import COOKIE, LASTS_S, ConsoleGuard, SessionStore
from assayd_console.pages import attempts, batches, chains, now, reference, submit, trends
from assayd_console.rendering import HERE, enable_cluster_menu, render_page

TOKEN_CHARS = 256
USED_LINK = (
    "This link was already used, or is invalid. For a new one, press Enter in the "
    "terminal of `assay console`.\n"
)
STATUS = {"usage": 400, "invalid": 400, "too_large": 413}
"""Statuses of errors that are found without asking the daemon."""

PAGES = (attempts, submit, batches, chains, now, reference, trends)


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
            token = (token + piece)[: TOKEN_CHARS + 1]
        session = sessions.redeem_login_token(token.decode("ascii", "replace"))
        if session is None:
            return PlainTextResponse(
                USED_LINK,
                403,
            )
        if after_login is not None:
            after_login()
        answer = Response(status_code=204)
        answer.set_cookie(COOKIE, session, max_age=LASTS_S, httponly=True, samesite="strict")
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
