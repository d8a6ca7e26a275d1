"""Applies a profile to findings: severities of quality findings, and report-only mode.

Rules that don't depend on a profile are errors in both modes:

    import os    import.not_allowed     an error under `enforce`, a warning under `report`
    def f(:      syntax.invalid         an error under both
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.policy import QUALITY_RULES, ExecutionPolicy, ImportMode, QualityPolicy, RuleLevel
from assayd.model.text_limits import shorten


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


REPORTED = 'Reported only: `enforcement = "enforce"` would fail the submission.'
REPORT_ONLY = (
    'its profile only reported broken rules; submit it under a profile with `enforcement` = "enforce", '
    "or set `approve_reported` = true in the profile"
)
"""The reason why a report-only result can't be approved or committed."""
PARTLY_CHECKED = (
    "its kind checked it only in part, as an extractor with `paths` in its payload; submit the code with "
    "`sample_paths` and approve that attempt"
)
"""The reason why a result that skipped a part of the checks can't be approved."""


def settle(
    findings: Iterable[Finding], rules: Sequence[Rule], policy: ExecutionPolicy
) -> tuple[Finding, ...]:
    """Return the findings with their profile keys; under a report-only policy, as warnings."""
    keys = {rule.id: rule.profile_key for rule in rules if rule.profile_key is not None}
    return tuple(_apply_enforcement(finding, keys, policy) for finding in findings)


def would_fail(findings: Iterable[Finding]) -> bool:
    """Return whether any finding is only reported, but would make the submission fail under `enforce`."""
    return any(finding.message.endswith(REPORTED) for finding in findings)


def _apply_enforcement(finding: Finding, keys: Mapping[str, str], policy: ExecutionPolicy) -> Finding:
    if finding.rule not in keys:
        return finding
    found = replace(finding, profile_key=keys[finding.rule])
    if not policy.reports_only or not _is_enforced_error(found, policy):
        return found
    return replace(found, severity=Severity.WARNING, message=f"{shorten(found.message, 500)} {REPORTED}")


def _is_enforced_error(finding: Finding, policy: ExecutionPolicy) -> bool:
    """Return whether `enforce` would make this finding an error.

    Because a report-only run allows and records forbidden imports, such a record is treated as an error,
    too.
    """
    recorded = finding.layer is Layer.RUNTIME and finding.severity is Severity.INFO
    return finding.is_error or (recorded and policy.imports.mode is ImportMode.ENFORCE)
