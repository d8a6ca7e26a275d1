"""Reads stack comments: the number of cells that a word takes and leaves, if it can be determined.

Data files define the meaning of names. A comment without a countable number of cells has no effect:

    ( addr u -- flag )      takes 2, leaves 1
    ( title$ -- )           takes 2: a name that ends in $ is a string, address and length
    ( title -- )            takes 1 or 2: the name is unknown
    ( i*x xt -- j*x )       can't be counted
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

_NUMBERED = re.compile(r"['’!]*[0-9]*['’]*\Z")
_CALCULATED = re.compile(r"\w+[*+/-].+|[0-9]+")
_UNCOUNTABLE = re.compile(r"\.{2,}|…|[a-z]\*x\Z|xu\Z")
_SPLIT = re.compile(r"(?<!\S)--(?!\S)")

MOST_CELLS = 31
"""Maximum number of cells on one side of a stack effect."""


class EffectSide(NamedTuple):
    """One side of an effect: the names, and the minimum and maximum number of cells."""

    names: tuple[str, ...] = ()
    least: int = 0
    most: int = 0

    @property
    def counted(self) -> bool:
        """Return whether the exact number of cells is known."""
        return self.least == self.most


class StackEffect(NamedTuple):
    """The cells that a word takes from the stack and leaves on it."""

    takes: EffectSide
    leaves: EffectSide

    @property
    def counted(self) -> bool:
        """Return whether the numbers of cells on both sides are known exactly."""
        return self.takes.counted and self.leaves.counted


@dataclass(frozen=True, slots=True, kw_only=True)
class CellNames:
    """The meanings of names in stack comments. `other_most` applies to names that are in no list."""

    one: frozenset[str]
    two: frozenset[str]
    one_suffixes: tuple[str, ...]
    two_suffixes: tuple[str, ...]
    other_most: int = 2

    def get_width(self, name: str) -> tuple[int, int]:
        """Return the minimum and the maximum number of cells that a name represents."""
        plain = _NUMBERED.sub("", name.lower()) or name
        if plain.endswith(self.two_suffixes) or plain in self.two:
            return 2, 2
        if plain in self.one or plain.endswith(self.one_suffixes) or _CALCULATED.fullmatch(name):
            return 1, 1
        return 1, self.other_most


@cache
def build_unnamed_effect(takes: int, leaves: int) -> StackEffect:
    """Return an effect that has these numbers of cells and no names."""
    return StackEffect(
        takes=EffectSide(least=takes, most=takes), leaves=EffectSide(least=leaves, most=leaves)
    )


def is_stack_comment(comment: str) -> bool:
    """Return whether a comment's text has the form of a stack comment."""
    return _SPLIT.search(comment) is not None


def read_effect(comment: str, cells: CellNames) -> StackEffect | None:
    """Read the text between the parentheses; return None if its cells can't be counted."""
    parts = _SPLIT.split(comment, maxsplit=1)
    if len(parts) != 2:
        return None
    takes, leaves = _read_side(parts[0], cells), _read_side(parts[1], cells)
    if takes is None or leaves is None or max(takes.most, leaves.most) > MOST_CELLS:
        return None
    return StackEffect(takes=takes, leaves=leaves)


def describe_effect(takes: int, leaves: int) -> str:
    """Return an effect as text that contains only the numbers of cells."""
    if max(takes, leaves) > MOST_CELLS:
        return "( … -- … )"
    before = _list_numbered_names("x", 1, takes)
    after = _list_numbered_names("x", takes + 1, leaves)
    return " ".join(["(", *before, "--", *after, ")"])


def _read_side(text: str, cells: CellNames) -> EffectSide | None:
    """Read one side of an effect; alternatives (``addr u | 0``) extend the range of the number of cells."""
    alternatives = [_build_side(part.split(), cells) for part in text.split("|")]
    read = [side for side in alternatives if side is not None]
    if len(read) < len(alternatives):
        return None
    return EffectSide(
        names=read[0].names, least=min(side.least for side in read), most=max(side.most for side in read)
    )


def _build_side(names: Sequence[str], cells: CellNames) -> EffectSide | None:
    kept: list[str] = []
    least = most = 0
    for name in names:
        if name.upper() in {"R:", "F:", "C:", "S:"}:  # the names after this belong to another stack
            break
        if name[0] in "\"'<" and name[-1] in "\"'>":  # taken from the source text, not from the stack
            continue
        if _UNCOUNTABLE.search(name):
            return None
        low, high = cells.get_width(name)
        least, most = least + low, most + high
        kept.append(name)
    return EffectSide(names=tuple(kept), least=least, most=most)


def _list_numbered_names(letter: str, first: int, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(first, first + count)]
