"""Limits each user's share of the event loop's time while other users make requests.

Otherwise, a user with a hundred clients could keep the event loop busy all the time and delay every step of
other users' attempts. After using the event loop, a user must wait in proportion to the time used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter

ALONE_S = 1.0
"""A user is alone if no other has asked for anything for so long; it then needs no rest."""
SHARE = 0.2
"""Of the time, for each user who isn't alone: enough for 70 submissions per second."""
MOST_REST_S = 1.0
"""The longest rest, however much was used."""
LOOK_S = 0.1
"""How often a user who rests is looked at again: the others may have gone."""
MOST_SEEN = 64


class UserThrottle:
    """A throttle that records, for the last `MOST_SEEN` users, the last request and the end of the wait.

    Args:
        share: the share of the time that a user can use while other users make requests.
        clock: returns the time in seconds.
    """

    def __init__(self, share: float = SHARE, clock: Callable[[], float] = perf_counter) -> None:
        self._rest_per_s = 1 / share - 1
        self._seen: dict[Hashable, float] = {}
        self._rests_until: dict[Hashable, float] = {}
        self._clock = clock

    def note(self, user: Hashable) -> None:
        """Record a user's request, so that other users are throttled."""
        self._seen.pop(user, None)
        if len(self._seen) >= MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[user] = self._clock()

    def is_only_user(self, user: Hashable) -> bool:
        """Return whether no other user has made a request for `ALONE_S`."""
        now = self._clock()
        return all(each == user or now - at > ALONE_S for each, at in self._seen.items())

    def used(self, user: Hashable, seconds: float) -> None:
        """Record the time that a user has used; the user must then wait if other users are active."""
        if self.is_only_user(user):
            return
        now = self._clock()
        rests_until = max(self._rests_until.pop(user, 0), now) + seconds * self._rest_per_s
        if len(self._rests_until) >= MOST_SEEN:
            del self._rests_until[next(iter(self._rests_until))]
        self._rests_until[user] = min(rests_until, now + MOST_REST_S)

    def rest_s(self, user: Hashable) -> float:
        """Return the seconds until a throttled user is checked again, or 0 if the user needn't wait."""
        left_s = self._rests_until.get(user, 0) - self._clock()
        return 0 if left_s <= 0 or self.is_only_user(user) else min(left_s, LOOK_S)
