"""Finds the profile that sets each value of a profile: the profile itself, or an extended profile.

This module applies the rules of `resolve`: the nearest profile determines a limit, and every profile can
add to a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from assayd.model.submission import JsonValue
from assayd.policies.files import Profile

ADDED = (
    "network.hosts",
    "network.ports",
    "imports.allowed",
    "imports.denied",
    "imports.categories",
    "imports.names.",
    "adapter.forbidden",
    "commands.allowed",
    "commands.blocked",
    "commands.builtins",
    "commands.options.",
    "commands.protected",
)
"""Prefixes of values that a profile adds to the inherited ones; it replaces all other values."""
IMPLIED = {
    "imports.categories": "imports.allowed",
    "imports.names": "imports.allowed",
    "network.http": "network.hosts",
}
"""Keys that also add to another value."""
NARROWS = "imports.only"
NARROWED = ("imports.allowed", "imports.categories")
Effective = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """The profile that sets a value, with the location in the profile's file."""

    profile: str
    file: Path
    line: int | None


Origins = Mapping[str, tuple[ValueOrigin, ...]]


def origins(name: str, profiles: Mapping[str, Profile], effective: Callable[[str], Effective]) -> Origins:
    """Return the profiles that set each value, beginning with the nearest; none for built-in values.

    Args:
        name: the profile's name.
        profiles: all profiles.
        effective: returns the values of a profile by dotted name.
    """
    profile = profiles[name]
    own = dict(_find_set_values(profile))
    found: dict[str, tuple[ValueOrigin, ...]] = {}
    for parent in profile.parents:
        theirs, mine = effective(parent), effective(name)
        for field, places in origins(parent, profiles, effective).items():
            same = field.startswith(ADDED) or theirs.get(field) == mine.get(field)
            if same and (field not in NARROWED or NARROWS not in own):
                found[field] = tuple(dict.fromkeys((*found.get(field, ()), *places)))
    for field, place in own.items():
        inherited = found.get(field, ()) if field.startswith(ADDED) else ()
        found[field] = (place, *inherited)
    if NARROWS in own:
        found |= {field: (own[NARROWS], *found.get(field, ())) for field in NARROWED}
        del found[NARROWS]
    return found


def _find_set_values(profile: Profile) -> Iterator[tuple[str, ValueOrigin]]:
    """Yield the values that a file sets, including the values to which it adds indirectly."""
    implied: dict[str, ValueOrigin] = {}
    for key in _leaf_keys(profile.file.values):
        place = ValueOrigin(profile=profile.name, file=profile.file.path, line=profile.file.line(key))
        also = IMPLIED.get(".".join(key[:2]))
        if also is not None:
            implied.setdefault(also, place)
        yield ".".join(key), place
    stated = {".".join(key) for key in _leaf_keys(profile.file.values)}
    yield from ((field, place) for field, place in implied.items() if field not in stated)


def _leaf_keys(values: Mapping[str, object], within: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaf_keys(value, (*within, key))
        elif within or key not in {"description", "extends"}:
            yield (*within, key)
