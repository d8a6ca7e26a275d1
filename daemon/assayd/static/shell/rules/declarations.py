"""The rules on declare, export, local, readonly and typeset, which the grammar has a form of its own for.

alias x=y                       builtin.not_allowed   (as a declaration: export where it is not listed)
declare -n x=PATH               variable.nameref
declare -n x="$y"               variable.nameref   (y is not one of a few plain names)
export "PATH=tmp"               variable.protected
declare -a x='($(ls))'          variable.read_twice
declare -a x="$y"               variable.read_twice   (a list, if $y holds one)
declare -a x; local "x=($y)"    variable.read_twice
local x="($y)"                  nothing: it is no list
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.resolve import Invocation
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.variables import references
from assayd.static.shell.parse.words import literal, values_of
from assayd.static.shell.rules.assignments import check_name
from assayd.static.shell.rules.builtins import check_nameref, names_set

_READING = frozenset(("declare", "local", "readonly", "typeset"))
_TARGET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[0-9]+\])?")
_UNSEEN = re.compile(r"(?P<name>\w+)(?:\[[^\]]*\])?\+?=\x00", re.DOTALL)
_LIST = re.compile(r"(?P<name>\w+)(?:\[[^\]]*\])?\+?=\(.*(?:[$`\x00]|[<>]\()", re.DOTALL)


def check_declaration(script: ParsedScript, node: Node) -> None:
    """Add findings to the script for what one declaration (declare, export, …) may not do."""
    variant = node.node("Variant")
    name = variant.text("Value") if variant is not None else ""
    if name not in script.commands.builtins or name in script.commands.blocked:
        message = f"The builtin {name} may not be used."
        script.error(node, "builtin.not_allowed", message, "Assign the variable without it: x=1.")
    for argument in node.nodes("Args"):
        word = argument.node("Value")
        if not argument.flag("Naked") or word is None:
            continue
        text = literal(word)
        if text is None or not text.startswith(("-", "+")):
            if not shows(node):
                check_name(script, word, name, node)
        elif "n" in text and name != "export" and text[0] == "-" and not _is_named(script, node):
            check_nameref(script, word)
    if name in _READING:
        _check_lists(script, _arguments(script, node))


def shows(node: Node) -> bool:
    """Return whether a declaration only prints: ``declare -p x``."""
    words = (argument.node("Value") for argument in node.nodes("Args") if argument.flag("Naked"))
    return any(text.startswith("-") and set(text) & set("pfF") for text in map(literal, words) if text)


def _is_named(script: ParsedScript, node: Node) -> bool:
    """Return whether every reference of a declaration stands for one of a few plain names that may be set."""
    targets = [target for _, target in references(node)]
    if script.known.never_called(node.start):
        return True
    if not targets or any(target is None for target in targets):
        return False
    names = [name for target in targets if target is not None for name in values_of(target, script.known)]
    return all(_TARGET.fullmatch(name) and not _protected(script, name) for name in names)


def _protected(script: ParsedScript, name: str) -> bool:
    plain = name.partition("[")[0]
    return plain == "IFS" or script.commands.protects(plain)


def check_called(script: ParsedScript, call: Invocation) -> None:
    """Judge the lists of a declaration behind ``builtin`` or ``command``."""
    if call.name in _READING:
        _check_lists(script, [(word, values_of(word, script.known)) for word in call.arguments])


def _arguments(script: ParsedScript, node: Node) -> list[tuple[Node, tuple[str, ...]]]:
    """Return what the words of a declaration come to: options, names, and ``name=value``."""
    found = []
    for argument in node.nodes("Args"):
        name, value = argument.node("Name"), argument.node("Value")
        texts = values_of(value, script.known) if value is not None else ("",)
        if name is not None:
            texts = tuple(f"{name.text('Value')}={text}" for text in texts)
        found.append((argument, texts))
    return found


def _check_lists(script: ParsedScript, arguments: Iterable[tuple[Node, tuple[str, ...]]]) -> None:
    """Refuse a value in round brackets that is in quotes: it is expanded once more where a list is meant."""
    arguments = list(arguments)
    lettered = any(_makes_lists(text) for _, texts in arguments for text in texts)
    for node, texts in arguments:
        found = next(filter(None, map(_LIST.match, texts)), None)
        if lettered:
            found = found or next(filter(None, map(_UNSEEN.match, texts)), None)
        if found is not None and (lettered or found["name"] in set(_lists(script))):
            message = "A declaration reads a list in quotes once more, and runs what it finds there."
            suggestion = 'Write the list without quotes around it: x=(…), with elements such as "$y" in it.'
            script.error(node, "variable.read_twice", message, suggestion)


def _makes_lists(text: str) -> bool:
    return text.startswith("-") and not {"a", "A"}.isdisjoint(text)


def _lists(script: ParsedScript) -> Iterator[str]:
    """Name the variables that are lists, wherever they become it."""
    yield from (one.name for one in script.settings if one.array is not None or one.indexed)
    for call in script.calls:
        yield from (text for text in map(literal, names_set(call)) if text is not None)
    for node in (node for node in script.source.nodes if node.kind == "DeclClause"):
        arguments = _arguments(script, node)
        if any(_makes_lists(text) for _, texts in arguments for text in texts):
            yield from (text.partition("=")[0] for _, texts in arguments for text in texts)
