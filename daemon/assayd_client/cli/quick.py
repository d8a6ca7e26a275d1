"""Reads lines by the table of verbs, without a library: what scripts call in loops starts fast.

A line that it is not sure of (help, a slip, an option of another spelling) is left to typer, which reads by
the same table and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assayd_client.cli.verb import ADDRESS_OPTIONS, TYPES, CommandVerb, Parameter
from assayd_client.cli.verbs import GROUPS, TYPED, VERBS

if TYPE_CHECKING:
    from assayd_client import AddressOptions

SUMMARY = "Validate untrusted code in throwaway containers."
NAME_WIDTH = 12
OPTION_WIDTH = 17


def run(arguments: Sequence[str]) -> int | None:
    """Run a line, and return its exit code; None for a line that is left to typer."""
    if list(arguments) == ["--help"]:
        print(help_text(), end="")
        return 0
    if list(arguments) == ["--version"]:
        arguments = ["version"]
    daemon, rest = _address(arguments)
    verb = next((each for each in VERBS if rest and each.name == rest[0]), None)
    values = None if verb is None else read(verb, rest[1:])
    return None if verb is None or values is None else verb.call(daemon, values)


def read(verb: CommandVerb, words: Sequence[str]) -> dict[str, Any] | None:
    """Return what a line says for each parameter that it names; None for one that is left to typer."""
    options = {each.option: each for each in verb.parameters if each.option}
    values: dict[str, Any] = {}
    loose: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-") or word == "-":
            loose.append(word)
            continue
        option, equals, value = word.partition("=")
        parameter = options.get(option)
        if parameter is None or (parameter.is_flag and equals):
            return None
        if parameter.is_flag:
            values[parameter.name] = True
            continue
        if not equals:
            if not waiting or (waiting[0].startswith("-") and waiting[0] != "-"):
                return None
            value = waiting.pop(0)
        if not _take(values, parameter, value):
            return None
    return values if _place(values, verb, loose) else None


def help_text() -> str:
    """Return the help of the program: every verb, group and kind with commands, each in a line."""
    from assayd.kinds import registry

    lines = [(verb.name, verb.help) for verb in VERBS]
    lines += [(name, summary) for name, (_, summary) in {**GROUPS, **TYPED}.items()]
    shown = ((kind, registry.command_line(kind)) for kind in registry.own_kinds())
    lines += [(kind, found.commands_help) for kind, found in shown if found.commands]
    return "\n".join(
        [
            "Usage: assay [OPTIONS] COMMAND [ARGS]...",
            "",
            f"  {SUMMARY}",
            "",
            "Options:",
            *(
                f"  {f'{option} {metavar}':<{OPTION_WIDTH}} {text}"
                for option, (metavar, text) in ADDRESS_OPTIONS.items()
            ),
            f"  {'--help':<{OPTION_WIDTH}} Show this; after a command, what that takes.",
            "",
            "Commands:",
            *(_command_line(name, text) for name, text in sorted(lines)),
            "",
        ]
    )


def _command_line(name: str, text: str) -> str:
    room = 78 - NAME_WIDTH - 3
    first, *more = _folded(text, room)
    return "\n".join([f"  {name:<{NAME_WIDTH}} {first}", *(f"{'':<{NAME_WIDTH + 3}}{each}" for each in more)])


def _folded(text: str, room: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _address(arguments: Sequence[str]) -> tuple[AddressOptions | None, Sequence[str]]:
    """Return where the line's beginning says that the daemon is, and the rest."""
    named: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        option, equals, value = rest[0].partition("=")
        if option not in ADDRESS_OPTIONS or (not equals and len(rest) == 1):
            break
        named[option.removeprefix("--").replace("-", "_")] = value if equals else rest[1]
        del rest[: 1 if equals else 2]
    if not named:
        return None, rest
    from assayd_client import AddressOptions

    return AddressOptions(**named), rest


def _place(values: dict[str, Any], verb: CommandVerb, loose: list[str]) -> bool:
    """Give the words without an option to the arguments, in order; the last may take many."""
    for parameter in verb.parameters:
        if parameter.option:
            continue
        if not loose and parameter.required:
            return False
        count = len(loose) if parameter.many else 1
        taken, loose = loose[:count], loose[count:]
        if not all(_take(values, parameter, word) for word in taken):
            return False
    return not loose


def _take(values: dict[str, Any], parameter: Parameter, text: str) -> bool:
    """Note a value; False for one that it cannot be."""
    try:
        value: Any = TYPES[parameter.type](text)
    except ValueError:
        return False
    if parameter.least is not None and value < parameter.least:
        return False
    if parameter.most is not None and value > parameter.most:
        return False
    if parameter.many:
        values.setdefault(parameter.name, []).append(value)
    else:
        values[parameter.name] = value
    return True
