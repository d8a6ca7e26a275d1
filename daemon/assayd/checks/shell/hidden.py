"""The rule on texts that the parser keeps as text and bash expands all the same.

Single quotes quote nothing inside "${x:-…}", a here-document's ${x:-…}, arithmetic and subscripts; the parser
takes them for quotes there. It keeps pattern lists and ${x:-<(…)} as text. Found by running both on the same
scripts.

    echo "${x:-'$(ls)'}"        shell.ambiguous
    echo $((a['$(ls)']))        shell.ambiguous
    echo ${x:-<(ls)}            shell.ambiguous
    [[ x == @($(ls)) ]]         shell.ambiguous
"""

from __future__ import annotations

import re

from assayd.checks.shell.nodes import Node
from assayd.checks.shell.script import Script

_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*(?:\$[({\[]|`|[<>]\()")
_IN_QUOTES = re.compile(r"[$`]|[<>]\(")
_OPAQUE = re.compile(r"[$`'\"\\]|[<>]\(")
_ARITHMETIC = frozenset(("ArithmExp", "ArithmCmd", "LetClause", "CStyleLoop"))
_FRESH = frozenset(("CmdSubst", "ProcSubst"))
_SUBSCRIPTED = ("Index", "Slice")


def check_hidden(script: Script, root: Node) -> None:
    """Look at every text of a script where bash may expand what the parser does not."""
    pending = [(root, False)]
    while pending:
        node, unquoting = pending.pop()
        _check(script, node, unquoting)
        pending += _below(node, unquoting)


def _below(node: Node, unquoting: bool) -> list[tuple[Node, bool]]:
    """Give the nodes below with whether single quotes quote nothing there."""
    unquoting = (
        unquoting or node.kind == "DblQuoted" or node.kind in _ARITHMETIC
    ) and node.kind not in _FRESH
    found: list[tuple[Node, bool]] = []
    for name, value in node.fields.items():
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, Node) or (name == "Hdoc" and not expands(node)):
                continue
            found.append((each, unquoting or name == "Hdoc" or name in _SUBSCRIPTED))
    return found


def expands(redirection: Node) -> bool:
    """Tell whether a here-document is expanded: no part of its closing word is quoted."""
    word = redirection.node("Word")
    parts = word.nodes("Parts") if word is not None else []
    return all(part.kind == "Lit" and "\\" not in part.text("Value") for part in parts)


def _check(script: Script, node: Node, unquoting: bool) -> None:
    text = node.text("Value")
    if node.kind == "SglQuoted" and unquoting:
        hidden = _IN_QUOTES.search(text) is not None
    elif node.kind == "ExtGlob":
        pattern = node.node("Pattern")
        hidden = pattern is not None and _OPAQUE.search(pattern.text("Value")) is not None
    else:
        hidden = node.kind == "Lit" and _EXPANDS.search(text) is not None
    if hidden:
        message = "Whether bash expands this text is not plain to see."
        suggestion = "Keep the text in a variable first, and use that in its place."
        script.error(node, "shell.ambiguous", message, suggestion)
