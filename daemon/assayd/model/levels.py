"""What a profile makes of findings about quality: errors, warnings, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from assayd.model.finding import Finding, Severity
from assayd.model.policy import QUALITY_RULES, QualityPolicy, RuleLevel


def with_levels(findings: Iterable[Finding], quality: QualityPolicy) -> tuple[Finding, ...]:
    """Return the findings, those about quality with the severity that the profile gives them."""
    return tuple(_leveled(findings, quality))


def _leveled(findings: Iterable[Finding], quality: QualityPolicy) -> Iterator[Finding]:
    for finding in findings:
        if finding.rule not in QUALITY_RULES or finding.severity is Severity.INFO:
            yield finding
            continue
        level = quality.level(finding.rule)
        if level is not RuleLevel.OFF:
            severity = Severity.ERROR if level is RuleLevel.ERROR else Severity.WARNING
            yield finding if finding.severity is severity else replace(finding, severity=severity)


def is_about_quality(finding: Finding) -> bool:
    """Return whether a finding says that a pass is worth little."""
    return finding.rule in QUALITY_RULES and finding.severity is not Severity.INFO
