"""Applies a profile's severities (error, warning or off) to the findings of SQL rules.

DROP TABLE t        sql.drop      an error under `pipeline`, a warning under `analysis`
ATTACH 'x' AS x     sql.attach    an error under both
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from assayd.model.finding import Finding, Severity
from assayd.model.policy import SQL_RULES, RuleLevel, SqlPolicy
from assayd_pipeline.sql.rules import ADMITTED


def leveled(findings: Iterable[Finding], policy: SqlPolicy) -> tuple[Finding, ...]:
    """Return the findings with the profile's severities applied."""
    found = (_apply_level(finding, policy) for finding in findings)
    return tuple(finding for finding in found if finding is not None)


def _apply_level(finding: Finding, policy: SqlPolicy) -> Finding | None:
    level = policy.level(finding.rule) if finding.rule in SQL_RULES else None
    match level:
        case RuleLevel.OFF:
            return None
        case RuleLevel.WARNING:
            message = ADMITTED.get(finding.rule, finding.message)
            return replace(finding, severity=Severity.WARNING, message=message)
        case RuleLevel.ERROR:
            return replace(finding, severity=Severity.ERROR)
        case None:
            return finding
