"""Who carries on what takes long: batches, repairs, generations, workflows. Of one daemon: it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

ELSEWHERE_S = 1.0
"""How often a follower of another process's work reads the records."""


class Driven(StrEnum):
    """Work that one process at a time drives."""

    BATCH = "batch"
    """Its lines become attempts."""
    REPAIR = "repair"
    """A failed attempt is tried again with changes."""
    GENERATION = "generation"
    """Words become a submission."""
    WORKFLOW = "workflow"
    """Its nodes become attempts."""


class Driving(Protocol):
    """Which process carries on what."""

    @property
    def alone(self) -> bool:
        """Return whether this is the only process."""
        ...

    async def take(self, kind: Driven, subject: str) -> bool:
        """Return whether this process drives it; otherwise notify the process that does."""
        ...

    async def cancel(self, kind: Driven, subject: str) -> bool:
        """Ask the process that drives it to end it; False if that is this process."""
        ...


class DrivingAlone:
    """Implements `Driving` for a single process."""

    alone = True

    async def take(self, kind: Driven, subject: str) -> bool:
        """Carry it on here."""
        return True

    async def cancel(self, kind: Driven, subject: str) -> bool:
        """Know no other process."""
        return False


ALONE = DrivingAlone()

Leads = Callable[[], bool]
"""Returns whether this process does what one process of several on a database does: the cleaning up, say."""


def leads_alone() -> bool:
    """Return true: no other process exists."""
    return True
