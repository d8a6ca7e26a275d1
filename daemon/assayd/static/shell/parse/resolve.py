r"""Which command a command word names, also behind prefixes that run another one.

Words and what they come to:

    cat f                   cat
    "cat" f                 cat
    /usr/lib/assayd/tools/cat f    cat
    command -- cat f        command, cat
    env -i LC_ALL=C sort f  env, sort
    c"a"t f                 command.obscured
    \cat f                  command.obscured
    $x f                    command.dynamic
    ./cat f                 command.path
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assayd.static.shell.parse.nodes import Node, walk
from assayd.static.shell.parse.source import ShellSource
from assayd.static.shell.parse.words import literal

TOOLS = "/usr/lib/assayd/tools"
"""The only folder on PATH in the shell image."""

_PLAIN = re.compile(r"[A-Za-z0-9_./+:@%^,=\[\]-]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)


class Form(StrEnum):
    """How a command word is written."""

    PLAIN = "plain"
    """As a name, or a path, quoted as a whole or not at all."""
    OBSCURED = "obscured"
    """Split by quotes or backslashes, a pattern, a brace expression, a tilde."""
    DYNAMIC = "dynamic"
    """Known only when it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One command that a script may run: the word that names it, and the words after that."""

    call: Node
    word: Node
    form: Form
    name: str
    arguments: Sequence[Node]
    prefixes: tuple[str, ...] = ()

    @property
    def path(self) -> bool:
        """Return whether it is named by a path other than that of a tool."""
        return "/" in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prefix:
    """A command that runs another: its options with a value, and how many operands stand before that one."""

    short: str = ""
    long: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    only_looks: str = ""
    default: str | None = None


_PREFIXES = {
    "builtin": _Prefix(),
    "command": _Prefix(only_looks="vV"),
    "env": _Prefix(short="uCS", long=frozenset({"unset", "chdir", "split-string"}), assignments=True),
    "nice": _Prefix(short="n", long=frozenset({"adjustment"})),
    "nohup": _Prefix(),
    "setsid": _Prefix(),
    "stdbuf": _Prefix(short="ioe", long=frozenset({"input", "output", "error"})),
    "time": _Prefix(short="fo", long=frozenset({"format", "output"})),
    "timeout": _Prefix(short="ks", long=frozenset({"kill-after", "signal"}), operands=1),
    "xargs": _Prefix(
        short="adEIiLlnPs",
        long=frozenset({"arg-file", "delimiter", "eof", "max-args", "max-lines", "max-procs", "max-chars"}),
    ),
}
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def invocations(source: ShellSource) -> list[Invocation]:
    """Find every command of a script, wherever it stands, in no order."""
    found: list[Invocation] = []
    for node in source.nodes:
        words = node.nodes("Args") if node.kind == "CallExpr" else []
        if words:
            found += _resolve(node, words, source, ())
    return found


def _resolve(
    call: Node, words: Sequence[Node], source: ShellSource, prefixes: tuple[str, ...]
) -> Iterator[Invocation]:
    while words:
        form, name = name_of(words[0], source)
        yield Invocation(
            call=call, word=words[0], form=form, name=name, arguments=words[1:], prefixes=prefixes
        )
        if name == "find":
            yield from _found(call, words[1:], source, prefixes)
            return
        prefix = _PREFIXES.get(name)
        if form is not Form.PLAIN or prefix is None:
            return
        words = words[1 + _skipped(prefix, words[1:]) :]
        prefixes = (*prefixes, name)


def _found(
    call: Node, words: Sequence[Node], source: ShellSource, prefixes: tuple[str, ...]
) -> Iterator[Invocation]:
    """Return what ``find … -exec command {} +`` runs."""
    for index, word in enumerate(words):
        if literal(word) in _FIND_RUNS:
            yield from _resolve(call, words[index + 1 :], source, (*prefixes, "find"))


def _skipped(prefix: _Prefix, words: Sequence[Node]) -> int:
    """Count the words between a prefix and the command that it runs."""
    index, operands = 0, prefix.operands
    while index < len(words):
        text = literal(words[index])
        if text is None:
            return index
        if text == "--":
            return index + 1 + operands
        if text.startswith("--"):
            index += 2 if text[2:] in prefix.long else 1
        elif text.startswith("-") and len(text) > 1:
            if prefix.only_looks and set(text[1:]) & set(prefix.only_looks):
                return len(words)
            index += 2 if text[-1] in prefix.short and len(text) == 2 else 1
        elif prefix.assignments and _ASSIGNMENT.fullmatch(text):
            index += 1
        elif operands:
            operands -= 1
            index += 1
        else:
            return index
    return index


def name_of(word: Node, source: ShellSource) -> tuple[Form, str]:
    """Return how a command word is written and the name that it has; empty when it has none."""
    parts = word.nodes("Parts")
    if any(part.kind not in {"Lit", "SglQuoted", "DblQuoted"} for part in parts):
        return Form.DYNAMIC, ""
    text = _whole(parts, source, word)
    if text is None:
        dynamic = any(inner.kind in {"ParamExp", "CmdSubst", "ArithmExp"} for inner in walk(word))
        return (Form.DYNAMIC if dynamic else Form.OBSCURED), ""
    return Form.PLAIN, text.removeprefix(TOOLS + "/") if text.count("/") == TOOLS.count("/") + 1 else text


def _whole(parts: Sequence[Node], source: ShellSource, word: Node) -> str | None:
    """Return the text of a word that is written as one piece."""
    written = source.written(word)
    if all(part.kind == "Lit" for part in parts):
        text = written
    elif len(parts) == 1 and not parts[0].flag("Dollar") and written[:1] == written[-1:]:
        text = written[1:-1]
    else:
        return None
    return text if _PLAIN.fullmatch(text) and not ("[" in text and text not in {"[", "[["}) else None
