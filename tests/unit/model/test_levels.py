from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.model.finding import Finding, Severity
from assayd.model.levels import apply_quality_levels
from assayd.model.policy import QualityPolicy, RuleLevel

ECHO = Finding(rule="quality.echo", category="quality", message="m", severity=Severity.WARNING)
OTHER = Finding(rule="inputs.requires", category="inputs", message="m", severity=Severity.WARNING)


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        (RuleLevel.ERROR, [replace(ECHO, severity=Severity.ERROR), OTHER]),
        (RuleLevel.WARNING, [ECHO, OTHER]),
        (RuleLevel.OFF, [OTHER]),
    ],
)
def test_the_profile_decides_what_quality_weighs_and_nothing_else(severity, expected) -> None:
    assert list(apply_quality_levels([ECHO, OTHER], QualityPolicy(severity=severity))) == expected


def test_a_level_for_one_rule_wins_over_that_for_all() -> None:
    quality = QualityPolicy(severity=RuleLevel.ERROR, rules=(("quality.echo", RuleLevel.OFF),))
    assert apply_quality_levels([ECHO], quality) == ()


def test_what_is_for_information_and_what_always_fails_stay_so() -> None:
    info = replace(ECHO, rule="quality.not_json", severity=Severity.INFO)
    failing = replace(ECHO, rule="quality.all_empty", severity=Severity.ERROR)
    off = QualityPolicy(severity=RuleLevel.OFF)
    assert apply_quality_levels([info, failing], off) == (info, failing)
