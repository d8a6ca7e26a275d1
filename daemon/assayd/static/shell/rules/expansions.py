"""The rules on expansions that run text, or read a variable that is named elsewhere.

${x@P}                expansion.prompt
${!name}              expansion.indirect   (name is not one of a few plain names)
$"text"               quote.locale
@($(ls))              expansion.pattern
$((a['$(ls)']))       arithmetic.hidden_command
"""

from __future__ import annotations

import re

from assayd.static.shell.parse.nodes import Node, walk
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.words import literal, values_of
from assayd.static.shell.rules.assignments import check_text, hides

_WORDS = re.compile(r"-(eq|ne|lt|le|gt|ge|v|R)")


def check_expansion(script: ParsedScript, node: Node) -> None:
    """Judge one node, if it is an expansion or what arithmetic is made of."""
    match node.kind:
        case "ParamExp":
            _check_parameter(script, node)
        case "DblQuoted" if node.flag("Dollar"):
            _check_locale(script, node)
        case "ArithmExp" | "ArithmCmd" | "LetClause" | "CStyleLoop":
            _check_arithmetic(script, node)
        case "BinaryTest" | "UnaryTest" if _WORDS.fullmatch(node.text("Op")):
            _check_arithmetic(script, node)
        case _:
            pass


def _check_parameter(script: ParsedScript, node: Node) -> None:
    expansion = node.node("Exp")
    for computed in filter(None, (node.node("Slice"), node.node("Index"))):
        _check_arithmetic(script, computed)
    if expansion is not None and expansion.text("Op") == "@" and literal(expansion.node("Word")) == "P":
        message = "${…@P} runs the commands that the value holds."
        script.error(node, "expansion.prompt", message, 'Use the value itself: "$name".')
    if node.flag("Excl") and not node.text("Names") and not _lists_keys(node) and not _is_named(script, node):
        message = f"{script.written(node)} reads a variable whose name is known only when it runs."
        script.error(node, "expansion.indirect", message, "Use an associative array: ${map[$key]}.")


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[0-9@*\x01]+\])?|[0-9\x01]+|[@*]")


def _is_named(script: ParsedScript, node: Node) -> bool:
    """Return whether the variable that ``${!x}`` reads is one of a few plain names: those that x may hold."""
    parameter, index = node.node("Param"), node.node("Index")
    name = parameter.text("Value") if parameter is not None else ""
    if name == "#":
        return True
    if index is not None:
        values = script.known.members(name)
    elif name.isascii() and name.isdigit():
        values = script.known.parameter(int(name[:6]), node.start)
    else:
        values = script.known.values(name)
    return all(_VARIABLE.fullmatch(value) for value in values)


def _lists_keys(node: Node) -> bool:
    index = node.node("Index")
    return index is not None and literal(index) in {"@", "*"} and node.node("Exp") is None


def _check_locale(script: ParsedScript, node: Node) -> None:
    written = script.source.written(node)
    edit = script.replacing(node, written.removeprefix("$"))
    message = 'The text in $"…" is looked up in a catalogue, which may put another one in its place.'
    script.error(node, "quote.locale", message, 'Write "…" without the dollar sign.', edit=edit)


def _check_arithmetic(script: ParsedScript, node: Node) -> None:
    """Look into quoted texts inside arithmetic: it expands them once more."""
    for inner in walk(node):
        if inner.kind == "SglQuoted" or (inner.kind == "Lit" and hides(inner.text("Value"))):
            check_text(script, node, inner.text("Value"))
        elif inner.kind == "Word":
            for value in values_of(inner, script.known):
                check_text(script, node, value)
