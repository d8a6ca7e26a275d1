"""Records requests that changed something in the audit log, with caller, operation and object."""

from __future__ import annotations

from http import HTTPStatus

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assayd.api.peer import Caller
from assayd.audit import AuditLog
from assayd.log import REQUEST_ID

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
UNAUDITED = (
    "/v1/policies/{name}/check",  # reads
    "/v1/policies/suggest",  # reads; a trial may submit attempts
    "/v1/workflows/check",  # reads
    "/v1/nodes/{name}",  # a node's beat, every few seconds
    "/v1/nodes/{name}/runs",  # and the paths below it: the attempt's own record has them
)


class AuditMiddleware:
    """Middleware that records accepted changes in the audit log."""

    def __init__(self, app: ASGIApp, audit: AuditLog) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, and record it if it is an accepted change."""
        if scope["type"] != "http" or scope["method"] not in CHANGING:
            await self._app(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < HTTPStatus.BAD_REQUEST:
                self._record_change(scope, message)
            await send(message)

        await self._app(scope, receive, noting)

    def _record_change(self, scope: Scope, started: Message) -> None:
        route = getattr(scope.get("route"), "path", "")
        if not is_audited(route) or scope["state"].get("changes_nothing"):
            return
        located = [value.decode() for name, value in started["headers"] if name.lower() == b"location"]
        self._audit.note(
            f"{scope['method']} {route}",
            actor=actor_of(scope["state"]["caller"]),
            subject=located[0] if located else scope["path"],
            status=started["status"],
            request_id=structlog.contextvars.get_contextvars().get(REQUEST_ID),
        )


def is_audited(route: str) -> bool:
    """Return whether changes through a route are recorded."""
    return not (route in UNAUDITED or route.startswith("/v1/nodes/{name}/runs/"))


def actor_of(caller: Caller) -> dict[str, object]:
    """Return the caller's identity: a user and process of this host, or a token and its tenant."""
    if caller.remote:
        return {"tenant": caller.peer.uid, "token": caller.token}
    return {"uid": caller.peer.uid, "pid": caller.peer.pid}
