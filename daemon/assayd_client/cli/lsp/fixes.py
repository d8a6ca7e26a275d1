"""Quick fixes: what an edit does, in words, and where it goes after the text has changed. Pure.

An edit belongs to the text that was validated. After a change of that text it is offered as long as the lines
that it replaces are the same; an insertion, as long as the lines on both sides of it are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lsprotocol import types

from assayd_client.cli.terminal import shorten

TITLE_CHARS = 60
"""Of code in a title."""


class Moved:
    """Where lines of a text are in a later one: those before the first change, and those after the last."""

    def __init__(self, before: str, now: str) -> None:
        old, new = before.split("\n"), now.split("\n")
        most = min(len(old), len(new))
        self._old = len(old)
        self._same = before == now
        self._head = _alike(old, new, most)
        self._tail = _alike(old[::-1], new[::-1], most - self._head)
        self._shift = len(new) - len(old)

    def edit(self, edit: Any) -> Any | None:
        """Return an edit of whole lines at its place in the later text; None if that is not certain."""
        first, after = edit.range.start.line, edit.range.end.line
        inserts = first == after
        if self._same or after + inserts <= self._head:
            return edit
        if first - inserts < self._old - self._tail:
            return None
        return types.TextEdit(range=lines(first + self._shift, after + self._shift), new_text=edit.new_text)

    def line(self, number: int) -> int:
        """Return where a line is; one that was changed stays where it was."""
        return number + self._shift if number >= self._old - self._tail else number


def lines(first: int, after: int) -> Any:
    """Return the range from the beginning of a line to that of another."""
    return types.Range(start=types.Position(first, 0), end=types.Position(after, 0))


def title(edits: Sequence[Any], now: str) -> str:
    """Say what edits of a text do, as far as one line can."""
    if len(edits) > 1:
        return f"Change {len(edits)} places"
    (edit,) = edits
    first, after = edit.range.start.line, edit.range.end.line
    old, new = now.split("\n")[first:after], edit.new_text.removesuffix("\n").split("\n")
    if not edit.new_text:
        return f"Remove {_named(first, after)}"
    if not old:
        what = _code(new[0]) if len(new) == 1 else f"{len(new)} lines"
        return f"Insert {what} before line {first + 1}"
    if len(old) == len(new) == 1:
        return _change(old[0], new[0], first + 1)
    return f"Replace {_named(first, after)}"


def _change(old: str, new: str, number: int) -> str:
    """Say what becomes of one line: what is added or removed in it, or all that it becomes."""
    head = _alike(old, new, min(len(old), len(new)))
    tail = _alike(old[::-1], new[::-1], min(len(old), len(new)) - head)
    added, removed = new[head : len(new) - tail], old[head : len(old) - tail]
    at_end = (
        f" at the end of line {number}" if not old[head + len(removed) :].strip() else f" in line {number}"
    )
    if added.strip() and not removed:
        return f"Add {_code(added)}{at_end}"
    if removed.strip() and not added:
        return f"Remove {_code(removed)}{at_end}"
    return f"Change line {number} to {_code(new)}"


def _named(first: int, after: int) -> str:
    return f"line {first + 1}" if after == first + 1 else f"lines {first + 1} to {after}"


def _code(text: str) -> str:
    return f"'{shorten(text, TITLE_CHARS)}'"


def _alike(one: Sequence[str], other: Sequence[str], most: int) -> int:
    """Return with how many same elements both begin."""
    return next((place for place in range(most) if one[place] != other[place]), most)
