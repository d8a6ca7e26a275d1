"""How much of the event loop one user may keep busy while others ask for something too.

A user with a hundred clients would otherwise keep the loop busy all the time, and each of the many steps of
everybody else's attempts would wait for its turn. What a user has used is paid back with a rest.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

ALONE_S = 1.0
"""A user is alone if no other has asked for anything for so long; it then needs no rest."""
SHARE = 0.2
"""Of the time, for each user who isn't alone: enough for 70 submissions per second."""
MOST_SEEN = 64


class Pace:
    """When each of the last `MOST_SEEN` users asked last, and until when each rests.

    Args:
        share: part of the time that a user may use while others ask for something too.
        clock: time in seconds.
    """

    def __init__(self, share: float = SHARE, clock: Callable[[], float] = perf_counter) -> None:
        self._rest_per_s = 1 / share - 1
        self._seen: dict[int, float] = {}
        self._rests_until: dict[int, float] = {}
        self._clock = clock

    def note(self, user: int) -> None:
        """Note that a user asks for something."""
        self._seen.pop(user, None)
        if len(self._seen) >= MOST_SEEN:
            self._rests_until.pop(oldest := next(iter(self._seen)), None)
            del self._seen[oldest]
        self._seen[user] = self._clock()

    def used(self, user: int, seconds: float) -> None:
        """Have a user rest for the time that it used."""
        if user in self._seen:
            rests_until = max(self._rests_until.get(user, 0), self._clock())
            self._rests_until[user] = rests_until + seconds * self._rest_per_s

    def rest_s(self, user: int) -> float:
        """Return how long a user still has to rest, in seconds; 0 for one who is alone."""
        now = self._clock()
        left_s = self._rests_until.get(user, 0) - now
        if left_s <= 0 or all(each == user or now - at > ALONE_S for each, at in self._seen.items()):
            return 0
        return left_s
