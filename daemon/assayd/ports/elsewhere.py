"""Attempts that another process of the same service carries out; a single daemon has none."""

from __future__ import annotations

from typing import Protocol

from assayd.model.attempt import Attempt


class Elsewhere(Protocol):
    """What others carry out, asked here."""

    async def attend(self, attempt: Attempt) -> None:
        """Have the events of an unfinished attempt shown here too, from its beginning."""
        ...

    async def ended(self, attempt_id: str, timeout_s: float) -> None:
        """Wait for the verdict of an attempt, no longer than a time."""
        ...

    async def cancel(self, attempt_id: str) -> bool:
        """Have an attempt ended; False when it has a verdict, or there is none of that id."""
        ...
