"""Checks one bash script: the rules on what it runs, reads, writes and sets.

Every command counts, wherever it stands: in a function, a loop, a substitution, a here-document, an
arithmetic expression. All violations are given at once, in source order. Rules stand with their bad lines in
the modules that decide them; `RULES` lists all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assayd.model.finding import Finding
from assayd.model.policy import CommandPolicy, NetworkPolicy
from assayd.model.text_limits import FINDINGS
from assayd.static.shell.parse import source
from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.resolve import Form, Invocation, invocations
from assayd.static.shell.parse.script import Script, functions_of
from assayd.static.shell.parse.source import ShellSource
from assayd.static.shell.parse.variables import Known, find_settings, set_by_builtin
from assayd.static.shell.parse.words import arguments_of
from assayd.static.shell.rules.assignments import check_setting
from assayd.static.shell.rules.builtins import names_set
from assayd.static.shell.rules.commands import check_background, check_function, check_invocation
from assayd.static.shell.rules.declarations import check_called, check_declaration
from assayd.static.shell.rules.expansions import check_expansion
from assayd.static.shell.rules.hidden import check_hidden
from assayd.static.shell.rules.paths import descends
from assayd.static.shell.rules.redirections import check_redirection
from assayd.static.shell.rules.texts import COMMAND_RULES

RULES = (*source.RULES, *COMMAND_RULES)
_CLOSED = NetworkPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that a script may run, and the line where."""

    name: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCheck:
    """What was found in a script, and the commands that it names, both in source order."""

    findings: tuple[Finding, ...]
    commands: tuple[Command, ...] = ()


def parse_script(text: str) -> tuple[Finding, ...]:
    """Return whether a text is bash: no finding, or why it is not."""
    return source.parse(text).findings


def check_script(text: str, commands: CommandPolicy, *, network: NetworkPolicy = _CLOSED) -> ShellCheck:
    """Check a script; of a text that is not bash, only that is said.

    Args:
        text: the script, as it will run.
        commands: what it may run.
        network: what curl may reach.
    """
    parsed = source.parse(text)
    if parsed.root is None:
        return ShellCheck(findings=parsed.findings)
    try:
        script = _judge(parsed, parsed.root, commands, network)
    except RecursionError:
        return ShellCheck(findings=(source.too_deep(),))
    named = {(parsed.place(call.word.start)[0], call.name) for call in script.calls if call.name}
    return ShellCheck(
        findings=_in_order(script.findings),
        commands=tuple(Command(name=name, line=line) for line, name in sorted(named)),
    )


def _judge(parsed: ShellSource, root: Node, commands: CommandPolicy, network: NetworkPolicy) -> Script:
    script = _look(parsed, commands, network)
    for call in script.calls:
        check_invocation(script, call)
        check_called(script, call)
    for setting in script.settings:
        check_setting(script, setting)
    for node in parsed.nodes:
        _check_node(script, node)
    check_hidden(script, root)
    return script


def _look(parsed: ShellSource, commands: CommandPolicy, network: NetworkPolicy) -> Script:
    calls = invocations(parsed)
    settings = find_settings(parsed.nodes)
    by_builtin = [one for call in calls for one in set_by_builtin(call.call, names_set(call))]
    known = Known([*settings, *by_builtin])
    return Script(
        source=parsed,
        commands=commands,
        network=network,
        calls=calls,
        settings=settings,
        known=known,
        functions=functions_of(parsed.nodes),
        deepest=sum(_depth(call, known) for call in calls),
    )


def _depth(call: Invocation, known: Known) -> float:
    """Tell how many folders down a command changes the directory."""
    if call.name != "cd" or call.form is not Form.PLAIN:
        return 0
    folders = (value for word in call.arguments for one in arguments_of(word, known) for value in one.values)
    return max((descends(folder) for folder in folders if folder != "-"), default=0)


def _check_node(script: Script, node: Node) -> None:
    for redirection in node.nodes("Redirs"):
        check_redirection(script, redirection)
    match node.kind:
        case "FuncDecl":
            check_function(script, node)
        case "DeclClause":
            check_declaration(script, node)
        case "CoprocClause":
            check_background(script, node)
        case "" if node.fields.get("Background") or node.fields.get("Coprocess") or node.fields.get("Disown"):
            check_background(script, node)
        case _:
            check_expansion(script, node)


def _in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    distinct = {(f.line or 0, f.column or 0, f.rule, f.message): f for f in findings}
    return tuple(distinct[key] for key in sorted(distinct))[:FINDINGS]
