"""Who is answered, and what every answer carries. Nothing of the console is reached past it.

In this order: the address in `Host` is ours (a name that was rebound to loopback is not), a change comes from
one of our own pages, and there is a session, except for the login and the files that it needs.

Who is logged in: a token that can be used once becomes a session that a cookie carries.
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
LASTS_S = 12 * 3600
"""How long a session lasts."""
MOST = 16
"""Sessions at once; the oldest ends for one more."""


class Sessions:
    """Tokens that wait for their one use, and the sessions that came of others. Kept in memory alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._token = ""
        self._ends: dict[str, float] = {}

    def offer(self) -> str:
        """Return a new token; one that was offered before and not used is void."""
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        return self._token

    def redeem(self, token: str) -> str | None:
        """Return a session for the token that was offered, once; None for anything else."""
        if not self._token or not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        self._token = ""
        session = secrets.token_urlsafe(TOKEN_BYTES)
        self._ends = dict([*self._ends.items(), (session, self._clock() + LASTS_S)][-MOST:])
        return session

    def knows(self, session: str) -> bool:
        """Return whether a cookie's session is one of ours and has not ended."""
        wanted = session.encode()
        found = [end for each, end in self._ends.items() if secrets.compare_digest(each.encode(), wanted)]
        return bool(found) and found[0] > self._clock()

    def end(self, session: str) -> None:
        """End a session."""
        self._ends.pop(session, None)


COOKIE = "assay_console"
LOGIN = "/login"
STATIC = "/static/"
KEPT = "private, max-age=86400"
"""For the console's own files: pages name them with the version, so a new version loads new ones."""
READING = frozenset({"GET", "HEAD"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, forms would come from the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class ConsoleGuard:
    """Refuses what is not the one user's own browser on one of our pages.

    Args:
        app: what is guarded.
        sessions: who is logged in.
        hosts: what `Host` may say.
        login: the page for those who are not.
    """

    def __init__(self, app: ASGIApp, *, sessions: Sessions, hosts: frozenset[str], login: ASGIApp) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = hosts
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._refusal(request) or self._app
        kept = KEPT if request.url.path.startswith(STATIC) else "no-store"
        await answer(scope, receive, _with_headers(send, kept))

    def _refusal(self, request: Request) -> ASGIApp | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            shown = ", ".join(sorted(self._hosts))
            return PlainTextResponse(f"the console is at {shown}; this request names another host\n", 421)
        if request.method not in READING:
            if request.method != "POST":
                return PlainTextResponse("only GET and POST\n", 405, headers={"Allow": "GET, HEAD, POST"})
            if request.headers.getlist("origin") != [f"http://{hosts[0]}"]:
                return PlainTextResponse("changes must come from a console page\n", 403)
        if self._sessions.knows(request.cookies.get(COOKIE, "")) or _is_open(request):
            return None
        if "text/html" in request.headers.get("accept", "") and "hx-request" not in request.headers:
            return self._login
        return PlainTextResponse("no session: open a new link of `assay console`\n", 401)


def _is_open(request: Request) -> bool:
    """Return whether a request needs no session."""
    path = request.url.path
    if request.method == "POST":
        return path == LOGIN
    return path.startswith(STATIC)


def _with_headers(send: Send, kept: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", kept)
        await send(message)

    return sending
