"""Assigns batches, repairs, generations and workflows to processes (on a single host, to the daemon)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

ELSEWHERE_S = 1.0
"""The seconds between reads of the records while another process drives the work."""


class WorkKind(StrEnum):
    """A type of work that only one process at a time can drive."""

    BATCH = "batch"
    """A batch: its lines become attempts."""
    REPAIR = "repair"
    """A repair: a failed attempt is tried again with changes."""
    GENERATION = "generation"
    """A generation: a request in words becomes a submission."""
    WORKFLOW = "workflow"
    """A workflow: its nodes become attempts."""


class WorkAssignment(Protocol):
    """The assignment of work to processes."""

    @property
    def alone(self) -> bool:
        """Return whether no other process can drive this work."""
        ...

    async def claim(self, kind: WorkKind, subject: str) -> bool:
        """Return whether this process drives the work. If not, notify the process that drives it."""
        ...

    async def request_cancel(self, kind: WorkKind, subject: str) -> bool:
        """Ask the process that drives the work to end it. Return False if this process drives the work."""
        ...


class SingleProcessAssignment:
    """An implementation of `WorkAssignment` for a single process."""

    alone = True

    async def claim(self, kind: WorkKind, subject: str) -> bool:
        """Return True, because this process drives all work."""
        return True

    async def request_cancel(self, kind: WorkKind, subject: str) -> bool:
        """Return False, because no other process exists."""
        return False


ALONE = SingleProcessAssignment()

IsLeader = Callable[[], bool]
"""Returns whether this process is the leader. Of several processes with one database, only the leader does
work such as cleanup.
"""


def is_always_leader() -> bool:
    """Return True, because no other process exists."""
    return True
