"""The rules on what tools read and write, and on options that the policy refuses.

sort --compress-prog=sh f     option.refused
sort --$x f                   option.dynamic
sort $options f               argument.undecided   (a warning)
sort -o/etc/x f               path.outside
cp data/a /etc/a              path.outside
date 01010000                 option.refused
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assayd.static.shell.parse.options import ArgumentValue, Parsed, ShellOption, Syntax, parse
from assayd.static.shell.parse.resolve import Invocation
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.words import ANY, VALUES, Argument, arguments_of, pieces_of
from assayd.static.shell.rules import awk, curl, find, jq, sed
from assayd.static.shell.rules.assignments import check_name
from assayd.static.shell.rules.paths import PathUse, judge_path
from assayd.static.shell.rules.prefixes import PREFIXES, skip
from assayd.static.shell.rules.tool import Operands, Tool
from assayd.static.shell.rules.tools import AWK, SED, TOOLS

_UNKNOWN = Tool(syntax=Syntax())


def check_tool(script: ParsedScript, call: Invocation) -> None:
    """Judge the arguments of a command that is allowed."""
    written = [one for word in call.arguments for one in arguments_of(word, script.known)]
    taken = given_to(call, [*call.leading, *written])
    tool = {"awk": AWK, "sed": SED}.get(call.name) or TOOLS.get(call.name, _UNKNOWN)
    for arguments in alternatives(taken):
        parsed = parse(tool.syntax, arguments)
        _check_options(script, call.name, parsed, arguments)
        match call.name:
            case "awk":
                awk.check(script, call, parsed)
            case "sed":
                sed.check(script, call, parsed)
            case "curl":
                curl.check(script, call, arguments)
            case "find":
                find.check(script, arguments)
            case "jq":
                jq.check(script, call, arguments)
            case prefix if prefix in PREFIXES:
                _check_prefix(script, call, arguments)
            case "dd":
                _check_dd(script, arguments)
            case _:
                _check_paths(script, call.name, tool, parsed)


def given_to(call: Invocation, arguments: Sequence[Argument]) -> list[Argument]:
    """Return the arguments of a command with what xargs gives to it, which is known only when it runs."""
    given = call.given
    if given is None:
        return list(arguments)
    if not given.replaced:
        return [*arguments, Argument(node=call.word, values=(ANY,))]
    mark = given.replaced
    return [replace(one, values=tuple(v.replace(mark, ANY) for v in one.values)) for one in arguments]


def alternatives(arguments: Sequence[Argument]) -> Iterator[list[ArgumentValue]]:
    """Return the arguments with their first values, then their second, …: each value at least once."""
    most = min(max((len(one.values) for one in arguments), default=1), VALUES)
    for index in range(most):
        yield [
            ArgumentValue(
                value=one.values[min(index, len(one.values) - 1)],
                node=one.node,
                loose=one.loose,
                many=one.many and one.unknown,
            )
            for one in arguments
        ]


def _check_options(
    script: ParsedScript, name: str, parsed: Parsed, arguments: Sequence[ArgumentValue]
) -> None:
    refused = script.commands.options.get(name, frozenset())
    for option in parsed.options:
        if option.name in refused:
            _refuse(script, name, option)
    if not refused:
        return
    values = {id(option.value) for option in parsed.options if option.value is not None}
    for argument in arguments:
        if id(argument) in values:
            continue
        if argument.value.startswith("-") and argument.value.lstrip("-").startswith(ANY):
            message = f"Which option {name} gets here cannot be seen beforehand."
            script.error(argument.node, "option.dynamic", message, "Write options in plain text.")
        elif argument.value == ANY and (argument.loose or argument.many):
            message = f"What {name} gets here may be options: {script.written(argument.node)}."
            suggestion = 'Quote it: "$name"; or put -- before it.'
            if not _after_dashes(arguments, argument):
                script.warn(argument.node, "argument.undecided", message, suggestion)


def _after_dashes(arguments: Sequence[ArgumentValue], argument: ArgumentValue) -> bool:
    values = [one.value for one in arguments[: arguments.index(argument)]]
    return "--" in values


def _refuse(script: ParsedScript, name: str, option: ShellOption) -> None:
    message = f"{name} may not be used with {option.name}."
    suggestion = _INSTEAD.get((name, option.name.lstrip("-")), f"Use {name} without {option.name}.")
    script.error(option.node, "option.refused", message, suggestion)


_INSTEAD = {
    ("awk", "f"): "Give the program in single quotes: awk '{ … }' file.",
    ("awk", "file"): "Give the program in single quotes: awk '{ … }' file.",
    ("sed", "f"): "Give the commands in single quotes: sed -e '…' -e '…' file.",
    ("sed", "file"): "Give the commands in single quotes: sed -e '…' -e '…' file.",
    ("tail", "f"): "It never ends. Use tail -n.",
    ("tail", "F"): "It never ends. Use tail -n.",
    ("tail", "follow"): "It never ends. Use tail -n.",
    ("cp", "s"): "Copy the file itself: without -s.",
    ("cp", "l"): "Copy the file itself: without -l.",
}


def _check_paths(script: ParsedScript, name: str, tool: Tool, parsed: Parsed) -> None:
    for option in parsed.options:
        if option.value is None:
            continue
        if option.name in tool.writes or option.name in tool.reads:
            what = f"{name} {option.name}"
            written = option.name in tool.writes
            judge_path(
                script, option.node, option.value.value, PathUse.WRITES if written else PathUse.READS, what
            )
    if name == "date":
        _check_date(script, parsed)
    for operand, written in _files(tool, parsed):
        if operand.value != "-":
            judge_path(
                script, operand.node, operand.value, PathUse.WRITES if written else PathUse.READS, name
            )


def _files(tool: Tool, parsed: Parsed) -> Iterator[tuple[ArgumentValue, bool]]:
    """Return the operands that are paths, and whether each is written."""
    operands = parsed.operands
    if tool.operands is Operands.TEXT or parsed.given(*tool.texts):
        return
    if tool.operands is Operands.PATTERN_FIRST and not parsed.given(*tool.patterns):
        operands = operands[1:]
    last = len(operands) - 1
    for index, operand in enumerate(operands):
        match tool.operands:
            case Operands.ALL_WRITTEN:
                written = True
            case Operands.LAST_WRITTEN:
                written = index == last and not parsed.given(*tool.targets)
            case Operands.SECOND_WRITTEN:
                written = index == 1
            case _:
                written = False
        yield operand, written


def _check_date(script: ParsedScript, parsed: Parsed) -> None:
    for operand in parsed.operands:
        if not operand.value.startswith(("+", ANY)):
            message = f"date with {script.written(operand.node)} sets the clock."
            suggestion = "Give a format that begins with +, e.g. date +%F; take a date apart with -d."
            script.error(operand.node, "option.refused", message, suggestion)


def _check_prefix(script: ParsedScript, call: Invocation, arguments: Sequence[ArgumentValue]) -> None:
    """Judge the options of a command that runs another; that one is judged by itself."""
    prefix = PREFIXES[call.name]
    skipped = skip(prefix, call.arguments)
    for value, node in skipped.given("-a", "--arg-file") if call.name == "xargs" else ():
        judge_path(script, node, value, PathUse.READS, "xargs -a")
    for value, node in skipped.given("-C", "--chdir") if call.name == "env" else ():
        judge_path(script, node, value, PathUse.ENTERS, "env -C")
    for _, node in skipped.given("-S", "--split-string") if call.name == "env" else ():
        message = "env -S takes a command apart that is one text here."
        script.error(node, "option.refused", message, "Write the command itself after env.")
    for word in call.arguments[: skipped.words] if prefix.assignments else ():
        if "=" in pieces_of(word) and not pieces_of(word).startswith("-"):
            check_name(script, word, call.name, call.call)


def _check_dd(script: ParsedScript, arguments: Sequence[ArgumentValue]) -> None:
    for argument in arguments:
        key, _, value = argument.value.partition("=")
        if key in {"if", "of"}:
            judge_path(
                script, argument.node, value, PathUse.WRITES if key == "of" else PathUse.READS, f"dd {key}="
            )
