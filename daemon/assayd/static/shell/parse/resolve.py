r"""Which command a command word names, also behind prefixes that run another one.

Words and what they come to:

    cat f                   cat
    "cat" f                 cat
    /usr/lib/assayd/tools/cat f    cat
    command -- cat f        command, cat
    env -i LC_ALL=C sort f  env, sort
    xargs -n 1 sort         xargs, sort
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
from assayd.static.shell.parse.words import Argument, literal
from assayd.static.shell.rules.prefixes import PREFIXES, skip

TOOLS = "/usr/lib/assayd/tools"
"""The only folder on PATH in the shell image."""

_PLAIN = re.compile(r"[A-Za-z0-9_./+:@%^,=\[\]-]+")


class WordForm(StrEnum):
    """How a command word is written."""

    PLAIN = "plain"
    """As a name, or a path, quoted as a whole or not at all."""
    OBSCURED = "obscured"
    """Split by quotes or backslashes, a pattern, a brace expression, a tilde."""
    DYNAMIC = "dynamic"
    """Known only when it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XargsInput:
    """What xargs reads and gives to a command: in the place of `replaced`, else after all arguments."""

    replaced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One command that a script may run: the word that names it, and the words after that.

    `leading` are arguments before those words, where the word that names it holds some.
    """

    call: Node
    word: Node
    form: WordForm
    name: str
    arguments: Sequence[Node]
    prefixes: tuple[str, ...] = ()
    given: XargsInput | None = None
    leading: tuple[Argument, ...] = ()

    @property
    def path(self) -> bool:
        """Return whether it is named by a path other than that of a tool."""
        return "/" in self.name


_REPLACED = ("-I", "-i", "--replace")
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def invocations(source: ShellSource) -> list[Invocation]:
    """Find every command of a script, wherever it stands, in no order."""
    found: list[Invocation] = []
    for node in source.nodes:
        words = node.nodes("Args") if node.kind == "CallExpr" else []
        if words:
            found += resolve(node, words, source)
    return found


def resolve(
    call: Node, words: Sequence[Node], source: ShellSource, prefixes: tuple[str, ...] = ()
) -> Iterator[Invocation]:
    """Return the command that words name, and those that it runs."""
    given: XargsInput | None = None
    while words:
        form, name = name_of(words[0], source)
        if given is not None and given.replaced and given.replaced in (literal(words[0]) or ""):
            form = WordForm.DYNAMIC
        yield Invocation(
            call=call,
            word=words[0],
            form=form,
            name=name,
            arguments=words[1:],
            prefixes=prefixes,
            given=given,
        )
        if name == "find":
            yield from _found(call, words[1:], source, prefixes)
            return
        prefix = PREFIXES.get(name)
        if form is not WordForm.PLAIN or prefix is None:
            return
        skipped = skip(prefix, words[1:])
        words = words[1 + skipped.words :]
        prefixes = (*prefixes, name)
        if name == "xargs":
            replaced = [value or "{}" for value, _ in skipped.given(*_REPLACED)]
            given = XargsInput(replaced=replaced[-1] if replaced else "")


def _found(
    call: Node, words: Sequence[Node], source: ShellSource, prefixes: tuple[str, ...]
) -> Iterator[Invocation]:
    """Return what ``find … -exec command {} +`` runs."""
    for index, word in enumerate(words):
        if literal(word) in _FIND_RUNS:
            yield from resolve(call, words[index + 1 :], source, (*prefixes, "find"))


def name_of(word: Node, source: ShellSource) -> tuple[WordForm, str]:
    """Return how a command word is written and the name that it has; empty when it has none."""
    parts = word.nodes("Parts")
    if any(part.kind not in {"Lit", "SglQuoted", "DblQuoted"} for part in parts):
        return WordForm.DYNAMIC, ""
    text = _whole(parts, source, word)
    if text is None:
        dynamic = any(inner.kind in {"ParamExp", "CmdSubst", "ArithmExp"} for inner in walk(word))
        return (WordForm.DYNAMIC if dynamic else WordForm.OBSCURED), ""
    return WordForm.PLAIN, text.removeprefix(TOOLS + "/") if text.count("/") == TOOLS.count("/") + 1 else text


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
