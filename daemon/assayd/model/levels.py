"""Applies a profile's severities to quality findings: error, warning, or off. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from assayd.model.finding import Finding, Severity
from assayd.model.policy import QUALITY_RULES, QualityPolicy, RuleLevel


def apply_quality_levels(findings: Iterable[Finding], quality: QualityPolicy) -> tuple[Finding, ...]:
    """Apply the profile's severities to the quality findings; return all findings."""
    return tuple(_apply_levels(findings, quality))


def _apply_levels(findings: Iterable[Finding], quality: QualityPolicy) -> Iterator[Finding]:
    for finding in findings:
        if finding.rule not in QUALITY_RULES or finding.severity is Severity.INFO:
            yield finding
            continue
        level = quality.level(finding.rule)
        if level is not RuleLevel.OFF:
            severity = Severity.ERROR if level is RuleLevel.ERROR else Severity.WARNING
            yield finding if finding.severity is severity else replace(finding, severity=severity)


def is_quality_finding(finding: Finding) -> bool:
    """Return whether a finding reports that a validated submission has little value."""
    return finding.rule in QUALITY_RULES and finding.severity is not Severity.INFO
