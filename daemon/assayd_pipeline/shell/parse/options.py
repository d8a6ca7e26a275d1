"""Splits the arguments of a command into options, values and operands in the same way as `getopt_long`.

Options can follow operands. Short options can be joined to each other or to their value, and long options
can be abbreviated. ``--`` ends the options. Only options with a value need an entry in a `Syntax`; all
other options are flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from assayd_pipeline.shell.parse.nodes import ScriptNode

_LETTER = re.compile(r"([^:;])(::?|;)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentValue:
    """One possible value of an argument, and the argument's word."""

    value: str
    node: ScriptNode
    loose: bool = False


@dataclass(frozen=True, kw_only=True)
class OptionSyntax:
    """The options of a command that take a value.

    Args:
        short: as for getopt: a letter, and ``:`` if a value follows, ``::`` if it can be joined to the
            letter, ``;`` if a long option follows.
        long: names of long options, separated by spaces. One with a final ``?`` doesn't take the next
            argument as its value; it is listed if it could be mistaken for an abbreviation.
        ordered: whether the first operand ends the options.
    """

    short: str = ""
    long: str = ""
    ordered: bool = False

    @cached_property
    def short_options(self) -> dict[str, str]:
        """Return the mark of each short option that takes a value."""
        return dict(_LETTER.findall(self.short))

    @cached_property
    def names(self) -> dict[str, bool]:
        """Return each long option, and whether the option takes the next argument as its value."""
        return {name.rstrip("?"): not name.endswith("?") for name in self.long.split()}

    def expand_abbreviation(self, name: str, others: Iterable[str] = ()) -> str:
        """Return the long option that `name` abbreviates, or `name` if it isn't an abbreviation."""
        known = [*(other[2:] for other in others if other.startswith("--")), *self.names]
        fitting = [each for each in known if each.startswith(name)]
        return name if name in known or not fitting else fitting[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOption:
    """An option, as ``-x`` or the unabbreviated ``--name``, and its value."""

    name: str
    node: ScriptNode
    value: ArgumentValue | None = None


@dataclass(slots=True, kw_only=True)
class ParsedArguments:
    """The options and operands of a command."""

    options: list[ShellOption] = field(default_factory=list)
    operands: list[ArgumentValue] = field(default_factory=list)

    def list_options(self, *names: str) -> list[ShellOption]:
        """Return the options that have one of these names, in their order."""
        return [option for option in self.options if option.name in names]


def parse_arguments(
    syntax: OptionSyntax, arguments: Sequence[ArgumentValue], others: Iterable[str] = ()
) -> ParsedArguments:
    """Split arguments; `others` contains further long options that can be abbreviated."""
    parsed, rest = ParsedArguments(), list(arguments[::-1])
    while rest:
        argument = rest.pop()
        text = argument.value
        if text == "--":
            parsed.operands += rest[::-1]
            break
        if text.startswith("--"):
            parsed.options.append(_parse_long(syntax, argument, rest, others))
        elif text.startswith("-") and len(text) > 1:
            parsed.options += _parse_short(syntax, argument, rest, others)
        else:
            parsed.operands.append(argument)
            if syntax.ordered:
                parsed.operands += rest[::-1]
                break
    return parsed


def _parse_long(
    syntax: OptionSyntax, argument: ArgumentValue, rest: list[ArgumentValue], others: Iterable[str]
) -> ShellOption:
    written, glued, text = argument.value[2:].partition("=")
    name = syntax.expand_abbreviation(written, others)
    value = ArgumentValue(value=text, node=argument.node) if glued else None
    if value is None and syntax.names.get(name) and rest:
        value = rest.pop()
    return ShellOption(name="--" + name, node=argument.node, value=value)


def _parse_short(
    syntax: OptionSyntax, argument: ArgumentValue, rest: list[ArgumentValue], others: Iterable[str]
) -> list[ShellOption]:
    found: list[ShellOption] = []
    node, letters = argument.node, argument.value[1:]
    for index, letter in enumerate(letters, 1):
        mark = syntax.short_options.get(letter)
        if mark is None:
            found.append(ShellOption(name="-" + letter, node=node))
            continue
        value = ArgumentValue(value=letters[index:], node=node) if letters[index:] else None
        if value is None and mark != "::" and rest:
            value = rest.pop()
        if mark == ";":
            long = ArgumentValue(value=f"--{value.value if value else ''}", node=node)
            return [*found, _parse_long(syntax, long, rest, others)]
        return [*found, ShellOption(name="-" + letter, node=node, value=value)]
    return found
