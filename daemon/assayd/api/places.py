"""How many connections one server keeps, and how many of them one user may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

OPERATORS_SHARE = 8
"""An eighth of all places is for operators."""


class Places:
    """The places of one server, one per connection or per request whose client has gone.

    Nobody but operators may hold more than are free, so that each further user finds half of the rest,
    however many others hold idle connections.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[Hashable] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """Return how many places are held."""
        return self._total

    def take(self, user: Hashable, *, is_operator: bool = False) -> bool:
        """Take a place, and return whether there was one."""
        kept = 0 if is_operator else self._limit // OPERATORS_SHARE
        free = self._limit - kept - self._total
        if free <= 0 or (not is_operator and self._held[user] > free):
            return False
        self._held[user] += 1
        self._total += 1
        return True

    def give_back(self, user: Hashable) -> None:
        """Give a place back that was taken before."""
        self._total -= 1
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
