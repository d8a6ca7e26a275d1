"""Commands that run another one: where their own options end and the other command begins.

    env -i LC_ALL=C sort f        sort
    xargs -n 1 wc -l              wc
    xargs -i wc {}                wc      (-i, -l and -e take what is glued to them, and nothing else)
    timeout -k 5 "$limit" sort f  sort

Options are taken apart as each tool's own grammar has them; tests compare the tables with the tools in the
image.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.options import Syntax
from assayd.static.shell.parse.words import ANY, literal, pieces_of

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_OLD_NICE = re.compile(r"-[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """A command that runs another: its options, and how many operands stand before that one."""

    syntax: Syntax
    operands: int = 0
    assignments: bool = False
    only_looks: str = ""


PREFIXES: Mapping[str, Prefix] = {
    "builtin": Prefix(syntax=Syntax()),
    "command": Prefix(syntax=Syntax(short="pvV"), only_looks="vV"),
    "env": Prefix(
        syntax=Syntax(
            short="0iC:S:u:v",
            long="block-signal=? chdir= debug default-signal=? help ignore-environment ignore-signal=? "
            "list-signal-handling null split-string= unset= version",
        ),
        assignments=True,
    ),
    "nice": Prefix(syntax=Syntax(short="n:", long="adjustment= help version")),
    "nohup": Prefix(syntax=Syntax(long="help version")),
    "setsid": Prefix(syntax=Syntax(short="cfwhV", long="ctty fork wait help version")),
    "stdbuf": Prefix(syntax=Syntax(short="e:i:o:", long="error= input= output= help version")),
    "time": Prefix(
        syntax=Syntax(short="af:o:pqvV", long="append format= output= portability quiet verbose help version")
    ),
    "timeout": Prefix(
        syntax=Syntax(
            short="k:s:v", long="foreground kill-after= preserve-status signal= verbose help version"
        ),
        operands=1,
    ),
    "xargs": Prefix(
        syntax=Syntax(
            short="0a:d:E:e::I:i::L:l::n:oP:prs:tx",
            long="arg-file= delimiter= eof=? exit help interactive max-args= max-chars= max-lines=? "
            "max-procs= no-run-if-empty null open-tty process-slot-var= replace=? show-limits "
            "verbose version",
        )
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What stands before the command that is run: how many words, and the options with their values."""

    words: int
    options: tuple[tuple[str, str, Node], ...] = ()

    def given(self, *names: str) -> list[tuple[str, Node]]:
        """Return the values of the options of these names, each with its word."""
        return [(value, node) for name, value, node in self.options if name in names]


def skip(prefix: Prefix, words: Sequence[Node]) -> Skipped:
    """Find where the command begins that a prefix runs; `words` are those after the prefix itself."""
    found: list[tuple[str, str, Node]] = []
    index, operands = 0, prefix.operands
    while index < len(words):
        word = words[index]
        text = pieces_of(word)
        if text == "--":
            index += 1 + operands
            break
        if text.startswith("-") and len(text) > 1 and not _OLD_NICE.fullmatch(text):
            option, value, takes_next = _option(prefix.syntax, text)
            if prefix.only_looks and option.lstrip("-") in prefix.only_looks:
                return Skipped(words=len(words))
            follows = takes_next and index + 1 < len(words)
            found.append((option, (literal(words[index + 1]) or ANY) if follows else value, word))
            index += 1 + takes_next
        elif _OLD_NICE.fullmatch(text) or (prefix.assignments and _ASSIGNMENT.fullmatch(text)):
            index += 1
        elif operands:
            operands -= 1
            index += 1
        else:
            break
    return Skipped(words=min(index, len(words)), options=tuple(found))


def _option(syntax: Syntax, text: str) -> tuple[str, str, bool]:
    """Return the last option in a word, its glued value, and whether the next word is its value."""
    if text.startswith("--"):
        name, glued, value = text[2:].partition("=")
        meant = [name] if name in syntax.names else [each for each in syntax.names if each.startswith(name)]
        full = meant[0] if len(meant) == 1 else name
        return f"--{full}", value, not glued and syntax.names.get(full) == 1
    for place, letter in enumerate(text[1:], 2):
        takes = syntax.letters.get(letter, 0)
        if takes:
            return f"-{letter}", text[place:], takes == 1 and place == len(text)
    return text[:2], "", False
