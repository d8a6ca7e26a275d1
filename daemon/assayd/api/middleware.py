"""Middleware of all requests: ids and counts, throttling, the audit log, and traces.

Users, and the streams sent to them, are throttled while other users also send requests.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from time import perf_counter
from types import coroutine
from typing import Any

import structlog
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assayd.api.peer import NOBODY, Caller
from assayd.audit import AuditLog
from assayd.clock import UlidGenerator
from assayd.fair_queue import UserThrottle
from assayd.log import REQUEST_ID
from assayd.metrics import Metrics, get_labelled_series
from assayd.model.trace_context import TraceContext, parse_headers
from assayd.ports.tracing import TraceOrigin, Tracing, continue_trace

log = structlog.get_logger()

NODES_SHARE = 0.5
"""The share of the event loop's time for each node of a cluster. A node's work is that of all users, but its
token may be stolen.
"""


@dataclass(frozen=True, slots=True)
class _CallerThrottle:
    """A caller, together with the throttle that limits the caller."""

    pace: UserThrottle
    user: Hashable

    def used(self, seconds: float) -> None:
        self.pace.record_use(self.user, seconds)


_CALLER_THROTTLE: ContextVar[_CallerThrottle | None] = ContextVar("share", default=None)


async def charge_time_to_caller(work: Callable[[], Awaitable[None]]) -> None:
    """Await `work`, and charge its event loop time to the request's caller, if there is one.

    Use this for work in a task other than the request's.
    """
    share = _CALLER_THROTTLE.get()
    await (work() if share is None else _time_steps(work(), share.used))


async def wait_while_throttled() -> None:
    """Sleep while the caller of this request is throttled. Call this between two pieces of a stream."""
    share = _CALLER_THROTTLE.get()
    await asyncio.sleep(0)  # a step counts when it ends
    while share is not None and (rest_s := share.pace.get_throttle_delay_s(share.user)):  # noqa: ASYNC110 - no event ends it
        await asyncio.sleep(rest_s)


class ThrottledStream(StreamingResponse):
    """A streaming response that is throttled between its pieces. It is sent in a separate task."""

    async def stream_response(self, send: Send) -> None:
        """Send all pieces, pausing between them while the caller is throttled."""
        self.body_iterator = _iter_throttled_chunks(self.body_iterator)
        await charge_time_to_caller(partial(super().stream_response, send))


async def _iter_throttled_chunks(pieces: AsyncIterable[Any]) -> AsyncIterator[Any]:
    async for piece in pieces:
        yield piece
        await wait_while_throttled()


class ThrottlingMiddleware:
    """ASGI middleware that throttles users who keep the event loop busy.

    Args:
        pace: the limit for users, which applies while other users also send requests; requests of nodes
            don't matter.
        nodes_pace: the limit for nodes, which applies while a user or another node also sends requests.
    """

    def __init__(self, app: ASGIApp, pace: UserThrottle, nodes_pace: UserThrottle | None = None) -> None:
        self._app = app
        self._pace = pace
        self._nodes_pace = nodes_pace or UserThrottle(NODES_SHARE)
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on once its user isn't throttled. Charge its event loop time to the user.

        If the client disconnects while it waits, drop the request.
        """
        caller = scope.get("state", {}).get("caller")
        if scope["type"] != "http" or not isinstance(caller, Caller):
            await self._app(scope, receive, send)
            return
        user: Hashable = caller.token if caller.is_node else caller.peer.uid
        pace = self._nodes_pace if caller.is_node else self._pace
        if user != NOBODY:  # a caller without a token must not slow users down
            self._nodes_pace.note(user)
            pace.note(user)
        await self._wait_for_turn(user, pace)
        if scope["state"].get("has_left", _is_never_disconnected)():
            return  # the client has disconnected: don't start the work
        share = _CallerThrottle(pace, user)
        token = _CALLER_THROTTLE.set(share)
        try:
            await _time_steps(self._app(scope, receive, send), share.used)
        finally:
            _CALLER_THROTTLE.reset(token)

    async def _wait_for_turn(self, user: Hashable, pace: UserThrottle) -> None:
        rest_s = pace.get_throttle_delay_s(user)
        if user not in self._waiting and not rest_s:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if user not in self._waiting:
            self._waiting[user] = deque()
            asyncio.get_running_loop().call_later(rest_s, self._admit_next, user, pace)
        self._waiting[user].append(turn)
        await turn

    def _admit_next(self, user: Hashable, pace: UserThrottle) -> None:
        """Admit the user's next request, unless the user is throttled. Repeat this until no request waits."""
        loop, waiting = asyncio.get_running_loop(), self._waiting[user]
        rest_s = pace.get_throttle_delay_s(user)
        while waiting and not rest_s:
            turn = waiting.popleft()
            if not turn.done():  # otherwise, its task was cancelled
                turn.set_result(None)
                break
        if not waiting:
            del self._waiting[user]
        elif rest_s:
            loop.call_later(rest_s, self._admit_next, user, pace)
        else:
            loop.call_soon(self._admit_next, user, pace)  # after the first step of the admitted request


