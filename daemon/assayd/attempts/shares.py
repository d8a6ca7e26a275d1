"""Whose part of what is stored has to shrink, and by how much: the largest holder's first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def share(held: Iterable[int], limit: int) -> int:
    """Return the most that each may hold so that all of it fits: the largest are cut to one height."""
    left, level = max(limit, 0), 0
    sizes = sorted(held)
    for index, size in enumerate(sizes):
        level = left // (len(sizes) - index)
        if size > level:
            return level
        left -= size
    return max(sizes, default=level)


def excess(held: Mapping[int, int], limit: int) -> dict[int, int]:
    """Return how much each user holds beyond what lets all of it fit; those within it are left out."""
    level = share(held.values(), limit)
    return {uid: size - level for uid, size in held.items() if size > level}


def excess_for_room(held: Mapping[int, int], needed: int, *, untouched: int) -> dict[int, int]:
    """Return how much each user has to release so that so much more is free.

    Args:
        held: what each user holds.
        needed: how much more has to be free; nothing, if it is not positive.
        untouched: what no user has to release, whatever is needed.
    """
    if needed <= 0:
        return {}
    beyond = {uid: size - untouched for uid, size in held.items() if size > untouched}
    return excess(beyond, sum(beyond.values()) - needed)
