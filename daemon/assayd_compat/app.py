"""Builds the service: all interfaces at one address, each with separate paths and a separate error format.

This module decides which requests are served, and how many of them at once; the actions of each interface
are in a separate module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assayd_client import AsyncClient, Target
from assayd_client.errors import ClientError
from assayd_compat import fusion, judge0, piston
from assayd_compat.bodies import (
    HELD_BYTES,
    BadRequest,
    ByteReservation,
    RequestByteBudget,
    get_executor,
    get_token,
    json_response,
)
from assayd_compat.executor import ProgramExecutor

AT_ONCE = 64
"""The maximum number of concurrent programs, in addition to the daemon's own limits."""


def build_service(
    daemon: Target = None,
    *,
    at_once: int = AT_ONCE,
    policies: Mapping[str, str] = MappingProxyType({}),
    callers: Sequence[Middleware] = (),
) -> Starlette:
    """Return the service for a daemon or gateway.

    Args:
        daemon: runs the programs.
        at_once: maximum concurrent programs.
        policies: profiles by language name; the other languages use their default profile.
        callers: rejects callers before their requests are read.
    """

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        async with AsyncClient(daemon) as client:
            executor = ProgramExecutor(client, at_once=at_once, policies=policies)
            set_executor(app, executor, room)
            yield
            await executor.close()

    room = RequestByteBudget()
    registry = CollectorRegistry()
    answers = Counter(
        "assayd_compat_requests",
        "Requests answered, by operation and status.",
        ("operation", "status"),
        registry=registry,
    )

    held = Gauge(
        "assayd_compat_held_bytes", "Bytes that requests and waiting programs hold.", registry=registry
    )
    held.set_function(lambda: HELD_BYTES - room.free)
    programs = Gauge("assayd_compat_programs_running", "Running programs.", registry=registry)

    async def metrics(request: Request) -> Response:
        programs.set(request.app.state.executor.running)
        return PlainTextResponse(generate_latest(registry))

    return Starlette(
        routes=[
            Route("/healthz", respond_to_health_check, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            *fusion.ROUTES,
            *piston.ROUTES,
            *judge0.ROUTES,
        ],
        lifespan=running,
        middleware=[
            Middleware(CountResponsesMiddleware, answers=answers),
            Middleware(RejectBrowsersMiddleware),
            *callers,
            Middleware(ReserveBytesMiddleware, room=room),
        ],
        exception_handlers={
            BadRequest: respond_to_invalid_request,
            ClientError: respond_to_unreachable_daemon,
            ClientDisconnect: respond_to_disconnect,
        },
    )


def set_executor(app: Starlette, executor: ProgramExecutor, room: RequestByteBudget) -> None:
    """Set the executor of a service, and create its store of Judge0 submissions."""
    app.state.executor = executor
    app.state.submissions = judge0.SubmissionStore(room)


async def respond_to_health_check(request: Request) -> Response:
    """Respond with status 200 if the daemon responds, or with status 503 if it doesn't."""
    try:
        await get_executor(request).check_daemon()
    except ClientError as problem:
        return PlainTextResponse(problem.message, 503)
    return PlainTextResponse("ok")


async def respond_to_invalid_request(request: Request, problem: Exception) -> Response:
    """Return the error response to an invalid request, in SandboxFusion's format or as ``{"error": …}``."""
    if not isinstance(problem, BadRequest):
        raise problem
    if problem.field == "error":
        return json_response({"error": problem.message}, problem.status)
    detail = [{"loc": ["body", *problem.field.split(".")], "msg": problem.message, "type": "value_error"}]
    return json_response({"detail": detail}, problem.status)


async def respond_to_unreachable_daemon(request: Request, problem: Exception) -> Response:
    """Return the response for a failed request to the daemon.

    The status is 503 if the daemon didn't respond or a retry can succeed, and otherwise 500.
    """
    if not isinstance(problem, ClientError):
        raise problem
    return json_response({"error": problem.message}, 503 if problem.retryable or not problem.status else 500)


async def respond_to_disconnect(request: Request, problem: Exception) -> Response:
    """Return status 499, which by convention is logged if a client has disconnected."""
    return Response(status_code=499)


class RejectBrowsersMiddleware:
    """An ASGI middleware that rejects web pages, which could otherwise run programs as the browser's user.

    Every request from a web page, except a plain `GET`, has an `Origin` header, or a content type that
    browsers send without permission.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it with status 403 or 415 if it is from a web page."""
        refusal = _check_browser_request(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def _check_browser_request(scope: Scope) -> Response | None:
    headers = Headers(scope=scope)
    if "origin" in headers:
        return json_response({"message": "requests of web pages aren't served"}, 403)
    if scope["method"] == "POST" and not headers.get("content-type", "").startswith("application/json"):
        return json_response({"message": "requests must be of type application/json"}, 415)
    return None


class ReserveBytesMiddleware:
    """An ASGI middleware that reserves the bytes of a request until its response ends."""

    def __init__(self, app: ASGIApp, room: RequestByteBudget) -> None:
        self._app = app
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reserve the bytes of a request while the request is forwarded and answered."""
        held = ByteReservation(self._room, get_token(Request(scope)) if scope["type"] == "http" else None)
        scope.setdefault("state", {})["held"] = held
        try:
            await self._app(scope, receive, send)
        finally:
            held.release()


class CountResponsesMiddleware:
    """An ASGI middleware that counts responses by operation and status."""

    def __init__(self, app: ASGIApp, answers: Counter) -> None:
        self._app = app
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, and count its response."""

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                endpoint = scope.get("endpoint")
                name = getattr(endpoint, "__name__", "unknown")
                self._answers.labels(name, message["status"]).inc()
            await send(message)

        await self._app(scope, receive, send_and_count if scope["type"] == "http" else send)
