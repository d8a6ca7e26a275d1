"""Checks one bash script: the rules on what it runs, reads, writes and sets.

Every command counts, wherever it stands: in a function, a loop, a substitution, a here-document, an
arithmetic expression. All violations are given at once, in source order. Rules stand with their bad lines in
the modules that decide them; `RULES` lists all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from assayd.model.finding import Finding
from assayd.model.policy import CommandPolicy, NetworkPolicy
from assayd.model.text_limits import FINDINGS
from assayd.static.shell.parse import source
from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.resolve import Invocation, WordForm, invocations
from assayd.static.shell.parse.script import ParsedScript, functions_of
from assayd.static.shell.parse.source import ShellSource
from assayd.static.shell.parse.variables import Known, Setting, find_settings, set_by_builtin
from assayd.static.shell.parse.words import arguments_of
from assayd.static.shell.rules.assignments import check_setting
from assayd.static.shell.rules.builtins import names_set
from assayd.static.shell.rules.commands import check_background, check_function, check_invocation
from assayd.static.shell.rules.declarations import check_called, check_declaration
from assayd.static.shell.rules.dispatch import Followed
from assayd.static.shell.rules.expansions import check_expansion
from assayd.static.shell.rules.hidden import check_hidden
from assayd.static.shell.rules.paths import descends
from assayd.static.shell.rules.redirections import check_redirection
from assayd.static.shell.rules.texts import COMMAND_RULES
from assayd.static.shell.rules.traps import Trap, at_trap, settings_of, traps_of

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


def _judge(parsed: ShellSource, root: Node, commands: CommandPolicy, network: NetworkPolicy) -> ParsedScript:
    script, traps = _look(parsed, commands, network)
    _check_all(script, root)
    for trap in traps:
        findings = list(trap.source.findings)
        if trap.source.root is not None:
            inner = replace(
                script, source=trap.source, known=script.known.elsewhere(), findings=[], **_read(trap.source)
            )
            _check_all(inner, trap.source.root)
            findings += inner.findings
        script.findings += at_trap(script, trap, findings)
    return script


def _check_all(script: ParsedScript, root: Node) -> None:
    for call in script.calls:
        check_invocation(script, call)
        check_called(script, call)
    for setting in script.settings:
        check_setting(script, setting)
    for node in script.source.nodes:
        _check_node(script, node)
    check_hidden(script, root)


class _Read(TypedDict):
    calls: list[Invocation]
    settings: list[Setting]


def _read(parsed: ShellSource) -> _Read:
    """Return what is called and set in a text, as it is written."""
    return {"calls": invocations(parsed), "settings": find_settings(parsed.nodes)}


def _look(
    parsed: ShellSource, commands: CommandPolicy, network: NetworkPolicy
) -> tuple[ParsedScript, Sequence[Trap]]:
    written, settings = invocations(parsed), find_settings(parsed.nodes)
    traps = traps_of(written)
    called = [*written, *(call for trap in traps for call in invocations(trap.source))]
    by_builtin = [one for call in called for one in set_by_builtin(call.call, names_set(call))]
    everywhere = [*settings, *(one for trap in traps for one in settings_of(trap)), *by_builtin]
    followed = Followed(parsed, written, everywhere, commands.builtins)
    functions = functions_of([*parsed.nodes, *(node for trap in traps for node in trap.source.nodes)])
    script = ParsedScript(
        source=parsed,
        commands=commands,
        network=network,
        calls=followed.calls,
        settings=settings,
        known=followed.known,
        functions=functions,
        deepest=sum(_depth(call, followed.known) for call in followed.calls),
    )
    return script, traps


def _depth(call: Invocation, known: Known) -> float:
    """Return how many folders down a command changes the directory."""
    if call.name not in {"cd", "pushd"} or call.form is not WordForm.PLAIN:
        return 0
    folders = (value for word in call.arguments for one in arguments_of(word, known) for value in one.values)
    return max((descends(folder) for folder in folders if folder != "-"), default=0)


def _check_node(script: ParsedScript, node: Node) -> None:
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
