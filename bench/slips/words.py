"""Puts slips of the hand into bash, SQL and Fifth: a word misspelt, a quote or a bracket taken away."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from bench.slips.python_slips import Slip, swapped

_WORDS = {
    "bash": re.compile(
        r"(?<![\w$./-])(?:awk|grep|sort|head|tail|done|then|echo|printf|while|uniq)(?![\w./=-])"
    ),
    "sql": re.compile(r"\b(?:SELECT|FROM|WHERE|GROUP|ORDER|INSERT|CREATE|VALUES|TABLE)\b", re.IGNORECASE),
    "fifth": re.compile(r"(?<!\S)(?:dup|drop|swap|then|loop|constant|variable|type)(?!\S)"),
}


def word_slips(language: str, text: str, chance: random.Random) -> Iterator[Slip]:
    """Return one slip of each kind that the text has a place for."""
    for _, found in (
        ("keyword", list(_misspelt(language, text))),
        ("quote", list(_taken(text, "'\"", "quote"))),
        ("bracket", list(_taken(text, ")]}", "bracket"))),
    ):
        if found:
            yield chance.choice(found)


def _misspelt(language: str, text: str) -> Iterator[Slip]:
    for place in _WORDS[language].finditer(text):
        line = text.count("\n", 0, place.start()) + 1
        wrong = swapped(place[0])
        if wrong is not None and "#" not in text.split("\n")[line - 1]:
            changed = text[: place.start()] + wrong + text[place.end() :]
            yield Slip(kind="keyword", text=changed, lines=frozenset({line}), remedies=(place[0],))


def _taken(text: str, marks: str, kind: str) -> Iterator[Slip]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.rstrip()[-1:] in marks and line.strip() and sum(line.count(mark) for mark in marks) <= 4:
            lines = text.split("\n")
            lines[number - 1] = line.rstrip()[:-1]
            mark = line.rstrip()[-1]
            yield Slip(
                kind=kind,
                text="\n".join(lines),
                lines=frozenset({number}),
                remedies=(mark, kind, "closed", "Close"),
            )
