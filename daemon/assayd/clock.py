"""Time and ids: interfaces, which are injected so that tests can control them, and their implementations."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """Return the current time (UTC, timezone-aware)."""
        ...

    def monotonic(self) -> float:
        """Return the time of a monotonic clock, in seconds."""
        ...


class IdSource(Protocol):
    """A source of new ids."""

    def new(self) -> str:
        """Return a new ULID (26 characters, Crockford base32), increasing within a process."""
        ...


_CROCKFORD_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGIT_PAIRS = tuple(first + second for first in _CROCKFORD_ALPHABET for second in _CROCKFORD_ALPHABET)
_RANDOM_BITS = 80


class SystemClock:
    """A clock that reads the system time."""

    def now(self) -> datetime:
        """Return the current time as a timezone-aware `datetime` in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the time of a monotonic clock, in seconds."""
        return time.monotonic()


class UlidGenerator:
    """A generator of ULIDs that always increase within this process, even within one millisecond.

    Source: the ULID specification. An id has 48 bits of milliseconds and 80 bits of randomness, in
    Crockford base32.
    """

    def __init__(self) -> None:
        self._last = 0

    def new(self) -> str:
        """Return a new ULID, which is greater than all earlier ULIDs of this generator."""
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | int.from_bytes(os.urandom(10), "big")
        self._last = max(fresh, self._last + 1)
        return encode_crockford(self._last)


def encode_crockford(value: int) -> str:
    """Return a 128-bit number as 26 characters in Crockford base32."""
    return "".join([_DIGIT_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)])
