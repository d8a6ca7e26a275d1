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

from assayd.static.shell.parse.options import Option, Parsed, Syntax, Text, parse
from assayd.static.shell.parse.resolve import Invocation
from assayd.static.shell.parse.script import Script
from assayd.static.shell.parse.words import ANY, VALUES, Argument, arguments_of
from assayd.static.shell.rules import awk, curl, sed
from assayd.static.shell.rules.assignments import check_name
from assayd.static.shell.rules.paths import Use, judge_path
from assayd.static.shell.rules.tools import AWK, SED, TOOLS, Operands, Tool

_UNKNOWN = Tool(syntax=Syntax())


def check_tool(script: Script, call: Invocation) -> None:
    """Judge the arguments of a command that is allowed."""
    taken = [one for word in call.arguments for one in arguments_of(word, script.known)]
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
                _check_find(script, arguments)
            case "env":
                _check_env(script, call, arguments)
            case "dd":
                _check_dd(script, arguments)
            case _:
                _check_paths(script, call.name, tool, parsed)


def alternatives(arguments: Sequence[Argument]) -> Iterator[list[Text]]:
    """Return the arguments with their first values, then their second, …: each value at least once."""
    most = min(max((len(one.values) for one in arguments), default=1), VALUES)
    for index in range(most):
        yield [
            Text(
                value=one.values[min(index, len(one.values) - 1)],
                node=one.node,
                loose=one.loose,
                many=one.many and one.unknown,
            )
            for one in arguments
        ]


def _check_options(script: Script, name: str, parsed: Parsed, arguments: Sequence[Text]) -> None:
    refused = script.commands.options.get(name, frozenset())
    for option in parsed.options:
        if option.name in refused:
            _refuse(script, name, option)
    if not refused:
        return
    for argument in arguments:
        if argument.value.startswith("-") and argument.value.lstrip("-").startswith(ANY):
            message = f"Which option {name} gets here cannot be seen beforehand."
            script.error(argument.node, "option.dynamic", message, "Write options in plain text.")
        elif argument.value == ANY and (argument.loose or argument.many):
            message = f"What {name} gets here may be options: {script.written(argument.node)}."
            suggestion = 'Quote it: "$name"; or put -- before it.'
            if not _after_dashes(arguments, argument):
                script.warn(argument.node, "argument.undecided", message, suggestion)


def _after_dashes(arguments: Sequence[Text], argument: Text) -> bool:
    values = [one.value for one in arguments[: arguments.index(argument)]]
    return "--" in values


def _refuse(script: Script, name: str, option: Option) -> None:
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


def _check_paths(script: Script, name: str, tool: Tool, parsed: Parsed) -> None:
    for option in parsed.options:
        if option.value is None:
            continue
        if option.name in tool.writes or option.name in tool.reads:
            what = f"{name} {option.name}"
            written = option.name in tool.writes
            judge_path(script, option.node, option.value.value, Use.WRITES if written else Use.READS, what)
    if name == "date":
        _check_date(script, parsed)
    for operand, written in _files(tool, parsed):
        if operand.value != "-":
            judge_path(script, operand.node, operand.value, Use.WRITES if written else Use.READS, name)


def _files(tool: Tool, parsed: Parsed) -> Iterator[tuple[Text, bool]]:
    """Return the operands that are paths, and whether each is written."""
    operands = parsed.operands
    if tool.operands is Operands.TEXT:
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


def _check_date(script: Script, parsed: Parsed) -> None:
    for operand in parsed.operands:
        if not operand.value.startswith(("+", ANY)):
            message = f"date with {script.written(operand.node)} sets the clock."
            suggestion = "Give a format that begins with +, e.g. date +%F; take a date apart with -d."
            script.error(operand.node, "option.refused", message, suggestion)


_FIND_WRITES = frozenset(("-fprint", "-fprint0", "-fprintf", "-fls"))


def _check_find(script: Script, arguments: Sequence[Text]) -> None:
    starting = True
    for index, argument in enumerate(arguments):
        starting = starting and not argument.value.startswith(("-", "(", "!"))
        if starting:
            judge_path(script, argument.node, argument.value, Use.READS, "find")
        elif argument.value == "-delete":
            script.error(
                argument.node,
                "option.refused",
                "find may not delete.",
                "The directory is thrown away anyway.",
            )
        elif argument.value in _FIND_WRITES and index + 1 < len(arguments):
            target = arguments[index + 1].value
            judge_path(script, argument.node, target, Use.WRITES, f"find {argument.value}")


def _check_env(script: Script, call: Invocation, arguments: Sequence[Text]) -> None:
    for argument in arguments:
        if argument.value.startswith(("-S", "--s")):
            message = "env -S takes a command apart that is one text here."
            script.error(argument.node, "option.refused", message, "Write the command itself after env.")
        elif "=" in argument.value and not argument.value.startswith("-"):
            check_name(script, argument.node, "env", call.call)
        elif not argument.value.startswith("-"):
            return


def _check_dd(script: Script, arguments: Sequence[Text]) -> None:
    for argument in arguments:
        key, _, value = argument.value.partition("=")
        if key in {"if", "of"}:
            judge_path(script, argument.node, value, Use.WRITES if key == "of" else Use.READS, f"dd {key}=")
