"""Controls access to the console and sets response headers. Every request passes through the guard.

The guard checks, in this order, that `Host` is the console's address (to reject DNS names rebound to
loopback addresses), that a change is requested by one of the console's own pages, and that a session
exists, except for the login page and its files.

A login exchanges a one-time token for a session, whose id is stored in a cookie.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_BYTES = 32
SESSION_LIFETIME_S = 12 * 3600
"""Seconds until a session ends."""
MOST = 16
"""Maximum sessions; the oldest ends when another begins."""


class SessionStore:
    """The unused login token and the sessions, which are stored only in memory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._token = ""
        self._ends: dict[str, float] = {}

    def offer(self) -> str:
        """Return a new login token, which invalidates an earlier unused token."""
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        return self._token

    def redeem_login_token(self, token: str) -> str | None:
        """Return the id of a new session for the current one-time login token, or None for another token."""
        if not self._token or not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        self._token = ""
        session = secrets.token_urlsafe(TOKEN_BYTES)
        self._ends = dict([*self._ends.items(), (session, self._clock() + SESSION_LIFETIME_S)][-MOST:])
        return session

    def is_valid(self, session: str) -> bool:
        """Return whether a cookie contains the id of a session that hasn't expired."""
        wanted = session.encode()
        found = [end for each, end in self._ends.items() if secrets.compare_digest(each.encode(), wanted)]
        return bool(found) and found[0] > self._clock()

    def end(self, session: str) -> None:
        """End a session if it exists."""
        self._ends.pop(session, None)


COOKIE = "assay_console"
LOGIN = "/login"
STATIC = "/static/"
KEPT = "private, max-age=86400"
"""Caching of the console's own files: pages request them by version, so a new version loads new files."""
READING = frozenset({"GET", "HEAD"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # With no-referrer, forms would have the origin "null".
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class ConsoleGuard:
    """An ASGI middleware that accepts requests only from the user's browser and the console's pages.

    Args:
        app: the guarded application.
        sessions: the login sessions.
        hosts: the allowed values of the header `Host`.
        login: the page for requests without a session.
    """

    def __init__(
        self, app: ASGIApp, *, sessions: SessionStore, hosts: frozenset[str], login: ASGIApp
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = hosts
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward an accepted request; answer others with an error or the login page.

        Security headers are added to all responses.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._reject_or_none(request) or self._app
        kept = KEPT if request.url.path.startswith(STATIC) else "no-store"
        await answer(scope, receive, _add_security_headers(send, kept))

    def _reject_or_none(self, request: Request) -> ASGIApp | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            shown = ", ".join(sorted(self._hosts))
            return PlainTextResponse(f"the console is at {shown}; this request names another host\n", 421)
        if request.method not in READING:
            if request.method != "POST":
                return PlainTextResponse("only GET and POST\n", 405, headers={"Allow": "GET, HEAD, POST"})
            if request.headers.getlist("origin") != [f"http://{hosts[0]}"]:
                return PlainTextResponse("changes must come from a console page\n", 403)
        if self._sessions.is_valid(request.cookies.get(COOKIE, "")) or _needs_no_session(request):
            return None
        if "text/html" in request.headers.get("accept", "") and "hx-request" not in request.headers:
            return self._login
        return PlainTextResponse("no session: open a new link of `assay console`\n", 401)


def _needs_no_session(request: Request) -> bool:
    """Return whether a request is for the login or a static file, which need no session."""
    path = request.url.path
    if request.method == "POST":
        return path == LOGIN
    return path.startswith(STATIC)


def _add_security_headers(send: Send, kept: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", kept)
        await send(message)

    return send_with_headers
