"""Checks one bash script with the rules for commands, paths and variables.

Every command is checked, regardless of its position: in a function, a loop, a substitution, a here-document
or an arithmetic expression. All violations are reported at once, in source order. The modules of the rules
show examples of rejected lines; `RULES` lists all rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assayd.model.finding import Finding
from assayd.model.policy import CommandPolicy, NetworkPolicy
from assayd.model.text_limits import FINDINGS
from assayd_pipeline.shell import slips
from assayd_pipeline.shell.files import WorkFiles, check_files, list_written_prefixes
from assayd_pipeline.shell.parse import source
from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.resolve import find_script_arguments, list_invocations
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.source import ShellSource
from assayd_pipeline.shell.parse.words import (
    AssignmentMethod,
    FunctionScopes,
    KnownValues,
    VariableSetting,
    find_settings,
    get_literal_text,
)
from assayd_pipeline.shell.rules import COMMAND_RULES
from assayd_pipeline.shell.rules.builtins import (
    check_declaration,
    check_expansion,
    check_setting,
    find_set_names,
    get_trap_action,
    relocate_to_trap,
)
from assayd_pipeline.shell.rules.commands import check_background, check_function, check_invocation
from assayd_pipeline.shell.rules.mistakes import check_mistakes
from assayd_pipeline.shell.rules.paths import check_redirection
from assayd_pipeline.shell.slips import add_mistake_findings, explain_unreadable

RULES = (*source.RULES, *COMMAND_RULES, *slips.RULES)
_CLOSED_NETWORK = NetworkPolicy()
MAX_TRAPS = 64
"""Maximum texts of traps to parse; each needs a run of the parser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCommand:
    """A command that a script can run, and the line of the command."""

    name: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCheck:
    """The findings about a script, and the commands in the script, both in source order."""

    findings: tuple[Finding, ...]
    commands: tuple[ScriptCommand, ...] = ()
    written: tuple[str, ...] = ("",)
    """Literal prefixes of the paths that the script writes; an empty one means any path."""


def parse_script(text: str) -> tuple[Finding, ...]:
    """Return the finding about invalid syntax with its correction, or () if the text is valid bash."""
    return tuple(_choose_explanation(text, finding) for finding in source.parse_source(text).findings)


def _choose_explanation(text: str, finding: Finding) -> Finding:
    """Return ShellCheck's explanation of a syntax error, unless only the parser's has an edit."""
    if finding.rule != "shell.syntax":
        return finding
    explained = explain_unreadable(text, finding)
    return (
        finding if explained is None or (explained.edit is None and finding.edit is not None) else explained
    )


def check_script(
    text: str,
    commands: CommandPolicy,
    *,
    network: NetworkPolicy = _CLOSED_NETWORK,
    files: WorkFiles | None = None,
) -> ShellCheck:
    """Check a script. If its syntax is invalid, return only the syntax finding.

    Args:
        text: the script, in the form in which it will run.
        commands: the allowed commands.
        network: the hosts that curl can reach.
        files: the files that exist at the start; None if unknown.
    """
    parsed = source.parse_source(text)
    if parsed.root is None:
        return ShellCheck(findings=parsed.findings)
    try:
        script = _collect_facts(parsed, commands, network)
        if files is not None:
            check_files(script, files)
    except RecursionError:
        return ShellCheck(findings=(source.build_too_deep_finding(),))
    named = {(parsed.place(call.word.start)[0], call.name) for call in script.calls if call.name}
    return ShellCheck(
        findings=add_mistake_findings(text, _sort_findings(script.findings)),
        commands=tuple(ScriptCommand(name=name, line=line) for line, name in sorted(named)),
        written=list_written_prefixes(script),
    )


def _collect_facts(parsed: ShellSource, commands: CommandPolicy, network: NetworkPolicy) -> ParsedScript:
    settings = find_settings(parsed.nodes)
    scopes = FunctionScopes(parsed.nodes)
    written = list_invocations(parsed, KnownValues(), scopes)
    by_builtin = (
        VariableSetting(name=name.partition("[")[0], how=AssignmentMethod.BUILTIN, node=call.call)
        for call in written
        for word in find_set_names(call)
        if (name := get_literal_text(word)) is not None
    )
    known = KnownValues([*settings, *by_builtin], find_script_arguments(parsed, scopes), scopes)
    script = ParsedScript(
        source=parsed,
        commands=commands,
        network=network,
        calls=list_invocations(parsed, known, scopes),
        settings=settings,
        known=known,
        functions=scopes.names,
    )
    _check_all_nodes(script)
    _check_traps(script)
    return script


def _check_all_nodes(script: ParsedScript) -> None:
    check_mistakes(script)
    for call in script.calls:
        check_invocation(script, call)
    for setting in script.settings:
        check_setting(script, setting)
    for node in script.source.nodes:
        _check_node(script, node)


def _check_traps(script: ParsedScript) -> None:
    """Check the text of each trap as a script that has the same functions and variables."""
    actions = [
        (call.word, get_literal_text(word))
        for call in script.calls
        if (word := get_trap_action(call)) is not None
    ]
    texts = {text: place for place, text in actions if text is not None and text.strip() and text != "-"}
    for number, (text, place) in enumerate(texts.items()):
        if number == MAX_TRAPS:
            script.findings.append(relocate_to_trap(script, place, source.build_too_deep_finding()))
            return
        parsed = source.parse_source(text)
        inner = replace(
            script,
            source=parsed,
            calls=list_invocations(parsed, script.known, FunctionScopes(parsed.nodes)),
            settings=find_settings(parsed.nodes),
            findings=list(parsed.findings),
            paths=[],
        )
        _check_all_nodes(inner)
        script.findings += [relocate_to_trap(script, place, finding) for finding in inner.findings]


def _check_node(script: ParsedScript, node: ScriptNode) -> None:
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


def _sort_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    distinct = {(f.line or 0, f.column or 0, f.rule, f.message): f for f in findings}
    return tuple(distinct[key] for key in sorted(distinct))[:FINDINGS]
