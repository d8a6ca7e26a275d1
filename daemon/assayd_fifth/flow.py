r"""Follows strings on the stack through one definition: their origin, their memory and their use.

The module follows cells that are moved, and strings that pass through the string buffers. It doesn't follow
strings through variables, memory or another definition.

    2dup 1 sql-field raw                 forbidden.raw_user_data
    str-reset … badge-info … str$        structure.buffer_conflict
    str$ str-reset … type                structure.transient_string
    s" … WHERE a='x'" sql-exec           structure.sql_quotes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assayd_fifth.effects import EffectSide
from assayd_fifth.language import PROGRAM, FifthWord, Language
from assayd_fifth.rules import FifthRule
from assayd_fifth.tokens import Report, Token

HERE = "here"
"""The place above the dictionary, which strings outside definitions share with numbers."""


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

NONES: tuple[tuple[Cell, ...], ...] = tuple((None,) * count for count in range(32))
"""Tuples of unknown cells, by length."""


class StringFlow:
    """The strings of one definition, or of the code outside definitions."""

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
        """Return the initial cells of a definition, some of which are followed to forbidden words."""
        cells: list[Cell] = []
        for name in taken.names:
            rules = self._language.suspected_rules(name)
            trace = CellTrace(origin=name, token=token, watched=rules) if rules else None
            cells += [trace] * self._language.cells.get_width(name)[0]
        if placed and taken.counted:
            marked = zip(cells, range(len(cells) - 1, -1, -1), strict=True)
            empty = CellTrace(origin="", token=token)
            return [replace(cell or empty, place=place) for cell, place in marked]
        return cells

    def build_literal_cell(self, token: Token) -> Cell:
        """Return the cell for a string literal."""
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
        """Follow strings through one word; return the cells that the word leaves."""
        left: Sequence[Cell] = NONES[word.leaves]
        if any(cells):
            self.check_use(cells, token)
            if word.library != PROGRAM:
                self._check_sinks(token, cells)
                left = self._propagate(word, token, cells)
            elif word.hands:
                self._check_sql([cells[-1 - place] for place in word.hands if place < len(cells)], token)
        if word.brings and word.effect is not None:
            left = self._build_cells_with_quotes(word, token)
        if not word.touches:
            return left
        content = self._use_buffers(word, token, cells)
        if word.library == PROGRAM:
            return left
        if word.gives and word.leaves:
            left = [self._build_returned_string(word, token, content), *left[1:]]
        if word.watched:
            fresh = CellTrace(origin=token.word, token=token, watched=self._find_rules(word.watched))
            left = [_watch(cell, fresh) for cell in left]
        return left

    def _check_sinks(self, token: Token, cells: Sequence[Cell]) -> None:
        """Report strings that reach a forbidden word."""
        for cell in filter(None, cells):
            for rule in cell.watched:
                if token.word in rule.sinks:
                    self._report_once(rule.id, token, word=token.word, source=cell.origin, line=cell.token)
        if token.word in self._language.sql:
            self._check_sql(cells, token)

    def _check_sql(self, cells: Sequence[Cell], token: Token) -> None:
        """Report strings with quotes that are passed to SQL; record parameters that are passed to it."""
        for cell in filter(None, cells):
            if cell.quotes is not None:
                self._report_once("structure.sql_quotes", cell.quotes, word=token.word, line=token)
            if cell.place is not None:
                self.handed.add(cell.place)

    @staticmethod
    def _build_cells_with_quotes(word: FifthWord, token: Token) -> Sequence[Cell]:
        """Return the cells that a word of the program leaves, some of which contain text with quotes."""
        left: list[Cell] = [None] * word.leaves
        for place, quotes in word.brings:
            left[-1 - place] = CellTrace(origin=token.word, token=token, quotes=quotes)
        return left

    def _propagate(self, word: FifthWord, token: Token, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return the cells that a word leaves: unchanged cells, and new cells from watched strings."""
        made: Cell = None
        for cell in filter(None, cells):
            if any(token.word in rule.through for rule in cell.watched):
                made = replace(cell, quotes=None, buffer=None)
        return [cells[place] if place >= 0 else made for place in word.keeps]

    def _find_rules(self, ids: frozenset[str]) -> tuple[FifthRule, ...]:
        return tuple(rule for rule in self._language.rules.flows if rule.id in ids)

    def _use_buffers(self, word: FifthWord, token: Token, cells: Sequence[Cell]) -> Cell:
        """Apply a word to the buffers; return the previous content of the buffer with its result."""
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
        content = _watch(content, cell) if cell is not None else content
    return content


def _watch(cell: Cell, other: CellTrace) -> Cell:
    if cell is None:
        return other
    new = tuple(rule for rule in other.watched if rule not in cell.watched)
    quotes = cell.quotes or other.quotes
    if not cell.watched and new:
        return replace(cell, origin=other.origin, token=other.token, watched=new, quotes=quotes)
    return replace(cell, watched=(*cell.watched, *new), quotes=quotes)
