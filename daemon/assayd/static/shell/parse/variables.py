"""Every place where a script gives a variable a value, and what values are known by that.

The order of execution is not followed: a variable has all the values that are assigned to it anywhere. What
is read, computed or passed in is unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.words import (
    ANY,
    NUMBER,
    VALUES,
    Argument,
    arguments_of,
    is_known,
    literal,
    values_of,
)
from assayd.static.shell.rules.parameters import TOP, CallSite, Parameters


class How(StrEnum):
    """In which way a variable is set."""

    PLAIN = "plain"
    """``x=1`` as a command of its own."""
    PREFIX = "prefix"
    """``x=1 command``: for that command only."""
    DECLARED = "declared"
    """By export, declare, local, readonly or typeset."""
    LOOP = "loop"
    """By for or select."""
    ARITHMETIC = "arithmetic"
    """By an arithmetic expression."""
    EXPANSION = "expansion"
    """By ``${x:=1}``."""
    DESCRIPTOR = "descriptor"
    """By ``{x}>file``."""
    BUILTIN = "builtin"
    """By read, mapfile, printf -v, getopts, unset and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One place where a variable is set; `value` is None where that is not a word."""

    name: str
    how: How
    node: Node
    value: Node | None = None
    array: Node | None = None
    append: bool = False
    indexed: bool = False
    command: Node | None = None


ENVIRONMENT = {"HOME": "/sandbox", "PWD": "/sandbox", "TMPDIR": "/sandbox/tmp"}
"""What a step finds in its environment, of what leads somewhere."""


class Known:
    """What is known of the variables of a script; see `words.Variables`."""

    def __init__(self, settings: Sequence[Setting], parameters: Parameters | None = None) -> None:
        self._settings: defaultdict[str, list[Setting]] = defaultdict(list)
        for setting in settings:
            if setting.how is not How.PREFIX:
                self._settings[setting.name].append(setting)
        self._parameters = parameters or Parameters((), 0)
        self._values: dict[str, tuple[str, ...]] = {}
        self._given: dict[tuple[int, str | None], tuple[str, ...]] = {}
        self._elements: dict[str, tuple[str, ...] | None] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        self._splitters: frozenset[str] | None = None

    def values(self, name: str) -> tuple[str, ...]:
        """Return all values that a variable may have."""
        if name not in self._values:
            self._values[name] = (ANY,)  # for one that is defined by itself
            self._values[name] = self._find_values(name)
        return self._values[name]

    def elements(self, name: str) -> tuple[str, ...] | None:
        """Return the elements of an array in order, or None."""
        if name not in self._elements:
            self._elements[name] = None
            self._elements[name] = self._find_elements(name)
        return self._elements[name]

    def members(self, name: str) -> tuple[str, ...]:
        """Return all values that any element of an array may have."""
        if name not in self._members:
            self._members[name] = (ANY,)
            self._members[name] = self._find_members(name)
        return self._members[name]

    def _find_members(self, name: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for setting in self._settings.get(name, ()):
            values = self._element_values(setting)
            if values is None:
                return (ANY,)
            found |= dict.fromkeys(values)
        return tuple(found) if 0 < len(found) <= VALUES else (ANY,)

    def parameter(self, number: int, offset: int) -> tuple[str, ...]:
        """Return all values that ``$1``, ``$2`` … may have at a place."""
        key = (number + self._parameters.shifted(offset), self._parameters.scope_at(offset))
        if key not in self._given:
            self._given[key] = (ANY,)  # for one that is handed on by the function itself
            self._given[key] = self._parameters.values(number, offset, self)
        return self._given[key]

    def parameters(self, offset: int) -> tuple[str, ...] | None:
        """Return what ``"$@"`` comes to at a place, or None."""
        key = (-self._parameters.shifted(offset), self._parameters.scope_at(offset))
        if key not in self._given:
            self._given[key] = ()
            found = self._parameters.list_at(offset, self)
            self._given[key] = (ANY,) if found is None else ("", *found)
        return self._given[key][1:] if self._given[key][:1] == ("",) else None

    def sites_at(self, offset: int) -> list[CallSite] | None:
        """Return the calls of the function around a place; None when they are not known."""
        return self._parameters.sites_at(offset)

    def elsewhere(self) -> Known:
        """Return the same for a text that is not in the source: what it is given is not known."""
        return Known([one for each in self._settings.values() for one in each], Parameters((), 0))

    def never_called(self, offset: int) -> bool:
        """Return whether a place is in a function that nothing calls."""
        return self._parameters.scope_at(offset) not in {TOP, None} and self.sites_at(offset) == []

    def shifted(self, offset: int) -> int:
        """Return how many arguments are gone at a place."""
        return self._parameters.shifted(offset)

    def always_set(self, name: str) -> bool:
        """Return whether a variable has a value that is not empty wherever it is read."""
        return name in ENVIRONMENT and name not in self._settings

    @property
    def splitters(self) -> frozenset[str]:
        """Return the characters beside blanks at which words may be split."""
        if self._splitters is None:
            self._splitters = frozenset()
            texts = [
                text for one in self._settings.get("IFS", ()) for text in self._value(one) if is_known(text)
            ]
            self._splitters = frozenset("".join(texts)) - set(" \t\n")
        return self._splitters

    def _element_values(self, setting: Setting) -> tuple[str, ...] | None:
        """Return what one setting gives to the elements of an array; None when that is not known."""
        if setting.array is not None:
            found: list[str] = []
            for element in setting.array.nodes("Elems"):
                value = element.node("Value")
                for one in arguments_of(value, self) if value is not None else ():
                    if one.loose or (one.many and one.unknown):
                        return None
                    found += one.values
            return tuple(found)
        if setting.append or setting.value is None:
            return () if setting.how is How.DECLARED and not setting.append else None
        return values_of(setting.value, self)

    def _find_values(self, name: str) -> tuple[str, ...]:
        settings = self._settings.get(name)
        if not settings:
            return (ENVIRONMENT.get(name, ANY),)
        found: dict[str, None] = {}
        for setting in settings:
            found |= dict.fromkeys(self._value(setting))
            if len(found) > VALUES:
                return (ANY,)
        return tuple(found)

    def _value(self, setting: Setting) -> tuple[str, ...]:
        if setting.append or setting.array is not None or setting.indexed:
            return (ANY,)
        if setting.value is not None:
            if setting.how is How.LOOP:
                texts = [value for one in arguments_of(setting.value, self) for value in one.values]
                return tuple(texts) or ("",)
            return values_of(setting.value, self)
        return (NUMBER,) if setting.how in {How.ARITHMETIC, How.DESCRIPTOR} else (ANY,)

    def _find_elements(self, name: str) -> tuple[str, ...] | None:
        settings = self._settings.get(name)
        if not settings or any(setting.array is None for setting in settings):
            return None
        found: list[Argument] = []
        for setting in settings:
            for element in setting.array.nodes("Elems") if setting.array is not None else ():
                value = element.node("Value")
                if value is not None:
                    found += arguments_of(value, self)
        if len(found) > 4 * VALUES or any(len(one.values) > 1 or one.loose or one.many for one in found):
            return None
        return tuple(one.values[0] for one in found)


def find_settings(nodes: Iterable[Node]) -> list[Setting]:
    """Find every place where the grammar itself sets a variable, in source order; builtins are left out."""
    found = [setting for node in nodes for setting in _settings_of(node)]
    return sorted(found, key=lambda setting: setting.node.start)


def _settings_of(node: Node) -> Iterator[Setting]:
    match node.kind:
        case "CallExpr":
            how = How.PREFIX if node.nodes("Args") else How.PLAIN
            yield from (_assigned(each, how, node) for each in node.nodes("Assigns"))
        case "DeclClause":
            named = (each for each in node.nodes("Args") if each.node("Name") is not None)
            yield from (_assigned(each, How.DECLARED, node) for each in named)
        case "WordIter":
            yield from _looped(node)
        case "BinaryArithm" | "UnaryArithm":
            yield from _counted(node)
        case "ParamExp":
            yield from _defaulted(node)
        case "LetClause":
            yield from _let(node)
        case _:
            yield from _opened(node)


def _assigned(assign: Node, how: How, command: Node) -> Setting:
    name = assign.node("Name")
    return Setting(
        name=name.text("Value") if name is not None else "",
        how=how,
        node=assign,
        value=assign.node("Value"),
        array=assign.node("Array"),
        append=assign.flag("Append"),
        indexed=assign.node("Index") is not None,
        command=command,
    )


def _looped(loop: Node) -> Iterator[Setting]:
    name = loop.node("Name")
    variable = name.text("Value") if name is not None else ""
    items = loop.nodes("Items")
    for item in items:
        yield Setting(name=variable, how=How.LOOP, node=loop, value=item)
    if not items:
        yield Setting(name=variable, how=How.BUILTIN, node=loop)


_ASSIGNING = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))


def _counted(node: Node) -> Iterator[Setting]:
    if node.kind == "BinaryArithm" and node.text("Op") not in _ASSIGNING:
        return
    if node.kind == "UnaryArithm" and node.text("Op") not in {"++", "--"}:
        return
    target = node.node("X")
    for part in target.nodes("Parts") if target is not None else ():
        parameter = part.node("Param")
        name = parameter.text("Value") if parameter is not None else part.text("Value")
        yield Setting(name=name.partition("[")[0], how=How.ARITHMETIC, node=node)


# Every character is taken once: what is before an `=` is remembered, not looked for again.
_LET = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*+)|(?P<open>\[)|(?P<close>\])"
    r"|(?P<sets>(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?P<skip>\s++)|.",
    re.DOTALL,
)


def _let(node: Node) -> Iterator[Setting]:
    """Look into the quoted arguments of let, which the grammar takes for words."""
    for word in (each for each in node.nodes("Exprs") if each.kind == "Word"):
        for name in _set_in(literal(word) or ""):
            yield Setting(name=name, how=How.ARITHMETIC, node=node)


def _set_in(arithmetic: str) -> Iterator[str]:
    """Return the names before an assignment, with an index between or not: ``x = 1``, ``a[b[1]] += 2``."""
    last: str | None = None
    indexed: list[str | None] = []
    for found in _LET.finditer(arithmetic):
        match found.lastgroup:
            case "name":
                last = found["name"]
            case "open":
                indexed.append(last)
                last = None
            case "close":
                last = indexed.pop() if indexed else None
            case "sets":
                if last is not None:
                    yield last
                last = None
            case None:
                last = None


def _defaulted(node: Node) -> Iterator[Setting]:
    expansion, name = node.node("Exp"), node.node("Param")
    if expansion is not None and name is not None and expansion.text("Op") in {":=", "="}:
        yield Setting(name=name.text("Value"), how=How.EXPANSION, node=node, value=expansion.node("Word"))


def _opened(node: Node) -> Iterator[Setting]:
    for redirection in node.nodes("Redirs"):
        number = redirection.node("N")
        name = number.text("Value") if number is not None else ""
        if name.startswith("{"):
            yield Setting(name=name.strip("{}"), how=How.DESCRIPTOR, node=redirection)


def references(declaration: Node) -> Iterator[tuple[str, Node | None]]:
    """Return the name references that a declaration makes, each with the word that names its variable."""
    arguments = declaration.nodes("Args")
    naked = [argument.node("Value") for argument in arguments if argument.flag("Naked")]
    options = [text for text in map(literal, naked) if text is not None and text.startswith("-")]
    if not any("n" in option for option in options):
        return
    for argument in arguments:
        name = argument.node("Name")
        if name is not None:
            yield name.text("Value"), argument.node("Value")


def set_through(nodes: Iterable[Node], known: Known) -> list[Setting]:
    """Return settings without a value for what name references stand for, and for those themselves."""
    found: list[Setting] = []
    for node in (node for node in nodes if node.kind == "DeclClause"):
        for name, target in references(node):
            names = values_of(target, known) if target is not None else ()
            found += [
                Setting(name=each.partition("[")[0], how=How.BUILTIN, node=node) for each in (name, *names)
            ]
    return found


def set_by_builtin(command: Node, names: Sequence[Node]) -> list[Setting]:
    """Return the settings of a builtin whose arguments name variables."""
    found = ((literal(word), word) for word in names)
    return [
        Setting(name=name.partition("[")[0].partition("=")[0], how=How.BUILTIN, node=word, command=command)
        for name, word in found
        if name is not None
    ]
