"""Finds the known names that are similar to a misspelled name, for "did you mean" suggestions.

This module decides how similar two names must be. Callers decide which names are known, and write the
sentence. For an edit that must be certain, similarity isn't enough; `assayd.findings.python_failures`
counts the wrong letters instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MIN_SIMILARITY = 0.75
"""The minimum similarity of two names, from 0 to 1: one wrong letter of four passes.

With a lower value, the names of existing modules would be treated as misspelled: `copyreg` for `copy`,
`aiohttp` for `http`.
"""
MAX_CHARS = 250
"""Longest name that is compared: the time grows with the square of the length."""


def find_close_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return up to `most` known names that are similar to a name, the most similar first."""
    if len(name) > MAX_CHARS:
        return []
    return get_close_matches(name, known, n=most, cutoff=MIN_SIMILARITY)


def format_did_you_mean_hint(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean …?)`` if a known name is similar, otherwise an empty string."""
    close = find_close_names(name, known)
    return f" (did you mean {close[0]}?)" if close else ""
