"""Follows the stacks through a program, and the strings on them through one definition.

For a string, this module tracks its origin, its memory and its use. It follows cells that are moved, and
strings that pass through the string buffers. It doesn't follow strings through variables, memory or another
definition.

    2dup 1 sql-field raw                 forbidden.raw_user_data
    str-reset … badge-info … str$        structure.buffer_conflict
    str$ str-reset … type                structure.transient_string
    s" … WHERE a='x'" sql-exec           structure.sql_quotes

For the stacks, it tracks their state during a walk over words, including the joins of branches. It reports
words that take cells from an empty stack:

    : f ( -- ) swap ;                       vocabulary.wrong_signature, or structure.stack_underflow
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from assayd.model.finding import Severity
from assayd_fifth.language import PROGRAM, EffectSide, FifthWord, Language
from assayd_fifth.rules import FifthRule
from assayd_fifth.tokens import Report, Token

HERE = "here"
"""The memory above the dictionary, which strings outside definitions share with numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTrace:
    """The known facts about a cell: its watching rule, whether its text has quotes, and its location.

    `origin` is the word or the parameter that produced the cell.
    """

    origin: str
    token: Token
    watched: tuple[FifthRule, ...] = ()
    quotes: Token | None = None
    buffer: str | None = None
    turn: int = 0
    place: int | None = None
    """Number of the parameter, counted from the top."""


Cell = CellTrace | None

UNKNOWN_CELLS: tuple[tuple[Cell, ...], ...] = tuple((None,) * count for count in range(32))
"""Tuples of unknown cells, by length."""


