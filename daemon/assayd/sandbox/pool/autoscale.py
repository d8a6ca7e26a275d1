"""Measures the demand for each key, and derives the target number of idle containers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from assayd.sandbox.pool.decide import PoolKey, target

MEMORY_S = 30.0
"""Seconds after which a rate has decayed to about a third."""

FORGET_S = 120.0
"""Seconds without a lease after which a key has no rate."""

USED_S = 3600.0
"""Seconds without a lease after which a warm key counts as unused."""

TYPICAL_REFILL_S = 0.3

FRESH_S = 0.1
"""Seconds for which targets are cached: far less than the time in which a rate changes."""


@dataclass(slots=True)
class _DecayingRate:
    """An exponentially decaying count of events: `weight / MEMORY_S` is the rate per second."""

    weight: float = 0.0
    at: float = 0.0

    def add(self, now: float) -> None:
        self.weight = self.weight * math.exp((self.at - now) / MEMORY_S) + 1.0
        self.at = now

    def per_s(self, now: float) -> float:
        return self.weight * math.exp((self.at - now) / MEMORY_S) / MEMORY_S


class PoolDemand:
    """The target numbers of idle containers: a base number for warm keys, and more for high demand.

    A warm key without recent leases has its `unused` target instead of its `base`, because a daemon
    supports more keys than a single user needs. The targets of other keys depend only on the rates of
    leases. Because requests can create an unlimited number of such keys, they are removed soon.
    """

    def __init__(self, *, base: int, unused: int, most: int) -> None:
        self._base = base
        self._unused = min(unused, base)
        self._most = most
        self._kept: frozenset[PoolKey] = frozenset()
        self._asked_at: dict[PoolKey, float] = {}
        self._rates: dict[PoolKey, _DecayingRate] = {}
        self._refill_s: dict[PoolKey, float] = {}
        self._targets: Mapping[PoolKey, int] = {}
        self._made_at = -math.inf

    def keep(self, keys: frozenset[PoolKey]) -> None:
        """Set the warm keys, which have a base target even without demand."""
        self._made_at = -math.inf
        self._kept = keys
        self._asked_at = {key: at for key, at in self._asked_at.items() if key in keys}

    def asked(self, key: PoolKey, now: float) -> None:
        """Record a lease of a container with this key."""
        if key not in self._targets:
            self._made_at = -math.inf
        if key in self._kept:
            self._asked_at[key] = now
        self._rates.setdefault(key, _DecayingRate()).add(now)

    def record_creation(self, key: PoolKey, took_s: float) -> None:
        """Record the duration of a container's creation in seconds."""
        before = self._refill_s.get(key, took_s)
        self._refill_s[key] = before + (took_s - before) / 4

    def targets(self, now: float) -> Mapping[PoolKey, int]:
        """Return the target number of idle containers per key, which is cached briefly."""
        if not 0 <= now - self._made_at < FRESH_S:
            self._targets, self._made_at = self._compute_targets(now), now
        return self._targets

    def _compute_targets(self, now: float) -> Mapping[PoolKey, int]:
        for key in [k for k, rate in self._rates.items() if now - rate.at > FORGET_S]:
            del self._rates[key]
        known = {*self._kept, *self._rates}
        for key in [k for k in self._refill_s if k not in known]:
            del self._refill_s[key]
        return {key: self._compute_target(key, now) for key in known}

    def refill_s(self) -> Mapping[PoolKey, float]:
        """Return the recent duration of creations in seconds, by key."""
        return dict(self._refill_s)

    def _compute_target(self, key: PoolKey, now: float) -> int:
        rate = self._rates[key].per_s(now) if key in self._rates else 0.0
        refill_s = self._refill_s.get(key, TYPICAL_REFILL_S)
        return target(self._minimum_idle(key, now), rate_per_s=rate, refill_s=refill_s, most=self._most)

    def _minimum_idle(self, key: PoolKey, now: float) -> int:
        """Return the number of idle containers to keep regardless of the rate."""
        if key not in self._kept:
            return 0
        asked_at = self._asked_at.get(key)
        return self._unused if asked_at is None or now - asked_at > USED_S else self._base
