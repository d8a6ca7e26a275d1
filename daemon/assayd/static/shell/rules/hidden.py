r"""The rule on texts that the parser keeps as text and bash expands all the same.

Single quotes quote nothing inside "${x:-…}", a here-document's ${x:-…}, arithmetic and subscripts; the parser
takes them for quotes there. It keeps pattern lists and ${x:-<(…)} as text, and reads let's >(…) as a
comparison. Found by running bash and the checks on the same random scripts.

    echo "${x:-'$(ls)'}"        shell.ambiguous
    echo $((a['$(ls)']))        shell.ambiguous
    echo ${x:-<(ls)}            shell.ambiguous
    [[ x == @($(ls)) ]]         shell.ambiguous
    let 1>(ls)                  shell.ambiguous
    a=([\`ls\`]=1)              shell.ambiguous
    let a[\$\(ls\)]             shell.ambiguous
    a=([1<(ls)]=1)              shell.ambiguous
"""

from __future__ import annotations

import re
from enum import Enum, auto

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.script import ParsedScript

_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*(?:\$[({\[]|`|[<>]\()")
_IN_QUOTES = re.compile(r"[$`]|[<>]\(")
_OPAQUE = re.compile(r"[$`'\"\\]|[<>]\(")
_SUBSTITUTES = re.compile(r"\$[({\[]|`|[<>]\(")
_PROCESS = re.compile(r"[<>]\(")
_ARITHMETIC = frozenset(("ArithmExp", "ArithmCmd", "LetClause", "CStyleLoop"))
_FRESH = frozenset(("CmdSubst", "ProcSubst"))


class _Quotes(Enum):
    """What single quotes and backslashes do at a place."""

    QUOTE = auto()
    """What they do elsewhere."""
    OPEN = auto()
    """Single quotes quote nothing."""
    READ_TWICE = auto()
    """What is quoted is expanded when arithmetic reads it."""


def check_hidden(script: ParsedScript, root: Node) -> None:
    """Look at every text of a script where bash may expand what the parser does not."""
    pending = [(root, _Quotes.QUOTE)]
    while pending:
        node, quotes = pending.pop()
        if _is_hidden(script, node, quotes):
            message = "Whether bash expands this text is not plain to see."
            suggestion = "Keep the text in a variable first, and use that in its place."
            script.error(node, "shell.ambiguous", message, suggestion)
        pending += _below(script, node, quotes)


def _below(script: ParsedScript, node: Node, quotes: _Quotes) -> list[tuple[Node, _Quotes]]:
    """Return the nodes below with what quotes do there."""
    if node.kind in _FRESH:
        quotes = _Quotes.QUOTE
    elif node.kind in _ARITHMETIC:
        quotes = _Quotes.READ_TWICE
    elif node.kind == "DblQuoted" and quotes is _Quotes.QUOTE:
        quotes = _Quotes.OPEN
    found: list[tuple[Node, _Quotes]] = []
    for name, value in node.fields.items():
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, Node) or (name == "Hdoc" and not expands(node)):
                continue
            inner = {"Index": _Quotes.READ_TWICE, "Slice": _Quotes.READ_TWICE, "Hdoc": _Quotes.OPEN}
            found.append((each, inner.get(name, quotes)))
    return found


def expands(redirection: Node) -> bool:
    """Return whether a here-document is expanded: no part of its closing word is quoted."""
    word = redirection.node("Word")
    parts = word.nodes("Parts") if word is not None else []
    return all(part.kind == "Lit" and "\\" not in part.text("Value") for part in parts)


def _is_hidden(script: ParsedScript, node: Node, quotes: _Quotes) -> bool:
    text = node.text("Value")
    match node.kind:
        case "SglQuoted":
            return quotes is not _Quotes.QUOTE and _IN_QUOTES.search(text) is not None
        case "Lit" if quotes is _Quotes.READ_TWICE:
            # let and subscripts of lists lose their backslashes before they are read
            return _SUBSTITUTES.search(text.replace("\\", "")) is not None
        case "Lit":
            return _EXPANDS.search(text) is not None
        case "ExtGlob":
            pattern = node.node("Pattern")
            return pattern is not None and _OPAQUE.search(pattern.text("Value")) is not None
        case "LetClause":
            return _PROCESS.search(script.source.written(node)) is not None
        case _:
            index = node.node("Index")
            return index is not None and _PROCESS.search(script.source.written(index)) is not None