@coroutine
def _time_steps(work: Awaitable[None], used: Callable[[float], None]) -> Generator[Any, Any, None]:
    """Run an awaitable, and report how long each of its steps kept the event loop busy."""
    steps = work.__await__()
    resume: Callable[[], Any] = partial(steps.send, None)
    while True:
        began = perf_counter()
        try:
            awaited = resume()
        except StopIteration:
            return
        finally:
            used(perf_counter() - began)
        try:
            resume = partial(steps.send, (yield awaited))
        except BaseException as problem:  # noqa: BLE001 - thrown in by the task, a cancellation too: the work's to handle
            resume = partial(steps.throw, problem)


def _is_never_disconnected() -> bool:
    return False


ID_HEADER_NAME = b"x-request-id"
REQUEST_ID_PATTERN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""Matches the request ids that are accepted from clients, so that log lines stay short and readable."""


class RequestIdMiddleware:
    """Middleware that binds a request id while a request is handled: the caller's id, or a new one."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._ids = UlidGenerator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with its id bound. Then count and log its response."""
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
                log.error("request.broken", method=scope["method"], path=_get_route_template(scope))
                raise
            finally:
                took_ms = round((time.monotonic() - began) * 1000, 3)
                self._record_request(scope, answer.status, took_ms)

    def _record_request(self, scope: Scope, status: int, took_ms: float) -> None:
        route, method = _get_route_template(scope), scope["method"]
        known = method if method in _HTTP_METHODS else "other"
        get_labelled_series(self._metrics.requests, known, route, str(status)).inc()
        log.debug("request.answered", method=method, route=route, status=status, took_ms=took_ms)


_HTTP_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class _RequestIdSend:
    """An ASGI `send` that adds the request id as a header and records the status (499: disconnected)."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id.encode()
        self.status = 499

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], (ID_HEADER_NAME, self._request_id)]}
        await self._send(message)


def _read_request_id(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name == ID_HEADER_NAME]
    return given[0].decode() if len(given) == 1 and REQUEST_ID_PATTERN.fullmatch(given[0]) else None


def _get_route_template(scope: Scope) -> str:
    """Return the route's declared path, or ``none`` if no route matches.

    With actual paths, callers could create endless time series.
    """
    return getattr(scope.get("route"), "path", "none")


CHANGING_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
UNAUDITED_ROUTES = (
    "/v1/policies/{name}/check",  # reads
    "/v1/policies/suggest",  # reads; a trial may submit attempts
    "/v1/workflows/check",  # reads
    "/v1/nodes/{name}",  # a node's heartbeat, every few seconds
    "/v1/nodes/{name}/runs",  # and the paths below it, because attempts have their own record
)


class AuditMiddleware:
    """Middleware that records accepted changes in the audit log."""

    def __init__(self, app: ASGIApp, audit: AuditLog) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, and record it if it is an accepted change."""
        if scope["type"] != "http" or scope["method"] not in CHANGING_METHODS:
            await self._app(scope, receive, send)
            return

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < HTTPStatus.BAD_REQUEST:
                self._record_change(scope, message)
            await send(message)

        await self._app(scope, receive, send_and_record)

    def _record_change(self, scope: Scope, started: Message) -> None:
        route = getattr(scope.get("route"), "path", "")
        if not is_audited(route) or scope["state"].get("changes_nothing"):
            return
        located = [value.decode() for name, value in started["headers"] if name.lower() == b"location"]
        self._audit.note(
            f"{scope['method']} {route}",
            actor=describe_actor(scope["state"]["caller"]),
            subject=located[0] if located else scope["path"],
            status=started["status"],
            request_id=structlog.contextvars.get_contextvars().get(REQUEST_ID),
        )


def is_audited(route: str) -> bool:
    """Return whether changes through a route are recorded."""
    return not (route in UNAUDITED_ROUTES or route.startswith("/v1/nodes/{name}/runs/"))


def describe_actor(caller: Caller) -> dict[str, object]:
    """Return the caller's identity: a user and process of this host, or a token and its tenant."""
    if caller.remote:
        return {"tenant": caller.peer.uid, "token": caller.token}
    return {"uid": caller.peer.uid, "pid": caller.peer.pid}


class TraceMiddleware:
    """Middleware that binds the caller's trace and the arrival time of a request while it is handled."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with its arrival time and its caller's trace, if any, bound."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = self._tracing.read_context(_read_context(scope))
        ids = {} if context is None else {"trace_id": context.trace_id}
        with (
            continue_trace(TraceOrigin(context=context, since_s=time.monotonic())),
            structlog.contextvars.bound_contextvars(**ids),
        ):
            await self._app(scope, receive, send)


def _read_context(scope: Scope) -> TraceContext | None:
    return parse_headers(_get_header_values(scope, b"traceparent"), _get_header_values(scope, b"tracestate"))


def _get_header_values(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
