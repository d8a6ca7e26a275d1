"""What a function is given: the arguments of all its calls, so that ``$1`` and ``"$@"`` in it have values.

At the top the arguments are those of ``set -- …``; a step itself is started with none. Who shifts has each of
the arguments that follow as well. A call that cannot be followed makes them unknown.
A value that is not quoted counts as one argument, though it may become several.

    f() { cat "$1"; }; f data/a; f data/b       $1 is data/a or data/b
    set -- encode x; "$1" "$2"                  $1 is encode
    f() { shift; cat "$1"; }; f data/a data/b   $1 is data/a, data/b or nothing
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.words import ANY, VALUES, Argument, Variables, arguments_of, literal

TOP = ""
"""The name of what stands in no function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """What one call gives to a function: words, behind arguments that stand fast already."""

    words: tuple[Node, ...] = ()
    leading: tuple[Argument, ...] = ()

    def arguments(self, known: Variables) -> list[Argument]:
        """Return the arguments that the words become."""
        return [*self.leading, *(one for word in self.words for one in arguments_of(word, known))]


@dataclass(frozen=True, slots=True)
class FunctionExtent:
    """The extent of a function in the source."""

    start: int
    end: int
    name: str


class Parameters:
    """The calls of every function.

    Args:
        scopes: the functions.
        size: where the source ends; what lies behind is in no known scope.
    """

    def __init__(self, scopes: Iterable[FunctionExtent], size: int) -> None:
        self._scopes = sorted(scopes, key=lambda scope: scope.start)
        self._starts = [scope.start for scope in self._scopes]
        self._size = size
        self._sites: defaultdict[str, list[CallSite]] = defaultdict(list)
        self._unknown: set[str] = set()
        self._moved: set[str] = set()
        self._shifts: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def add(self, name: str, site: CallSite) -> None:
        """Note a call of a function, or ``set`` in it."""
        if site not in self._sites[name]:
            self._sites[name].append(site)

    def forget(self, name: str) -> None:
        """Note a call that cannot be followed."""
        self._unknown.add(name)

    def shift(self, name: str, offset: int, count: int | None) -> None:
        """Note that a function shifts at a place; `count` is None where that is not certain."""
        if count is None:
            self._moved.add(name)
        elif (offset, count) not in self._shifts[name]:
            self._shifts[name].append((offset, count))

    def shifted(self, offset: int) -> int:
        """Return how many arguments are gone at a place, where that is certain."""
        return sum(
            count for place, count in self._shifts.get(self.scope_at(offset) or TOP, ()) if place < offset
        )

    def scope_at(self, offset: int) -> str | None:
        """Return the name of the innermost function around a place, TOP, or None behind the source."""
        if offset >= self._size:
            return None
        for place in range(bisect_right(self._starts, offset) - 1, -1, -1):
            if offset < self._scopes[place].end:
                return self._scopes[place].name
        return TOP

    def start_at(self, offset: int) -> int:
        """Return where the innermost function around a place begins; -1 where there is none."""
        around = [scope.start for scope in self._scopes if scope.start <= offset < scope.end]
        return max(around, default=-1)

    def sites_at(self, offset: int) -> list[CallSite] | None:
        """Return the calls of the function around a place; None when one of them cannot be followed.

        A function that shifts has no certain list of arguments.
        """
        name = self.scope_at(offset)
        if name is None or name in self._unknown or name in self._moved:
            return None
        return self._sites.get(name, [])

    def values(self, number: int, offset: int, known: Variables) -> tuple[str, ...]:
        """Return the values that an argument may have at a place."""
        name = self.scope_at(offset)
        if name is None or name in self._unknown or not self._sites.get(name) or number < 1:
            return (ANY,)
        found: dict[str, None] = {}
        number += self.shifted(offset)
        for site in self._sites[name]:
            arguments = site.arguments(known)
            chosen = arguments[number - 1 :] if name in self._moved else arguments[number - 1 : number]
            if any(one.loose or one.unknown or (one.many and len(arguments) == 1) for one in chosen):
                return (ANY,)
            found |= dict.fromkeys(value for one in chosen for value in one.values)
            if name in self._moved or not chosen:
                found[""] = None
        return tuple(found) if len(found) <= VALUES else (ANY,)

    def list_at(self, offset: int, known: Variables) -> tuple[str, ...] | None:
        """Return all arguments at a place in order; None when there is no one list of plain texts."""
        sites = self.sites_at(offset)
        if sites is None or len(sites) != 1:
            return None
        arguments = sites[0].arguments(known)
        if len(arguments) > 4 * VALUES or any(one.loose or len(one.values) > 1 for one in arguments):
            return None
        return tuple(one.values[0] for one in arguments[self.shifted(offset) :])


def set_by(words: Sequence[Node]) -> CallSite | None:
    """Return what ``set`` gives to the function that it stands in; None when it only changes options."""
    index = 0
    while index < len(words):
        text = literal(words[index])
        if text == "--":
            return CallSite(words=tuple(words[index + 1 :]))
        if text is None or not text.startswith(("-", "+")) or text == "-":
            return CallSite(words=tuple(words[index:]))
        index += 2 if text[-1:] == "o" else 1
    return None