class StringFlow:
    """A tracker of the strings in one definition, or in the code outside definitions."""

    def __init__(self, language: Language, report: Report, *, outside: bool) -> None:
        self.handed: set[int] = set()
        """Parameters that reach SQL, by number."""
        self.overwritten: set[str] = set()
        self.given: set[str] = set()
        self._language = language
        self._report = report
        self._outside = outside
        self._turns: dict[str, int] = {}
        """Number of times that each buffer was overwritten."""
        self._opened: dict[str, Token] = {}
        self._content: dict[str, Cell] = {}
        self._told: set[tuple[str, int]] = set()

    def parameters(self, taken: EffectSide, token: Token, *, placed: bool) -> list[Cell]:
        """Return the cells of a definition's parameters, with traces for suspected external data.

        With `placed`, every cell has a trace with the parameter's number, if the number of cells is known.
        """
        cells: list[Cell] = []
        for name in taken.names:
            rules = self._language.find_suspected_rules(name)
            trace = CellTrace(origin=name, token=token, watched=rules) if rules else None
            cells += [trace] * self._language.cells.get_width(name)[0]
        if placed and taken.counted:
            marked = zip(cells, range(len(cells) - 1, -1, -1), strict=True)
            empty = CellTrace(origin="", token=token)
            return [replace(cell or empty, place=place) for cell, place in marked]
        return cells

    def build_literal_cell(self, token: Token) -> Cell:
        """Return the trace of a string literal, or None if nothing about the string must be tracked."""
        quotes = token if "'" in token.text else None
        if not self._outside:
            return CellTrace(origin=token.word, token=token, quotes=quotes) if quotes else None
        self._mark_overwritten(HERE)
        return CellTrace(
            origin=token.word, token=token, quotes=quotes, buffer=HERE, turn=self._get_buffer_generation(HERE)
        )

    def check_use(self, cells: Sequence[Cell], token: Token) -> None:
        """Check the cells that a word uses: a string is lost if its memory has been overwritten."""
        for cell in cells:
            if (
                cell is not None
                and cell.buffer is not None
                and cell.turn != self._get_buffer_generation(cell.buffer)
            ):
                self._report_overwritten(cell, token)

    def apply_word(self, word: FifthWord, token: Token, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Follow strings through one word, and return the cells that the word leaves."""
        left: Sequence[Cell] = UNKNOWN_CELLS[word.leaves]
        if any(cells):
            self.check_use(cells, token)
            if word.library != PROGRAM:
                self._check_sinks(token, cells)
                left = self._propagate_strings(word, token, cells)
            elif word.hands:
                self._check_sql([cells[-1 - place] for place in word.hands if place < len(cells)], token)
        if word.brings and word.effect is not None:
            left = self._build_cells_with_quotes(word, token)
        if not word.touches:
            return left
        content = self._apply_to_buffers(word, token, cells)
        if word.library == PROGRAM:
            return left
        if word.gives and word.leaves:
            left = [self._build_returned_string(word, token, content), *left[1:]]
        if word.watched:
            fresh = CellTrace(origin=token.word, token=token, watched=self._find_rules(word.watched))
            left = [_merge_watched_rules(cell, fresh) for cell in left]
        return left

    def _check_sinks(self, token: Token, cells: Sequence[Cell]) -> None:
        """Report watched strings that reach a forbidden word, and check strings that reach SQL."""
        for cell in filter(None, cells):
            for rule in cell.watched:
                if token.word in rule.sinks:
                    self._report_once(rule.id, token, word=token.word, source=cell.origin, line=cell.token)
        if token.word in self._language.sql:
            self._check_sql(cells, token)

    def _check_sql(self, cells: Sequence[Cell], token: Token) -> None:
        """Report strings with quotes that are passed to SQL, and record the parameters passed to SQL."""
        for cell in filter(None, cells):
            if cell.quotes is not None:
                self._report_once("structure.sql_quotes", cell.quotes, word=token.word, line=token)
            if cell.place is not None:
                self.handed.add(cell.place)

    @staticmethod
    def _build_cells_with_quotes(word: FifthWord, token: Token) -> Sequence[Cell]:
        """Return the cells that a word of the program leaves, with traces for text with quotes."""
        left: list[Cell] = [None] * word.leaves
        for place, quotes in word.brings:
            left[-1 - place] = CellTrace(origin=token.word, token=token, quotes=quotes)
        return left

    def _propagate_strings(self, word: FifthWord, token: Token, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return the cells that a word leaves: unchanged cells, and new cells from watched strings."""
        made: Cell = None
        for cell in filter(None, cells):
            if any(token.word in rule.through for rule in cell.watched):
                made = replace(cell, quotes=None, buffer=None)
        return [cells[place] if place >= 0 else made for place in word.keeps]

    def _find_rules(self, ids: frozenset[str]) -> tuple[FifthRule, ...]:
        return tuple(rule for rule in self._language.rules.flows if rule.id in ids)

    def _apply_to_buffers(self, word: FifthWord, token: Token, cells: Sequence[Cell]) -> Cell:
        """Apply a word to the buffers, and return the content of the buffer that its result is in."""
        content: Cell = None
        for name in word.opens:
            self._report_conflict(name, token)
            self._mark_overwritten(name)
            self._opened[name] = token
            self._content[name] = None
        for name in word.adds:
            self._content[name] = _merge_content(self._content.get(name), cells)
        for name in word.overwrites:
            self._check_overwritten(name, word, token, cells)
            self._report_conflict(name, token)
            self._mark_overwritten(name)
        for name in word.gives:
            content = None if name in word.overwrites else self._content.get(name)
            self._opened.pop(name, None)
            self.given.add(name)
        return content

    def _build_returned_string(self, word: FifthWord, token: Token, inside: Cell) -> Cell:
        name = word.gives[0]
        fresh = CellTrace(origin=token.word, token=token, buffer=name, turn=self._get_buffer_generation(name))
        if inside is None:
            return fresh
        return replace(fresh, watched=inside.watched, quotes=inside.quotes)

    def _report_conflict(self, name: str, token: Token) -> None:
        opened = self._opened.pop(name, None)
        if opened is not None:
            called = self._language.buffers[name]
            self._report_once("structure.buffer_conflict", token, word=token.word, buffer=called, line=opened)

    def _check_overwritten(self, name: str, word: FifthWord, token: Token, cells: Sequence[Cell]) -> None:
        """Report a string that a library word overwrites before the word reads it."""
        if name == HERE or word.library == PROGRAM:
            return
        for cell in filter(None, cells):
            if cell.buffer == name:
                self._report_overwritten(cell, token)

    def _report_overwritten(self, cell: CellTrace, token: Token) -> None:
        # Outside definitions, every string can be overwritten; one finding is enough.
        key = -1 if cell.buffer == HERE and self._outside else token.start
        names = {
            "source": cell.origin,
            "line": cell.token,
            "buffer": self._language.buffers[cell.buffer or HERE],
        }
        self._report_once("structure.transient_string", token, key=key, word=token.word, **names)

    def _report_once(self, rule: str, token: Token, key: int | None = None, **names: object) -> None:
        place = (rule, token.start if key is None else key)
        if place not in self._told:
            self._told.add(place)
            self._report(rule, token.start, **names)

    def _mark_overwritten(self, name: str) -> None:
        self._turns[name] = self._turns.get(name, 0) + 1
        self.overwritten.add(name)

    def _get_buffer_generation(self, name: str) -> int:
        return self._turns.get(name, 0)


def _merge_content(content: Cell, cells: Sequence[Cell]) -> Cell:
    """Combine the facts about a buffer's text with the facts about an appended string."""
    for cell in cells:
        content = _merge_watched_rules(content, cell) if cell is not None else content
    return content


def _merge_watched_rules(cell: Cell, other: CellTrace) -> Cell:
    if cell is None:
        return other
    new = tuple(rule for rule in other.watched if rule not in cell.watched)
    quotes = cell.quotes or other.quotes
    if not cell.watched and new:
        return replace(cell, origin=other.origin, token=other.token, watched=new, quotes=quotes)
    return replace(cell, watched=(*cell.watched, *new), quotes=quotes)


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
    """The height, borrowed cells and exactness of the state at an end of a definition."""

    token: Token
    height: int
    borrowed: int
    exact: bool


class WalkState:
    """The state of the stacks during a walk, which reports words that don't fit the state.

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
        """Whether the definition compiles code into other definitions. Faults in it aren't reported then."""

    @property
    def height(self) -> int:
        """Return the depth of the stack, relative to the start of the walk."""
        return len(self.cells) - self.borrowed

    @property
    def reports_faults(self) -> bool:
        """Return whether faults here are reported: the depth is known and the position reachable."""
        return self.exact and self.alive

    def pop_cells(self, count: int, word: FifthWord, token: Token) -> list[Cell]:
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
        """Borrow cells from below the known ones. Return False if `allowed` cells aren't enough."""
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
        """Return the current state, with an unknown depth if the stack is too deep."""
        self._limit_depth()
        return Snapshot(
            cells=self.cells[:],
            returns=self.returns[:],
            borrowed=self.borrowed,
            exact=self.exact,
            alive=self.alive,
        )

    def end(self, token: Token) -> EndState:
        """Return the state that the definition would have if it ended here."""
        self._limit_depth()
        return EndState(token, len(self.cells) - self.borrowed, self.borrowed, self.exact)

    def restore_state(self, saved: Snapshot) -> None:
        """Replace the current state with a saved state."""
        self.cells[:], self.returns[:] = saved.cells, saved.returns
        self.borrowed, self.exact, self.alive = saved.borrowed, saved.exact, saved.alive

    def join(self, other: Snapshot) -> None:
        """Join the state with another state of the same depth. Each cell keeps facts from either state."""
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
