"""Tracks the state of the stacks during a walk over words, including the joins of branches.

This module reports words that take cells from an empty stack:

    : f ( -- ) swap ;                       vocabulary.wrong_signature, or structure.stack_underflow
"""

from __future__ import annotations

from typing import NamedTuple

from assayd.model.finding import Severity
from assayd_fifth.flow import Cell
from assayd_fifth.language import PROGRAM, FifthWord
from assayd_fifth.tokens import Report, Token

MOST_CELLS = 64
"""Maximum number of cells that are followed over a branch; no readable program has as many."""


class Snapshot(NamedTuple):
    """The state at one position. `borrowed` cells were below the cells that the walk has seen."""

    cells: list[Cell]
    returns: list[Cell]
    borrowed: int
    exact: bool
    alive: bool

    @property
    def height(self) -> int:
        """Return the depth of the stack, relative to the start of the walk."""
        return len(self.cells) - self.borrowed


class EndState(NamedTuple):
    """The compared part of the state at an end of a definition."""

    token: Token
    height: int
    borrowed: int
    exact: bool


class WalkState:
    """The state that a walk changes; it also reports words that don't fit the state.

    At most `allowed` cells can be borrowed; None means any number. `counted` is True if a stack comment
    states the initial number of cells, `exact` if the depth is known, `alive` if this position can be
    reached, `certain` if everything up to this position is certain, and `known` if every word up to this
    position is known, so that no word can compile or take anything that the walk doesn't see.
    """

    __slots__ = (
        "_report",
        "alive",
        "allowed",
        "borrowed",
        "cells",
        "certain",
        "counted",
        "exact",
        "known",
        "macro",
        "returns",
    )

    def __init__(self, report: Report, cells: list[Cell], allowed: int | None, *, counted: bool) -> None:
        self._report = report
        self.cells = cells
        self.returns: list[Cell] = []
        self.allowed = allowed
        self.counted = counted
        self.borrowed = 0
        self.exact = self.alive = self.certain = self.known = True
        self.macro = False
        """Whether the definition compiles code into others, so its own words prove little."""

    @property
    def height(self) -> int:
        """Return the depth of the stack, relative to the start of the walk."""
        return len(self.cells) - self.borrowed

    @property
    def reports_faults(self) -> bool:
        """Return whether a fault at this position should be reported."""
        return self.exact and self.alive

    def take_cells(self, count: int, word: FifthWord, token: Token) -> list[Cell]:
        """Take cells from the stack, and borrow missing cells from below the seen ones."""
        rest = len(self.cells) - count
        if rest < 0:
            if not self._borrow_cells(-rest):
                self._report_underflow(-rest, word, token)
                self.exact = False
            rest = 0
        taken = self.cells[rest:]
        del self.cells[rest:]
        return taken

    def _borrow_cells(self, missing: int) -> bool:
        """Borrow cells from below; return False if there can't be as many."""
        self.cells[:0] = [None] * missing
        if not self.reports_faults:
            return True
        self.borrowed += missing
        return self.allowed is None or self.borrowed <= self.allowed

    def report_fault(self, rule: str, token: Token, *, certain: bool = False, **names: object) -> None:
        """Report a fault at a word, as an error if the fault is certain."""
        if certain:
            names["severity"] = Severity.ERROR
        if not self.macro:
            self._report(rule, token.start, **{"word": token.word, **names})

    def forget_depth(self) -> None:
        """Continue with an unknown number of cells on the stack."""
        self.exact = self.certain = False
        self.cells.clear()

    def snapshot(self) -> Snapshot:
        """Return the current state; end the walk if the stack is too deep."""
        self._limit_depth()
        return Snapshot(
            cells=self.cells[:],
            returns=self.returns[:],
            borrowed=self.borrowed,
            exact=self.exact,
            alive=self.alive,
        )

    def end(self, token: Token) -> EndState:
        """Return the cells that the definition would leave if it ended here."""
        self._limit_depth()
        return EndState(token, len(self.cells) - self.borrowed, self.borrowed, self.exact)

    def restore_state(self, saved: Snapshot) -> None:
        """Replace the state with another one."""
        self.cells[:], self.returns[:] = saved.cells, saved.returns
        self.borrowed, self.exact, self.alive = saved.borrowed, saved.exact, saved.alive

    def join(self, other: Snapshot) -> None:
        """Join the state with another state of the same depth; each cell keeps facts from either state."""
        self.exact = self.exact and other.exact
        self.borrowed = max(self.borrowed, other.borrowed)
        self.cells[:0] = [None] * (len(other.cells) - len(self.cells))
        for place, cell in enumerate(reversed(other.cells), 1):
            if self.cells[-place] is None:
                self.cells[-place] = cell

    def _limit_depth(self) -> None:
        if len(self.cells) + len(self.returns) > MOST_CELLS:
            self.forget_depth()
            self.returns.clear()

    def _report_underflow(self, missing: int, word: FifthWord, token: Token) -> None:
        documented = self.certain and self.counted and word.library != PROGRAM
        there = max(word.takes - missing, 0)
        self.report_fault(
            "vocabulary.wrong_signature" if documented else "structure.stack_underflow",
            token,
            certain=documented or (self.certain and word.certain),
            problem=f"'{token.word}' {word.signature} takes {word.takes}, and the stack has {there}.",
            remedy=_suggest_fix(token.word, missing),
        )


def _suggest_fix(word: str, missing: int) -> str:
    if word in {"constant", "value", "2constant"}:
        return f"Write the value before the word: 10 {word} name"
    if word == "+loop":
        return "Write the step before it, such as 1 +loop, or write loop."
    if word in {"do", "?do"}:
        return f"Write the limit and the start before it: 10 0 {word}"
    items = "one more item" if missing == 1 else f"{missing} more items"
    return f"Push {items} before '{word}' (dup copies the top), or name it in the stack comment."
