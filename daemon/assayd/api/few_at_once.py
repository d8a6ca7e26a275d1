"""Works on a few requests of one user at a time while others ask for something too.

A user with a hundred clients would otherwise have a hundred requests worked on side by side, each of which
delays everyone else's. Requests that wait for something don't count: each is taken to wait after a moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.api.peer import Caller

AT_ONCE = 4
COUNTED_S = 0.05
"""How long a request counts at most."""
ALONE_S = 1.0
"""A user is alone if no other has asked for anything for so long; it then has no limit."""
MOST_SEEN = 64


class FewAtOnce:
    """An application in front of another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._counted: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}
        self._seen: dict[int, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on when few of its user are being worked on."""
        caller = scope.get("state", {}).get("caller")
        if scope["type"] != "http" or not isinstance(caller, Caller):
            await self._app(scope, receive, send)
            return
        user = caller.peer.uid
        await self._enter(user)
        if scope["state"].get("has_left", _stays)():
            self._leave(user)  # nobody waits for the answer: the work isn't begun
            return
        loop = asyncio.get_running_loop()
        counted = True

        def leave() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._leave(user)

        leaving = loop.call_later(COUNTED_S, leave)
        try:
            await self._app(scope, receive, send)
        finally:
            leaving.cancel()
            leave()

    async def _enter(self, user: int) -> None:
        now = asyncio.get_running_loop().time()
        self._seen.pop(user, None)
        if len(self._seen) >= MOST_SEEN:
            self._seen.pop(next(iter(self._seen)))
        self._seen[user] = now
        if self._counted[user] < AT_ONCE or self._is_alone(user, now):
            self._counted[user] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(user)  # the turn came at the same moment
            raise

    def _is_alone(self, user: int, now: float) -> bool:
        return all(each == user or now - at > ALONE_S for each, at in self._seen.items())

    def _leave(self, user: int) -> None:
        """Count one request less, and let the next one in."""
        self._counted[user] -= 1
        waiting = self._waiting.get(user)
        while waiting and self._counted[user] < AT_ONCE:
            turn = waiting.popleft()
            if not turn.done():
                self._counted[user] += 1
                turn.set_result(None)
        if not waiting:
            self._waiting.pop(user, None)
        if not self._counted[user]:
            del self._counted[user]


def _stays() -> bool:
    return False
