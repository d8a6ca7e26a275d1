"""Static reports and a judged run become one report; doubt fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from assayd.model.attempt import Attempt, Failure
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.merge import (
    MAX_FINDINGS,
    REPORTED_MESSAGE,
    JudgedRun,
    add_failure,
    apply_quality_levels,
    apply_reporting_mode,
    decide_verdict,
    list_static_results,
    merge_report,
    merge_stages,
    would_fail,
)
from assayd.model.policy import (
    Enforcement,
    ExecutionPolicy,
    ImportMode,
    ImportPolicy,
    QualityPolicy,
    RuleLevel,
)
from assayd.model.report import Judgement, Report, StageReport, StageStatus, Verdict
from assayd.model.run import Cause, RunEndReason, RunOutcome, RunResult
from assayd.model.submission import Peer

ERROR = Finding(rule="r.error", category="c", message="bad")
WARNING = Finding(rule="r.warning", category="c", message="hm", severity=Severity.WARNING)
PASSED = StageReport(name="syntax", status=StageStatus.PASSED)
FAILED = StageReport(name="syntax", status=StageStatus.FAILED, findings=(ERROR,))
RUNTIME = ("sandbox", "quality")
BLANK = Report(attempt_id="a", kind="k", verdict=Verdict.ERROR, stage_reached="", stages=())


def ran(
    cause: Cause = Cause.COMPLETED, *, evidence: dict[str, object] | None = None, **found: object
) -> JudgedRun:
    result = RunResult(
        units=(), end=RunEndReason.FINISHED, outcome=RunOutcome(cause=cause, evidence=evidence or {})
    )
    return JudgedRun(result=result, judgement=Judgement(stage_findings=found))  # type: ignore[arg-type]


def report(static: StageReport, run: JudgedRun | None) -> Report:
    return merge_report(BLANK, merge_stages([static], RUNTIME, run), run)


def test_all_good_is_validated_and_complete():
    merged = report(PASSED, ran(sandbox=(), quality=()))
    assert (merged.verdict, merged.stage_reached) == (Verdict.VALIDATED, "complete")
    assert [s.status for s in merged.stages] == [StageStatus.PASSED] * 3


def test_a_static_failure_skips_the_runtime_stages():
    merged = report(FAILED, None)
    assert (merged.verdict, merged.stage_reached, merged.cases) == (Verdict.FAILED, "syntax", None)
    assert [s.status for s in merged.stages[1:]] == [StageStatus.SKIPPED] * 2


def test_a_runtime_finding_of_an_earlier_stage_fails_that_stage():
    merged = report(PASSED, ran(Cause.EXITED_NONZERO, syntax=(ERROR,), sandbox=()))
    assert (merged.verdict, merged.stage_reached) == (Verdict.FAILED, "syntax")


def test_a_run_that_did_not_complete_fails_even_when_nobody_says_why():
    merged = report(PASSED, ran(Cause.LEFT_PROCESSES, sandbox=(), quality=()))
    assert merged.verdict is Verdict.FAILED
    assert [f.rule for f in merged.findings] == ["sandbox.left_processes"]


def test_a_limit_met_beside_a_pass_is_a_warning():
    merged = report(PASSED, ran(evidence={"limits_met": [{}]}, sandbox=(), quality=()))
    assert merged.verdict is Verdict.VALIDATED
    assert [f.rule for f in merged.findings] == ["sandbox.limit_met"]


@pytest.mark.parametrize(
    ("cause", "verdict"),
    [(Cause.CANCELLED, Verdict.CANCELLED), (Cause.INFRASTRUCTURE, Verdict.ERROR)],
)
def test_our_own_ends_are_never_the_codes_fault(cause: Cause, verdict: Verdict):
    assert report(PASSED, ran(cause, sandbox=(ERROR,))).verdict is verdict


def test_warnings_do_not_fail():
    merged = report(PASSED, ran(sandbox=(), quality=(WARNING,)))
    assert merged.verdict is Verdict.VALIDATED
    assert merged.stages[-1].status is StageStatus.WARNED


def test_findings_are_capped_and_the_verdict_stands():
    many = StageReport(name="syntax", status=StageStatus.FAILED, findings=(ERROR,) * (MAX_FINDINGS + 100))
    stages = merge_stages([many], RUNTIME, None)
    assert len(stages[0].findings) == MAX_FINDINGS
    assert decide_verdict(stages, None) is Verdict.FAILED


def test_there_is_a_row_per_static_check_that_ran():
    rows = list_static_results([FAILED, StageReport(name="security", status=StageStatus.SKIPPED)])
    assert [(row.check, row.passed, row.details) for row in rows] == [("syntax", False, "bad")]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [("cancelled", Verdict.CANCELLED), ("run.lost", Verdict.ERROR), ("internal", Verdict.ERROR)],
)
def test_failure_decides_the_verdict_and_the_last_stage_that_ran_is_reached(
    code: str, verdict: Verdict
) -> None:
    passed = StageReport(name="syntax", status=StageStatus.PASSED)
    merged = merge_report(BLANK, merge_stages([passed], RUNTIME, None), None, Failure(code=code, message=""))
    assert (merged.verdict, merged.stage_reached) == (verdict, "syntax")


def test_failure_outweighs_a_verdict_that_an_attempt_had_before() -> None:
    attempt = Attempt(
        id="01",
        kind="k",
        policy="p",
        input_digest="",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        peer=Peer(uid=0, gid=0, pid=0),
        verdict=Verdict.VALIDATED,
    )
    failure = Failure(code="store.full", message="no room")
    failed = add_failure(failure, attempt)
    assert (failed.verdict, failed.error) == (Verdict.ERROR, failure)


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
    [found] = apply_reporting_mode([REFUSED], RULES, ENFORCING)
    assert found == replace(REFUSED, profile_key="imports.allowed")
    assert not would_fail([found])


def test_reporting_profile_warns_and_says_what_enforcement_would_do() -> None:
    [found] = apply_reporting_mode([REFUSED], RULES, REPORTING)
    assert (found.severity, found.message) == (Severity.WARNING, f"{REFUSED.message} {REPORTED_MESSAGE}")
    assert would_fail([found])


@pytest.mark.parametrize("policy", [ENFORCING, REPORTING])
def test_rule_that_no_profile_states_is_an_error_in_each_mode(policy: ExecutionPolicy) -> None:
    broken = Finding(rule="syntax.invalid", category="syntax", message="invalid syntax")
    assert apply_reporting_mode([broken], RULES, policy) == (broken,)


def test_run_time_record_becomes_a_warning_only_if_enforcement_would_refuse_it() -> None:
    observing = replace(REPORTING, imports=ImportPolicy(mode=ImportMode.OBSERVE))
    assert [f.severity for f in apply_reporting_mode([RECORDED], RULES, REPORTING)] == [Severity.WARNING]
    assert [f.severity for f in apply_reporting_mode([RECORDED], RULES, observing)] == [Severity.INFO]
    assert [f.severity for f in apply_reporting_mode([RECORDED], RULES, ENFORCING)] == [Severity.INFO]


def test_a_long_message_still_ends_with_what_enforcement_would_do() -> None:
    [found] = apply_reporting_mode([replace(REFUSED, message="x" * 5000)], RULES, REPORTING)
    assert found.message.endswith(REPORTED_MESSAGE)
    assert len(found.message) < 600


def test_run_under_report_only_observes_imports_and_admits_sql_rules() -> None:
    planned = REPORTING.to_runtime_policy()
    assert planned.imports.mode is ImportMode.OBSERVE
    assert planned.sql.admits("sql.drop")
    assert not REPORTING.sql.admits("sql.drop")
    assert ENFORCING.to_runtime_policy() is ENFORCING


def test_limits_network_and_image_are_the_same_in_each_mode() -> None:
    planned = REPORTING.to_runtime_policy()
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
