"""Which modules a text may import: those whose names stand in it. Cheaper than parsing it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NO_WORD = re.compile(r"\W+")


def mentioned(modules: Iterable[str], text: str) -> tuple[str, ...]:
    """Return those of some modules whose dotted names have all their parts among the words of a text."""
    words = frozenset(_NO_WORD.split(text))
    return tuple(module for module in modules if words.issuperset(module.split(".")))
