"""The imports that a policy does not allow: those read in a source, and those seen in a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import Field

from assayd.documents.base import BaseDocument
from assayd.model.finding import Finding, Layer
from assayd.model.run import PolicyEvent

MAX_LISTED = 500
"""How many imports and violations are listed."""
RULE = "import.not_allowed"
_STATIC = frozenset({RULE, "import.relative", "import.star"})


class ImportViolationDocument(BaseDocument):
    """One import that the policy does not allow."""

    module: str | None = Field(description="Dotted name; null when it is computed.")
    location: Layer = Field(description="Found by reading or by running.")
    file: str | None = Field(description="Submitted file of the import.")
    line: int | None = Field(description="Line of the import.")
    rule: str = Field(description="Id of the rule.")


def list_violations(
    findings: Iterable[Finding], events: Iterable[PolicyEvent]
) -> list[ImportViolationDocument]:
    """Return all of them, those that were read first; at most as many as are listed."""
    return [*_static(findings), *runtime_violations(events)][:MAX_LISTED]


def _static(findings: Iterable[Finding]) -> Iterator[ImportViolationDocument]:
    """Return a violation for each finding of an import statement."""
    for finding in findings:
        if finding.rule in _STATIC and finding.layer is Layer.STATIC and finding.is_error:
            yield ImportViolationDocument.from_value(finding, module=_module(finding), location=Layer.STATIC)


def runtime_violations(events: Iterable[PolicyEvent]) -> Iterator[ImportViolationDocument]:
    """Return a violation for each import that was seen and is not allowed."""
    for event in events:
        if event.kind == "import" and not event.allowed:
            yield ImportViolationDocument.from_value(
                event, module=event.detail, location=Layer.RUNTIME, rule=RULE
            )


def _module(finding: Finding) -> str | None:
    """Return the module that the words of a finding quote; None for one that is only known at run time."""
    _, quote, rest = finding.message.partition("'")
    return rest.partition("'")[0] if quote else None
