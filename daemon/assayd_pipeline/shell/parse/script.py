"""Holds one script under one policy, with the facts that the rules use, and the rules' findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assayd.findings.source_text import get_line, get_snippet
from assayd.model.finding import Edit, Finding, Severity
from assayd.model.policy import CommandPolicy, NetworkPolicy
from assayd.model.text_limits import shorten_text
from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.resolve import Invocation
from assayd_pipeline.shell.parse.source import ShellSource
from assayd_pipeline.shell.parse.words import KnownValues, VariableSetting, get_parameter_name

_CATEGORY_BY_PREFIX = {
    "awk": "option",
    "sed": "option",
    "curl": "option",
    "builtin": "command",
    "function": "command",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPath:
    """A path in a script: its value, its use, and the command or operator that uses it (`cat`, `>`)."""

    node: ScriptNode
    value: str
    use: str
    what: str


@dataclass(slots=True, kw_only=True, eq=False)
class ParsedScript:
    """A parsed script with its facts. Rules call `error` and `add_warning` to add findings."""

    source: ShellSource
    commands: CommandPolicy
    network: NetworkPolicy
    calls: Sequence[Invocation]
    settings: Sequence[VariableSetting]
    known: KnownValues
    functions: frozenset[str]
    findings: list[Finding] = field(default_factory=list)
    paths: list[NamedPath] = field(default_factory=list)

    def error(
        self,
        node: ScriptNode,
        rule: str,
        message: str,
        suggestion: str,
        *,
        edit: Edit | None = None,
        subject: str | None = None,
    ) -> None:
        """Add an error at a node. `subject` is the rejected command."""
        self._add_finding(node, rule, message, suggestion, Severity.ERROR, edit)
        if subject is not None:
            self.findings[-1] = replace(self.findings[-1], subject=subject)

    def add_warning(
        self, node: ScriptNode, rule: str, message: str, suggestion: str, *, edit: Edit | None = None
    ) -> None:
        """Add a warning for a case that is undecidable before the run; the container isolates the script."""
        self._add_finding(node, rule, message, suggestion, Severity.WARNING, edit)

    @property
    def assigned_variables(self) -> set[str]:
        """Return the names of the variables that the script assigns at any position, also by builtins."""
        return {setting.name for setting in self.settings} | self.known.names

    @property
    def used_variables(self) -> set[str]:
        """Return the names of the variables that the script assigns or expands at any position."""
        read = (get_parameter_name(node) for node in self.source.nodes if node.kind == "ParamExp")
        return {*self.assigned_variables, *read}

    def build_line_edit(self, line: int, text: str) -> Edit:
        """Return the edit that replaces a line."""
        return Edit(start_line=line, end_line=line, replacement=text)

    def build_replacement_edit(self, node: ScriptNode, text: str) -> Edit | None:
        """Return the edit that replaces a node with `text`, or None if the node spans several lines."""
        line, column = self.source.place(node.start)
        whole = get_line(self.source.text, line)
        written = self.source.written(node)
        if whole is None or "\n" in written:
            return None
        replacement = whole[: column - 1] + text + whole[column - 1 + len(written) :]
        return Edit(start_line=line, end_line=line, replacement=replacement)

    def written(self, node: ScriptNode) -> str:
        """Return the source text of a node, truncated."""
        return shorten_text(self.source.written(node), 80)

    def _add_finding(
        self,
        node: ScriptNode,
        rule: str,
        message: str,
        suggestion: str,
        severity: Severity,
        edit: Edit | None,
    ) -> None:
        line, column = self.source.place(node.start)
        end_line, _ = self.source.place(max(node.start, node.end - 1))
        category = rule.partition(".")[0]
        self.findings.append(
            Finding(
                rule=rule,
                category=_CATEGORY_BY_PREFIX.get(category, category),
                message=shorten_text(message),
                severity=severity,
                line=line,
                column=column,
                end_line=end_line,
                snippet=get_snippet(self.source.text, line),
                suggestion=suggestion,
                edit=edit,
            )
        )
