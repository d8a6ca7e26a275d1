"""Write the imports that a policy does not allow: those read in a source, and those seen in a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assayd.model.finding import Finding, Layer
from assayd.model.run import PolicyEvent

Violation = dict[str, object]
MAX_LISTED = 500
"""How many imports and violations are listed."""
RULE = "import.not_allowed"
_STATIC = frozenset({RULE, "import.relative", "import.star"})


def list_violations(findings: Iterable[Finding], events: Iterable[PolicyEvent]) -> list[Violation]:
    """Return all of them, those that were read first; at most as many as are listed."""
    return [*_static(findings), *runtime_violations(events)][:MAX_LISTED]


def _static(findings: Iterable[Finding]) -> Iterator[Violation]:
    """Return a violation for each finding of an import statement."""
    for finding in findings:
        if finding.rule in _STATIC and finding.layer is Layer.STATIC and finding.is_error:
            yield {
                "module": _module(finding),
                "location": "static",
                "file": finding.file,
                "line": finding.line,
                "rule": finding.rule,
            }


def runtime_violations(events: Iterable[PolicyEvent]) -> Iterator[Violation]:
    """Return a violation for each import that was seen and is not allowed."""
    for event in events:
        if event.kind == "import" and not event.allowed:
            yield {
                "module": event.detail,
                "location": "runtime",
                "file": event.file,
                "line": event.line,
                "rule": RULE,
            }


def _module(finding: Finding) -> str | None:
    """Return the module that the words of a finding quote; None for one that is only known at run time."""
    _, quote, rest = finding.message.partition("'")
    return rest.partition("'")[0] if quote else None
