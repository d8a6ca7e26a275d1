"""Time and identity, injected so that tests decide both."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time."""

    def now(self) -> datetime:
        """Return the wall-clock time, UTC and aware."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


class Ids(Protocol):
    """Where new identities come from."""

    def new(self) -> str:
        """Return a fresh ULID (26 characters, Crockford base32), increasing within a process."""
        ...
