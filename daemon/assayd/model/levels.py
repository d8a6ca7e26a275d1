"""Applies a profile's severities to quality findings: error, warning, or off. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from assayd.model.finding import Finding, Severity
from assayd.model.policy import QUALITY_RULES, QualityPolicy, RuleLevel


def with_levels(findings: Iterable[Finding], quality: QualityPolicy) -> tuple[Finding, ...]:
    """Return the findings, with the profile's severity for those about quality."""
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
    """Return whether a finding says that a pass proves little."""
    return finding.rule in QUALITY_RULES and finding.severity is not Severity.INFO
