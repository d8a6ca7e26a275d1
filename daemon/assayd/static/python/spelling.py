"""Finds the misspelt keyword or the missing comma that makes a text "invalid syntax".

    dfe f(x):          Did you mean 'def'?
    f(a b)             A comma, or an operator, is missing (no edit: it may be f(a, b), f(a.b) or f(a + b))

What is found is tried out on the whole text, and the compiler judges; an edit comes of it where one keyword
only
makes it Python. Decides nothing where the line is something else.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from assayd.findings.source_text import line_at
from assayd.guest.near import steps_between
from assayd.model.finding import Edit
from assayd.static.python.safe_fixes import TRIED_CHARS, edit_between, tree_of

_WORD = re.compile(r"[A-Za-z]+")
_KEYWORDS = tuple(word for word in keyword.kwlist if len(word) > 1)
_GAP = re.compile(r"(?<=[\w'\")\]}])[ \t]+(?=[\w'\"(\[{*-])")
_MOST_PLACES = 40


def spelling(error: SyntaxError, text: str) -> tuple[str, Edit | None] | None:
    """Return what to do about a line that is no Python, and the edit where it is certain."""
    line = line_at(text, error.lineno)
    if line is None or error.lineno is None:
        return None
    most = max(TRIED_CHARS // max(len(text), 1), 4)
    words = list(_respelt(line, error.lineno, text))[:most]
    found = [(word, changed) for word, changed in words if tree_of(changed) is not None]
    if found:
        told = f"Did you mean '{found[0][0]}'?"
        return told, edit_between(text, found[0][1]) if len(found) == 1 else None
    if any(tree_of(changed) is not None for changed in list(_with_comma(line, error.lineno, text))[:most]):
        return "A comma, or an operator, is missing in this line.", None
    if words:
        return f"Did you mean '{words[0][0]}'?", None
    return None


def _respelt(line: str, number: int, text: str) -> Iterator[tuple[str, str]]:
    """Return each keyword that a word of the line is one step from, with the whole text that has it."""
    for place in list(_WORD.finditer(line))[:_MOST_PLACES]:
        if keyword.iskeyword(place[0]):
            continue
        for word in _KEYWORDS:
            if abs(len(word) - len(place[0])) <= 1 and steps_between(place[0], word) == 1:
                yield word, _replaced(text, number, line[: place.start()] + word + line[place.end() :])


def _with_comma(line: str, number: int, text: str) -> Iterator[str]:
    for place in list(_GAP.finditer(line))[:_MOST_PLACES]:
        before = re.search(r"(\w+)$", line[: place.start()])
        after = re.match(r"\w+", line[place.end() :])
        if any(found is not None and keyword.iskeyword(found[0]) for found in (before, after)):
            continue
        yield _replaced(text, number, f"{line[: place.start()]},{line[place.start() :]}")


def _replaced(text: str, number: int, line: str) -> str:
    lines = text.split("\n")
    lines[number - 1] = line
    return "\n".join(lines)
