"""Throttles users, and the streams sent to them, while other users also send requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from types import coroutine
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.api.peer import NOBODY, Caller
from assayd.pace import UserThrottle

NODES_SHARE = 0.5
"""Of the time, for each node of a cluster: its work is that of all users, but its token may be stolen."""


@dataclass(frozen=True, slots=True)
class _CallerPace:
    """The caller of a request, together with the pace that limits the caller."""

    pace: UserThrottle
    user: Hashable

    def used(self, seconds: float) -> None:
        self.pace.used(self.user, seconds)


_SHARE: ContextVar[_CallerPace | None] = ContextVar("share", default=None)


async def counted(work: Callable[[], Awaitable[None]]) -> None:
    """Do a part of a request in another task; charge the time of its steps to the caller."""
    share = _SHARE.get()
    await (work() if share is None else _time_steps(work(), share.used))


async def throttle() -> None:
    """Sleep while the caller of this request is throttled; call this between two pieces of a stream."""
    share = _SHARE.get()
    await asyncio.sleep(0)  # a step counts when it ends
    while share is not None and (rest_s := share.pace.rest_s(share.user)):  # noqa: ASYNC110 - no event ends it
        await asyncio.sleep(rest_s)


class PacedStream(StreamingResponse):
    """A streaming response that is throttled between its pieces; it is sent in a separate task."""

    async def stream_response(self, send: Send) -> None:
        """Send all pieces, pausing between them while the caller is throttled."""
        self.body_iterator = _throttled_pieces(self.body_iterator)
        await counted(partial(super().stream_response, send))


async def _throttled_pieces(pieces: AsyncIterable[Any]) -> AsyncIterator[Any]:
    async for piece in pieces:
        yield piece
        await throttle()


class PacingMiddleware:
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
        """Pass the request on once its user isn't throttled; charge its event loop time to the user."""
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
        if scope["state"].get("has_left", _never_left)():
            return  # the client has disconnected: don't start the work
        share = _CallerPace(pace, user)
        token = _SHARE.set(share)
        try:
            await _time_steps(self._app(scope, receive, send), share.used)
        finally:
            _SHARE.reset(token)

    async def _wait_for_turn(self, user: Hashable, pace: UserThrottle) -> None:
        rest_s = pace.rest_s(user)
        if user not in self._waiting and not rest_s:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if user not in self._waiting:
            self._waiting[user] = deque()
            asyncio.get_running_loop().call_later(rest_s, self._admit_next, user, pace)
        self._waiting[user].append(turn)
        await turn

    def _admit_next(self, user: Hashable, pace: UserThrottle) -> None:
        """Admit the user's next request, unless the user is throttled; repeat until none is left."""
        loop, waiting = asyncio.get_running_loop(), self._waiting[user]
        rest_s = pace.rest_s(user)
        while waiting and not rest_s:
            turn = waiting.popleft()
            if not turn.done():  # else its task was cancelled
                turn.set_result(None)
                break
        if not waiting:
            del self._waiting[user]
        elif rest_s:
            loop.call_later(rest_s, self._admit_next, user, pace)
        else:
            loop.call_soon(
                self._admit_next, user, pace
            )  # after the first step of the request that was let in


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


def _never_left() -> bool:
    return False
