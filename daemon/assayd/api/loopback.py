"""Metrics for a collector that can't open a Unix socket: two paths on a loopback port.

Callers can't be identified on this port, so attempts aren't accessible through it. The port is closed by
default.
"""

from __future__ import annotations

from collections.abc import Callable

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.api.bounded_http import ConnectionSlots
from assayd.api.peer import build_protocol_class
from assayd.api.responses import ResponseCache
from assayd.metrics import CONTENT_TYPE

CONNECTIONS = 16
KEEP_ALIVE_S = 75
GRACE_S = 1


def build_loopback_app(metrics: Callable[[], bytes]) -> ASGIApp:
    """Return an ASGI application that serves `/metrics` and `/healthz`."""
    kept = ResponseCache()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _handle_request(Request(scope), lambda: kept.get("metrics", metrics))(scope, receive, send)

    return app


def _handle_request(request: Request, metrics: Callable[[], bytes]) -> Response:
    if request.method not in {"GET", "HEAD"}:
        return PlainTextResponse("only GET\n", status_code=405, headers={"Allow": "GET, HEAD"})
    if request.url.path == "/metrics":
        return Response(metrics(), media_type=CONTENT_TYPE)
    if request.url.path == "/healthz":
        return PlainTextResponse("ok\n")
    return PlainTextResponse("this address serves only /metrics and /healthz\n", status_code=404)


def build_loopback_config(metrics: Callable[[], bytes]) -> uvicorn.Config:
    """Return the uvicorn configuration of the loopback server."""
    return uvicorn.Config(
        build_loopback_app(metrics),
        http=build_protocol_class(
            ConnectionSlots(CONNECTIONS)
        ),  # for its limits; over TCP, it knows no caller
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
