"""The stacks as a walk over words sees them, at one place and where branches meet."""

from __future__ import annotations

from typing import NamedTuple

from assayd.checks.fifth.flow import Cell

MOST_CELLS = 64
"""How many cells are followed over a branch; no program that a person can read has as many."""


class Snapshot(NamedTuple):
    """The state at one place. `borrowed` cells were taken from below what the walk has seen."""

    cells: list[Cell]
    returns: list[Cell]
    borrowed: int
    exact: bool
    alive: bool

    @property
    def height(self) -> int:
        """Give the depth, relative to where the walk began."""
        return len(self.cells) - self.borrowed


class State:
    """The state that a walk changes.

    `allowed` cells may be borrowed; None for any number. `exact` is whether the depth is known, `alive`
    whether this place is ever reached, `certain` whether everything up to here is beyond doubt.
    """

    __slots__ = ("alive", "allowed", "borrowed", "cells", "certain", "exact", "returns")

    def __init__(self, cells: list[Cell], allowed: int | None) -> None:
        self.cells = cells
        self.returns: list[Cell] = []
        self.allowed = allowed
        self.borrowed = 0
        self.exact = self.alive = self.certain = True

    @property
    def height(self) -> int:
        """Give the depth, relative to where the walk began."""
        return len(self.cells) - self.borrowed

    @property
    def judged(self) -> bool:
        """Tell whether something wrong here is worth telling."""
        return self.exact and self.alive

    def borrow(self, missing: int) -> bool:
        """Take cells from below; False when there cannot be so many."""
        self.cells[:0] = [None] * missing
        if not self.judged:
            return True
        self.borrowed += missing
        return self.allowed is None or self.borrowed <= self.allowed

    def pop(self, count: int) -> list[Cell]:
        """Take cells that are there."""
        rest = len(self.cells) - count
        taken = self.cells[rest:]
        del self.cells[rest:]
        return taken

    def lose(self) -> None:
        """Go on without knowing what is on the stack."""
        self.exact = self.certain = False
        self.cells.clear()

    def snapshot(self) -> Snapshot:
        """Give the state here; one that is too deep is not followed further."""
        if len(self.cells) + len(self.returns) > MOST_CELLS:
            self.lose()
            self.returns.clear()
        return Snapshot(
            cells=self.cells[:],
            returns=self.returns[:],
            borrowed=self.borrowed,
            exact=self.exact,
            alive=self.alive,
        )

    def restore(self, saved: Snapshot) -> None:
        """Go on from another state."""
        self.cells, self.returns = saved.cells[:], saved.returns[:]
        self.borrowed, self.exact, self.alive = saved.borrowed, saved.exact, saved.alive

    def join(self, other: Snapshot) -> None:
        """Join the state with one of the same depth; of each cell, what either knows is kept."""
        self.exact = self.exact and other.exact
        self.borrowed = max(self.borrowed, other.borrowed)
        self.cells[:0] = [None] * (len(other.cells) - len(self.cells))
        for place, cell in enumerate(reversed(other.cells), 1):
            if self.cells[-place] is None:
                self.cells[-place] = cell
