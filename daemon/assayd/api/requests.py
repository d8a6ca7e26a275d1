"""Assigns every request an id, used in its response, log lines and attempts' events; counts requests."""

from __future__ import annotations

import re
import time
from http import HTTPStatus

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assayd.ids import UlidGenerator
from assayd.log import REQUEST_ID
from assayd.metrics import Metrics, labelled

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
