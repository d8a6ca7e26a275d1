"""What a check or a run has found wrong with submitted code, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assayd.model.document import DOCUMENT, about
from assayd.model.text_limits import EDIT_CHARS, MESSAGE_CHARS, TRACEBACK_CHARS, shorten


class Severity(StrEnum):
    """How much a finding weighs."""

    ERROR = "error"
    """The submission fails because of it."""
    WARNING = "warning"
    """Worth telling; does not fail the submission."""
    INFO = "info"
    """Context only."""


class Layer(StrEnum):
    """Where a finding was made."""

    STATIC = "static"
    """By reading the source."""
    RUNTIME = "runtime"
    """By running it in a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that a validator can apply; discovery and SARIF read it."""

    __pydantic_config__ = DOCUMENT

    id: str = field(metadata=about("Name in findings."))
    title: str = field(metadata=about("The fault in a few words."))
    severity: Severity = field(default=Severity.ERROR, metadata=about("Severity of its findings."))
    help: str = field(default="", metadata=about("A wrong and a right example."))
    profile_key: str | None = field(
        default=None,
        metadata=about("The profile's key that states it, or `enforcement`; null: no profile does."),
    )


def keyed(rules: Iterable[Rule], keys: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return rules with the profile's keys that state them, by rule id."""
    return tuple(replace(rule, profile_key=keys.get(rule.id, rule.profile_key)) for rule in rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A replacement of whole lines that is certain to be right."""

    __pydantic_config__ = DOCUMENT

    start_line: int = field(metadata=about("First line to replace, from 1."))
    end_line: int = field(metadata=about("Last line to replace; one less than the first inserts before it."))
    replacement: str = field(metadata=about("The new lines."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found, at one place.

    `subject` is the name that a rule of the profile refuses: a module, an attribute, a command, a host.
    Lines and columns are 1-based and refer to the checked (and run) text. `file` is which of the
    submitted files they are in; None where there is but one text.
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
        """Return whether this finding fails the submission."""
        return self.severity is Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class FixHint:
    """What a person or a model should change, derived from one finding."""

    __pydantic_config__ = DOCUMENT

    category: str = field(metadata=about("Group of rules."))
    message: str = field(metadata=about("The fault."))
    context: str | None = field(metadata=about("Place: source, or the unit that ran."))
    suggestion: str = field(metadata=about("The fix."))
    file: str | None = field(default=None, metadata=about("Submitted file; null if there is only one text."))
    line: int | None = field(metadata=about("Line, from 1."))
    rule: str = field(metadata=about("Id of the rule."))
    edit: Edit | None = field(default=None, metadata=about("The change itself, if it is certain."))


def fix_hints(findings: Iterable[Finding]) -> tuple[FixHint, ...]:
    """Derive a hint from every finding that says what to do."""
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


def bounded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Shorten long texts, and drop the edits after the first `EDIT_CHARS` characters of edits.

    A finding quotes the submission: without a bound, a name of one megabyte takes six in the report.
    """
    kept: list[Finding] = []
    left = EDIT_CHARS
    for finding in findings:
        left -= len(finding.edit.replacement) if finding.edit is not None else 0
        edit = finding.edit if left >= 0 else None
        kept.append(_shortened(finding) if edit is finding.edit else replace(_shortened(finding), edit=edit))
    return tuple(kept)


def _shortened(finding: Finding) -> Finding:
    longest = max(len(text or "") for text in (finding.message, finding.suggestion, finding.snippet))
    if longest <= MESSAGE_CHARS and len(finding.context or "") <= TRACEBACK_CHARS:
        return finding
    return replace(
        finding,
        message=shorten(finding.message),
        suggestion=finding.suggestion and shorten(finding.suggestion),
        snippet=finding.snippet and shorten(finding.snippet),
        context=finding.context and shorten(finding.context, TRACEBACK_CHARS),
    )


def has_errors(findings: Sequence[Finding]) -> bool:
    """Return whether any of the findings fails the submission."""
    return any(f.is_error for f in findings)
