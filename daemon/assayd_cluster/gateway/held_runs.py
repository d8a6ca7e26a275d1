"""Caches the runs that nodes have claimed at this gateway, so that recording a verdict needs no lookup.

The cache makes no decisions: the transaction that records a verdict checks that the run still belongs to
the node.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from assayd.model.attempt import Attempt

KEPT = 1024
MAX_BYTES = 16 * 2**10
"""Maximum size of a cached submission; larger ones are read from the database again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """A run that a node holds, with its attempt and submission. `leased_at` is in microseconds.

    `finished` is True if the verdict of another run is recorded or another run is in progress.
    """

    number: int
    node: str
    leased_at: int
    attempt: Attempt
    document: bytes
    finished: bool = False

    @property
    def attempt_id(self) -> str:
        """Return the id of the attempt to which the run belongs."""
        return self.attempt.id


class HeldRunCache:
    """A cache of the latest claims by attempt, without the oldest entries."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, HeldRun] = OrderedDict()

    def add(self, held: HeldRun) -> None:
        """Add a run that a node has just claimed."""
        self.forget(held.attempt_id)
        if len(held.document) <= MAX_BYTES:
            self._held[held.attempt_id] = held
            if len(self._held) > KEPT:
                self._held.popitem(last=False)

    def find(self, node: str, attempt_id: str, number: int) -> HeldRun | None:
        """Return the run that a node has claimed, or None if the run isn't in the cache."""
        held = self._held.get(attempt_id)
        return held if held is not None and (held.node, held.number) == (node, number) else None

    def forget(self, attempt_id: str | None) -> None:
        """Remove the run of an attempt that has ended from the cache, or all runs if the id is None."""
        if attempt_id is None:
            self._held.clear()
        else:
            self._held.pop(attempt_id, None)
