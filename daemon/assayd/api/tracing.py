"""Reads the trace that a request continues, and adds its id to the request's spans and log lines."""

from __future__ import annotations

import time

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.model.trace_context import TraceContext, parse_headers
from assayd.ports.tracing import TraceOrigin, Tracing, continuing


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
