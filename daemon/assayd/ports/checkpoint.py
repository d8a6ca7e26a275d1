"""Named moments in an attempt's life, for who must be there: tests that end the daemon at each of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Step(StrEnum):
    """A moment at which everything before it has taken effect and nothing after it has."""

    ACCEPTED = "accepted"
    """The submission is durable."""
    CHECKED = "checked"
    """The static stages have ended."""
    LEASED = "leased"
    """A container was handed out; nobody knows for which attempt."""
    JOURNALLED = "journalled"
    """It is on record which attempt has which container."""
    RAN = "ran"
    """The units have ended; the container still exists."""
    JUDGED = "judged"
    """The result was judged."""
    BUNDLED = "bundled"
    """The bundle is durable."""
    RECORDED = "recorded"
    """The verdict is durable."""


class Checkpoint(Protocol):
    """Called at each step."""

    def __call__(self, step: Step) -> None:
        """Note that a step was reached."""
        ...


def unobserved(step: Step) -> None:
    """Note nothing; what production uses."""
