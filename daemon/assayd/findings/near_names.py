"""Finds what a misspelt name was meant to be: swapped letters are one step, as a wrong one is.

    statr, beside `start` of the function and the builtin setattr      start
    wrods, beside `words`                                              words, and that for certain

Decides by the number of steps first, then by how well a name fits its use and how near it is. Comparing takes
time, so only a few hundred names of each scope are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assayd.guest.near import MOST_CHARS, most_steps, steps_between

_MOST_COMPARED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """The name that is nearest. `certain`: no other is as near, and it is one step away."""

    name: str
    certain: bool


def nearest_name(name: str, circles: Sequence[Iterable[str]], fitting: Iterable[str] = ()) -> Near | None:
    """Return the name that was most likely meant; None when all are too far.

    Args:
        name: what was written.
        circles: the names that there are, the nearest scope first.
        fitting: those that fit the use; they come before others of as many steps.
    """
    if len(name) > MOST_CHARS:
        return None
    most = most_steps(name)
    fits = frozenset(fitting)
    ranked: dict[str, tuple[int, bool, int]] = {}
    for circle, names in enumerate(circles):
        compared = 0
        for other in sorted(names):
            if other in ranked or other == name or abs(len(other) - len(name)) > most:
                continue
            if compared >= _MOST_COMPARED:
                break
            compared += 1
            steps = steps_between(name, other)
            if steps <= most:
                ranked[other] = (steps, bool(fits) and other not in fits, circle)
    if not ranked:
        return None
    best = min(ranked, key=lambda other: (ranked[other], other))
    steps = ranked[best][0]
    rivals = [other for other, (others, _, _) in ranked.items() if others <= steps and other != best]
    certain = steps == 1 and not rivals and len(name) >= 3 and not (fits and best not in fits)
    return Near(name=best, certain=certain)
