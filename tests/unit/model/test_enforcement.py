"""A profile's effect on findings: errors if it enforces, warnings if it only reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.model.enforcement import REPORTED, apply_quality_levels, settle, would_fail
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.policy import (
    Enforcement,
    ExecutionPolicy,
    ImportMode,
    ImportPolicy,
    QualityPolicy,
    RuleLevel,
)

RULES = (
    Rule(id="import.not_allowed", title="t", profile_key="imports.allowed"),
    Rule(id="policy.import", title="t", profile_key="imports.allowed"),
    Rule(id="syntax.invalid", title="t"),
)
ENFORCING = ExecutionPolicy(name="p")
REPORTING = ExecutionPolicy(name="p", enforcement=Enforcement.REPORT)
REFUSED = Finding(rule="import.not_allowed", category="import", message="Import of 'os' is not allowed.")
RECORDED = Finding(
    rule="policy.import", category="policy", message="m", severity=Severity.INFO, layer=Layer.RUNTIME
)


def test_enforcing_profile_leaves_the_error_and_names_its_key() -> None:
    [found] = settle([REFUSED], RULES, ENFORCING)
    assert found == replace(REFUSED, profile_key="imports.allowed")
    assert not would_fail([found])


def test_reporting_profile_warns_and_says_what_enforcement_would_do() -> None:
    [found] = settle([REFUSED], RULES, REPORTING)
    assert (found.severity, found.message) == (Severity.WARNING, f"{REFUSED.message} {REPORTED}")
    assert would_fail([found])


@pytest.mark.parametrize("policy", [ENFORCING, REPORTING])
def test_rule_that_no_profile_states_is_an_error_in_each_mode(policy: ExecutionPolicy) -> None:
    broken = Finding(rule="syntax.invalid", category="syntax", message="invalid syntax")
    assert settle([broken], RULES, policy) == (broken,)


def test_run_time_record_becomes_a_warning_only_if_enforcement_would_refuse_it() -> None:
    observing = replace(REPORTING, imports=ImportPolicy(mode=ImportMode.OBSERVE))
    assert [f.severity for f in settle([RECORDED], RULES, REPORTING)] == [Severity.WARNING]
    assert [f.severity for f in settle([RECORDED], RULES, observing)] == [Severity.INFO]
    assert [f.severity for f in settle([RECORDED], RULES, ENFORCING)] == [Severity.INFO]


def test_a_long_message_still_ends_with_what_enforcement_would_do() -> None:
    [found] = settle([replace(REFUSED, message="x" * 5000)], RULES, REPORTING)
    assert found.message.endswith(REPORTED)
    assert len(found.message) < 600


def test_run_under_report_only_observes_imports_and_admits_sql_rules() -> None:
    planned = REPORTING.for_run_time()
    assert planned.imports.mode is ImportMode.OBSERVE
    assert planned.sql.admits("sql.drop")
    assert not REPORTING.sql.admits("sql.drop")
    assert ENFORCING.for_run_time() is ENFORCING


def test_limits_network_and_image_are_the_same_in_each_mode() -> None:
    planned = REPORTING.for_run_time()
    assert (planned.resources, planned.network, planned.image, planned.exec) == (
        ENFORCING.resources, ENFORCING.network, ENFORCING.image, ENFORCING.exec,
    )  # fmt: skip


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
