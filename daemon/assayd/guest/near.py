"""Calculates the edit distance between names, and finds the nearest of several names for suggestions."""

from __future__ import annotations

from . import builtin_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

builtin_names.isolate_builtins(globals())

MOST_CHARS = 40
_MAX_COMPARED_NAMES = 2000


def compute_edit_distance(one: str, other: str) -> int:
    """Return the number of letters to change, add, remove or swap, or 1 if only letter case differs."""
    if one.lower() == other.lower():
        return 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], before[j - 2] + 1)
        before, last = last, row
    return last[-1]


def _strip_digits(name: str) -> str:
    """Return a name without its digits, since e.g. level_3 isn't a misspelling of level_0."""
    return "".join(letter for letter in name if not letter.isdigit()) if any(map(str.isdigit, name)) else name


def max_edit_distance(name: str) -> int:
    """Return the maximum number of differing letters at which another name is still similar."""
    return 1 if len(name) <= 4 else 2


def find_nearest(name: str, names: Iterable[str]) -> tuple[str, bool] | None:
    """Return the nearest name, and whether only this name is one edit away, or None if no name is near."""
    most, found = max_edit_distance(name), dict[str, int]()
    if len(name) > MOST_CHARS:
        return None
    for number, other in enumerate(names):
        if number >= _MAX_COMPARED_NAMES:
            break
        if (
            other != name
            and abs(len(other) - len(name)) <= most
            and _strip_digits(other) != _strip_digits(name)
        ):
            steps = compute_edit_distance(name, other)
            if steps <= most:
                found[other] = steps
    if not found:
        return None
    best = min(found, key=lambda other: (found[other], other))
    alone = all(steps > found[best] for other, steps in found.items() if other != best)
    return best, alone and found[best] == 1 and len(name) >= 3
