"""Limits the cost of responses: a few large ones at a time, and a cache of those that everyone gets.

Users take turns with large responses. Without this limit, a client that requests many large responses and
reads none would make the daemon hold all of them in memory.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import TypeVar, cast

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assayd.fair_queue import FairSemaphore

LARGE_BYTES = 2**20
AT_ONCE = 3
"""One of them is reserved for a user without one."""
_PIECE_BYTES = 256 * 2**10


class LargeResponseSlots:
    """The slots for large responses. `most_s` is the time limit in seconds for sending one response."""

    def __init__(self, *, most_s: float) -> None:
        self.most_s = most_s
        self.slots = FairSemaphore(AT_ONCE, reserve_from=2)
        self.numbers = count()


class LargeResponse(Response):
    """A JSON response that is built at its user's turn and sent in pieces."""

    media_type = "application/json"

    def __init__(
        self,
        answers: LargeResponseSlots,
        uid: int,
        make: Callable[[], Awaitable[bytes]],
        *,
        status: int,
        headers: Mapping[str, str] | None,
    ) -> None:
        super().__init__(status_code=status, headers=headers)
        self._answers = answers
        self._uid = uid
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Build and send the response. Disconnect a client that doesn't read the response in time."""
        answers = self._answers
        async with answers.slots.hold(self._uid, "", str(next(answers.numbers))):
            body = await self._make()
            self.headers["content-length"] = str(len(body))
            async with asyncio.timeout(answers.most_s):
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
                for start in range(0, len(body), _PIECE_BYTES):
                    piece = body[start : start + _PIECE_BYTES]
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})


T = TypeVar("T")

SHARE = 10
"""A kept answer that can change takes at most a tenth of the event loop's time."""


class ResponseCache:
    """A cache of the last response by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, object]] = {}

    def get(self, name: str, make: Callable[[], T], *, changes: bool = True) -> T:
        """Return the cached response, or compute it.

        Args:
            name: the name of the response; from a closed set.
            make: computes the response.
            changes: whether the response can change. If so, it is cached for ten times as long as its
                computation took; otherwise, it is cached indefinitely.
        """
        now = self._clock()
        until, answer = self._kept.get(name, (-math.inf, None))
        if now >= until:
            answer = make()
            done = self._clock()
            self._kept[name] = (done + SHARE * (done - now) if changes else math.inf, answer)
        return cast("T", answer)
