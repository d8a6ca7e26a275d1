"""Middleware of all requests: ids and counts, the audit log, and traces."""

from __future__ import annotations

import re
import time
from http import HTTPStatus

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assayd.api.peer import Caller
from assayd.audit import AuditLog
from assayd.ids import UlidGenerator
from assayd.log import REQUEST_ID
from assayd.metrics import Metrics, labelled
from assayd.model.trace_context import TraceContext, parse_headers
from assayd.ports.tracing import TraceOrigin, Tracing, continuing

log = structlog.get_logger()

HEADER = b"x-request-id"
USABLE = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""Ids from outside that are taken over; others would make a line of the log hard to read, or long."""


class RequestIds:
    """Middleware that binds a request id while a request is handled: the caller's id, or a new one."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._ids = UlidGenerator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with its id bound."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _read_request_id(scope) or self._ids.new()
        answer = _RequestIdSend(send, request_id)
        began = time.monotonic()
        with structlog.contextvars.bound_contextvars(**{REQUEST_ID: request_id}):
            try:
                await self._app(scope, receive, answer)
            except Exception:
                answer.status = HTTPStatus.INTERNAL_SERVER_ERROR
                log.error("request.broken", method=scope["method"], path=_route_path(scope))
                raise
            finally:
                took_ms = round((time.monotonic() - began) * 1000, 3)
                self._record_request(scope, answer.status, took_ms)

    def _record_request(self, scope: Scope, status: int, took_ms: float) -> None:
        route, method = _route_path(scope), scope["method"]
        known = method if method in _METHODS else "other"
        labelled(self._metrics.requests, known, route, str(status)).inc()
        log.debug("request.answered", method=method, route=route, status=status, took_ms=took_ms)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class _RequestIdSend:
    """An ASGI `send` that adds the request id as a header and records the status (499: disconnected)."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id.encode()
        self.status = 499

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], (HEADER, self._request_id)]}
        await self._send(message)


def _read_request_id(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name == HEADER]
    return given[0].decode() if len(given) == 1 and USABLE.fullmatch(given[0]) else None


def _route_path(scope: Scope) -> str:
    """Return the route's declared path; with actual paths, callers could create endless time series."""
    return getattr(scope.get("route"), "path", "none")


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


class TracedRequests:
    """Middleware that binds the caller's trace and the arrival time of a request while it is handled."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with its arrival time and its caller's trace bound."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = self._tracing.of_caller(_read_context(scope))
        ids = {} if context is None else {"trace_id": context.trace_id}
        with (
            continuing(TraceOrigin(context=context, since_s=time.monotonic())),
            structlog.contextvars.bound_contextvars(**ids),
        ):
            await self._app(scope, receive, send)


def _read_context(scope: Scope) -> TraceContext | None:
    return parse_headers(_header_values(scope, b"traceparent"), _header_values(scope, b"tracestate"))


def _header_values(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
