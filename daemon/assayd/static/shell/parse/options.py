"""Takes the arguments of a command apart as getopt_long does: options, their values, operands.

Options may stand among operands, short ones may be glued together or to their value, long ones may be
abbreviated, and ``--`` ends them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from assayd.static.shell.parse.nodes import Node

_LETTER = re.compile(r"([^:;])(::?|;)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentValue:
    """One argument with one of its values, and the word that it comes from."""

    value: str
    node: Node
    loose: bool = False
    many: bool = False


@dataclass(frozen=True, kw_only=True)
class Syntax:
    """Which options a command has.

    Args:
        short: as for getopt: a letter, ``:`` when it takes a value, ``::`` when one may be glued to it,
            ``;`` when what follows is a long option.
        long: names, with ``=`` when it takes a value, ``=?`` when it may have one.
        ordered: whether the first operand ends the options.
    """

    short: str = ""
    long: str = ""
    ordered: bool = False

    @cached_property
    def letters(self) -> dict[str, int]:
        """Map each short option to 0 (no value), 1 (a value), 2 (perhaps one), -1 (a long option)."""
        marks = {"": 0, ":": 1, "::": 2, ";": -1}
        return {letter: marks[mark] for letter, mark in _LETTER.findall(self.short)}

    @cached_property
    def names(self) -> dict[str, int]:
        """Map each long option to 0 (no value), 1 (a value), 2 (perhaps one)."""
        return {
            name.rstrip("=?"): 2 if name.endswith("?") else int(name.endswith("="))
            for name in self.long.split()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOption:
    """An option as it was given: ``-x`` or ``--name``, in full, and its value."""

    name: str
    node: Node
    value: ArgumentValue | None = None


@dataclass(slots=True, kw_only=True)
class Parsed:
    """The arguments of a command, taken apart. `unknown` holds options that the command does not have."""

    options: list[ShellOption] = field(default_factory=list)
    operands: list[ArgumentValue] = field(default_factory=list)
    unknown: list[ShellOption] = field(default_factory=list)

    def given(self, *names: str) -> list[ShellOption]:
        """Return the options of these names, in order."""
        return [option for option in self.options if option.name in names]


def parse(syntax: Syntax, arguments: Sequence[ArgumentValue]) -> Parsed:
    """Take arguments apart."""
    parsed, rest = Parsed(), list(arguments[::-1])
    while rest:
        argument = rest.pop()
        text = argument.value
        if text == "--":
            parsed.operands += rest[::-1]
            break
        if text.startswith("--"):
            _long(syntax, argument, rest, parsed)
        elif text.startswith("-") and len(text) > 1:
            _short(syntax, argument, rest, parsed)
        else:
            parsed.operands.append(argument)
            if syntax.ordered:
                parsed.operands += rest[::-1]
                break
    return parsed


def _long(syntax: Syntax, argument: ArgumentValue, rest: list[ArgumentValue], parsed: Parsed) -> None:
    name, glued, value = argument.value[2:].partition("=")
    exact = [name] if name in syntax.names else []
    meant = exact or [known for known in syntax.names if known.startswith(name)]
    if not meant:
        parsed.unknown.append(ShellOption(name="--" + name, node=argument.node))
    taken: ArgumentValue | None = ArgumentValue(value=value, node=argument.node) if glued else None
    if meant and taken is None and syntax.names[meant[0]] == 1 and rest:
        taken = rest.pop()
    parsed.options += [ShellOption(name="--" + known, node=argument.node, value=taken) for known in meant]


def _short(syntax: Syntax, argument: ArgumentValue, rest: list[ArgumentValue], parsed: Parsed) -> None:
    letters = argument.value[1:]
    for index, letter in enumerate(letters):
        takes = syntax.letters.get(letter)
        glued = letters[index + 1 :]
        if takes is None:
            parsed.unknown.append(ShellOption(name="-" + letter, node=argument.node))
        elif takes == 0:
            parsed.options.append(ShellOption(name="-" + letter, node=argument.node))
        else:
            value = ArgumentValue(value=glued, node=argument.node) if glued else None
            if value is None and takes in {1, -1} and rest:
                value = rest.pop()
            if takes == -1:
                _long(
                    syntax,
                    ArgumentValue(value=f"--{value.value if value else ''}", node=argument.node),
                    rest,
                    parsed,
                )
                return
            parsed.options.append(ShellOption(name="-" + letter, node=argument.node, value=value))
            return
