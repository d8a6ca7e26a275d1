"""Defines the interfaces to time and ids, which are injected so that tests can control them."""

from __future__ import annotations

from datetime import datetime
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
