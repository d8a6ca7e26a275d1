"""Requires a token from callers on other hosts; the gateway validates the token."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd_client.errors import ClientError
from assayd_compat.bodies import get_executor, get_token, json_response

OPEN = frozenset({"/healthz"})
"""Paths without a token, for load balancers."""
GOOD_S = 60.0
"""How long a good token lets new connections stay; the gateway judges each request anyway."""
MOST_GOOD = 1024
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="assayd"'}


class RequireTokenMiddleware:
    """An ASGI middleware that rejects requests without a valid token before it reads their bodies."""

    def __init__(self, app: ASGIApp, *, shown: str) -> None:
        """Create the middleware. `shown` is the key of the callback for valid tokens in the connection."""
        self._app = app
        self._shown = shown
        self._good: OrderedDict[bytes, float] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request with a valid token on, and reject any other."""
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
        """Return the fault of a request's token with its status; empty if the token is valid.

        Raises: ClientError, if the gateway refuses the token or doesn't answer.
        """
        token = get_token(request)
        if token is None:
            return "send the gateway's token, as `Authorization: Bearer …` or `X-Auth-Token`", 401
        digest, now = hashlib.sha256(token.encode()).digest(), time.monotonic()
        if self._good.get(digest, 0.0) < now:
            await get_executor(request).check_daemon()
            self._good[digest] = now + GOOD_S
            self._good.move_to_end(digest)
            if len(self._good) > MOST_GOOD:
                self._good.popitem(last=False)
        if (shown := request.scope.get("state", {}).get(self._shown)) is not None:
            shown(is_operator=False)
        return "", 200
