"""Caches responses that are the same for every caller, so that frequent requests don't recompute them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")

SHARE = 10
"""A kept answer that can change takes at most a tenth of the event loop's time."""


class AnswerCache:
    """A cache of the last response for each name."""

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
