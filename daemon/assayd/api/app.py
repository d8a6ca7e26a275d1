"""Builds the application: routes, error handlers, the access check for peers, and the servers' settings.

A second server, closed by default, shows only metrics, for a collector that can't open a Unix socket. Callers
can't be identified on its loopback port, so attempts aren't accessible through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd import __version__
from assayd.api import batches as batch_routes
from assayd.api import discovery, policy_review, routes
from assayd.api import library as library_routes
from assayd.api.answers import build_api_reference, set_operation_ids
from assayd.api.bounded_http import ConnectionSlots
from assayd.api.call import ApiLimits, LargeResponseSlots, ResponseCache, build_raw_json_response
from assayd.api.errors import install_error_handlers
from assayd.api.middleware import AuditMiddleware, RequestIdMiddleware, ThrottlingMiddleware, TraceMiddleware
from assayd.api.peer import AccessControlMiddleware, SocketAccess, build_protocol_class
from assayd.attempts.policy_trial import PolicyTrialRunner
from assayd.audit import AuditLog
from assayd.batches.batches import DaemonBatches
from assayd.byte_budget import ByteBudget
from assayd.documents import serialize_compact
from assayd.metrics import CONTENT_TYPE, Metrics
from assayd.ports.service import Chains, NullChains, NullWorkflows, Service, Workflows
from assayd.ports.tracing import NO_TRACING, Tracing
from assayd.store.library import DatabaseLibrary

_DEFAULT_LIMITS = ApiLimits()

DEFAULT_BUDGET_BYTES = 128 * 2**20
KEEP_ALIVE_S = 75
SHUTDOWN_GRACE_S = 5
"""The seconds that a response can take to reach a slow client after the server has been stopped."""


class Api(FastAPI):
    """A FastAPI application whose OpenAPI document also describes bodies read by the routes themselves."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, which is built at the first call."""
        if self.openapi_schema is None:
            self.openapi_schema = build_api_reference(self, self.state.service.kinds)
        return self.openapi_schema


_OWN = (
    routes,
    batch_routes,
    library_routes,
    policy_review,
    discovery,
)


def create_app(  # noqa: PLR0913  (each is a separate part)
    service: Service,
    batches: DaemonBatches,
    *,
    chains: Chains | None = None,
    workflows: Workflows | None = None,
    library: DatabaseLibrary | None = None,
    access: SocketAccess,
    limits: ApiLimits = _DEFAULT_LIMITS,
    metrics: Metrics | None = None,
    routers: Sequence[APIRouter] = (),
    budget: ByteBudget | None = None,
    trials: PolicyTrialRunner | None = None,
    audit: AuditLog | None = None,
    tracing: Tracing = NO_TRACING,
) -> FastAPI:
    """Create the application of a daemon. `routers` are its kinds' routes, `audit` records changes."""
    app = Api(
        title="assayd",
        version=__version__,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # a separate route, which keeps the text
        redirect_slashes=False,
        # Its spans would contain URLs, and its log the text of exceptions.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.service = service
    app.state.batches = batches
    app.state.chains = chains or NullChains()
    app.state.workflows = workflows or NullWorkflows()
    app.state.library = library
    app.state.trials = trials
    app.state.access = access
    app.state.limits = limits
    app.state.budget = budget or ByteBudget(DEFAULT_BUDGET_BYTES)
    app.state.kept = ResponseCache()
    app.state.audit = audit
    app.state.large = LargeResponseSlots(most_s=limits.body_s)
    app.state.examining = False
    app.state.examined = None
    # Not included as a router: that rebuilds all its routes at the first request, which takes 0.1 s.
    for router in (*(module.router for module in _OWN), *routers):
        app.router.routes.extend(router.routes)
    set_operation_ids(app.router.routes)
    app.add_route("/openapi.json", _build_openapi_response, include_in_schema=False)
    install_error_handlers(app)
    _add_middleware(app, metrics or Metrics(), tracing)
    return app


def _add_middleware(app: Api, metrics: Metrics, tracing: Tracing) -> None:
    """Add the middleware from the innermost to the outermost layer."""
    if app.state.audit is not None:
        app.add_middleware(AuditMiddleware, audit=app.state.audit)
    app.add_middleware(ThrottlingMiddleware, pace=app.state.budget.pace)
    app.add_middleware(AccessControlMiddleware, access=app.state.access)
    app.add_middleware(RequestIdMiddleware, metrics=metrics)
    if tracing.is_on:
        app.add_middleware(TraceMiddleware, tracing=tracing)


async def _build_openapi_response(request: Request) -> Response:
    app: Api = request.app
    # In a thread the first time: half a second of processor time.
    text = await asyncio.to_thread(
        app.state.kept.get, "reference", lambda: serialize_compact(app.openapi()), changes=False
    )
    return build_raw_json_response(text)


def build_server_config(
    app: ASGIApp,
    access: SocketAccess,
    *,
    places: ConnectionSlots | None = None,
    silence_s: float = 30.0,
    refused: Callable[[], None] | None = None,
) -> uvicorn.Config:
    """Return the uvicorn configuration. The daemon, not uvicorn, binds the socket and handles signals.

    `places` limits the number of connections (default: 256); `refused` is called for each refused
    connection.
    """
    return uvicorn.Config(
        app,
        http=build_protocol_class(
            places or ConnectionSlots(256), access=access, silence_s=silence_s, refused=refused
        ),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )


MAX_METRICS_CONNECTIONS = 16
METRICS_GRACE_S = 1


def build_loopback_app(metrics: Callable[[], bytes]) -> ASGIApp:
    """Return an ASGI application that serves `/metrics` and `/healthz`.

    It responds with status 404 to other paths.
    """
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
            ConnectionSlots(MAX_METRICS_CONNECTIONS)
        ),  # for its limits; over TCP, it knows no caller
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=METRICS_GRACE_S,
    )
