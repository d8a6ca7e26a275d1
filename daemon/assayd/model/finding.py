"""Findings: faults of submitted code, found by a check or a run, with their remedies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assayd.model.document import DOCUMENT, document_field
from assayd.model.text_limits import MAX_EDIT_CHARS, MAX_TRACEBACK_CHARS, MESSAGE_CHARS, shorten_text


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """The finding fails the submission."""
    WARNING = "warning"
    """The finding is worth reporting but doesn't fail the submission."""
    INFO = "info"
    """The finding is context only."""


class Layer(StrEnum):
    """The source of a finding."""

    STATIC = "static"
    """Reading the source text."""
    RUNTIME = "runtime"
    """Running the code in a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that a validator can apply, as listed in discovery responses and SARIF."""

    __pydantic_config__ = DOCUMENT

    id: str = field(metadata=document_field("Name in findings."))
    title: str = field(metadata=document_field("The fault in a few words."))
    severity: Severity = field(default=Severity.ERROR, metadata=document_field("Severity of its findings."))
    help: str = field(default="", metadata=document_field("A wrong and a right example."))
    profile_key: str | None = field(
        default=None,
        metadata=document_field("The profile's key that states it, or `enforcement`; null: no profile does."),
    )


def add_profile_keys(rules: Iterable[Rule], keys: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules with the profile keys that define them. `keys` maps rule ids to profile keys."""
    return tuple(replace(rule, profile_key=keys.get(rule.id, rule.profile_key)) for rule in rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A replacement of whole lines that is certain to fix a finding."""

    __pydantic_config__ = DOCUMENT

    start_line: int = field(metadata=document_field("First line to replace, from 1."))
    end_line: int = field(
        metadata=document_field("Last line to replace; one less than the first inserts before it.")
    )
    replacement: str = field(metadata=document_field("The new lines."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault at one location.

    `subject` is the name that a rule of the profile rejects: a module, an attribute, a command, a host.
    Lines and columns are 1-based and refer to the checked text, which is also the text that runs. `file` is
    the submitted file, or None if the submission is a single text.
    """

    rule: str
    category: str
    message: str
    severity: Severity = Severity.ERROR
    layer: Layer = Layer.STATIC
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    snippet: str | None = None
    suggestion: str | None = None
    edit: Edit | None = None
    context: str | None = None
    profile_key: str | None = None
    subject: str | None = None

    @property
    def is_error(self) -> bool:
        """Return whether this finding makes the submission fail."""
        return self.severity is Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class FixHint:
    """A change for a person or a model to make, derived from one finding."""

    __pydantic_config__ = DOCUMENT

    category: str = field(metadata=document_field("Group of rules."))
    message: str = field(metadata=document_field("The fault."))
    context: str | None = field(metadata=document_field("Place: source, or the unit that ran."))
    suggestion: str = field(metadata=document_field("The fix."))
    file: str | None = field(
        default=None, metadata=document_field("Submitted file; null if there is only one text.")
    )
    line: int | None = field(metadata=document_field("Line, from 1."))
    rule: str = field(metadata=document_field("Id of the rule."))
    edit: Edit | None = field(default=None, metadata=document_field("The change itself, if it is certain."))


def list_fix_hints(findings: Iterable[Finding]) -> tuple[FixHint, ...]:
    """Return a hint for every finding that has a suggestion."""
    return tuple(
        FixHint(
            category=f.category,
            message=f.message,
            context=f.context or f.snippet,
            suggestion=f.suggestion,
            line=f.line,
            rule=f.rule,
            file=f.file,
            edit=f.edit,
        )
        for f in findings
        if f.suggestion is not None
    )


def limit_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with shortened strings and with at most `MAX_EDIT_CHARS` characters of edits.

    Hints get a space in place of each control character.

    Because findings quote the submission, a name of one megabyte would otherwise occupy six megabytes in
    the report.
    """
    kept: list[Finding] = []
    left = MAX_EDIT_CHARS
    for finding in findings:
        left -= len(finding.edit.replacement) if finding.edit is not None else 0
        edit = finding.edit if left >= 0 else None
        shortened = _shorten_finding(finding)
        kept.append(shortened if edit is finding.edit else replace(shortened, edit=edit))
    return tuple(kept)


_CONTROL_PATTERN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal or the direction of text. Hints can quote a submitted line."""


def _shorten_finding(finding: Finding) -> Finding:
    if finding.suggestion is not None and _CONTROL_PATTERN.search(finding.suggestion):
        finding = replace(finding, suggestion=_CONTROL_PATTERN.sub(" ", finding.suggestion))
    longest = max(len(text or "") for text in (finding.message, finding.suggestion, finding.snippet))
    if longest <= MESSAGE_CHARS and len(finding.context or "") <= MAX_TRACEBACK_CHARS:
        return finding
    return replace(
        finding,
        message=shorten_text(finding.message),
        suggestion=finding.suggestion and shorten_text(finding.suggestion),
        snippet=finding.snippet and shorten_text(finding.snippet),
        context=finding.context and shorten_text(finding.context, MAX_TRACEBACK_CHARS),
    )


def has_errors(findings: Sequence[Finding]) -> bool:
    """Return whether any finding makes the submission fail."""
    return any(f.is_error for f in findings)
