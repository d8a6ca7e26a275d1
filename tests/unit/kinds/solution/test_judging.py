"""Scores of hidden tests, and how much of the tests is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from assayd.kinds.solution.payload import PreparedSolution, SolutionPayload
from assayd.kinds.solution.validator import validator
from assayd.model.report import CaseStatus
from assayd.model.run import Cause, Limits, RunEndReason, RunOutcome, RunResult, UnitEndReason, UnitResult
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

LIMITS = Limits(timeout_s=20, unit_timeout_s=10, memory_bytes=2**28, max_processes=8)
SECRET = "hidden-4711"
PASSED = {"status": "returned", "value": None, "fault": None, "last_call": "", "printed": ""}
TOLD = {"error_type": "AssertionError", "message": SECRET, "line": 3, "traceback": f"{SECRET}\nAssertionError", "where": "check"}  # fmt: skip
FAILED = {**PASSED, "status": "failed", "test": TOLD}


def payload(reveal: str = "none", **more: object) -> PreparedSolution:
    tests = {} if "cases" in more else {"tests": [f"assert f(1), '{SECRET}'", "assert f(2)"]}
    document = {"code": "def f(x): ...\n", "entry_point": "f", "reveal": reveal, **tests, **more}
    return validator.prepare(SolutionPayload.model_validate_json(json.dumps(document)))


def unit(name: str, record: object, cause: Cause | None = None) -> UnitResult:
    good = isinstance(record, dict) and record.get("status") in {"returned", "skipped"}
    ended = cause or (Cause.COMPLETED if good else Cause.EXITED_NONZERO)
    return UnitResult(
        name=name,
        wait_status=0 if ended is Cause.COMPLETED else 256,
        end=UnitEndReason.EXITED,
        results=(json.dumps(record).encode(),),
        outcome=RunOutcome(cause=ended),
    )


def judged(prepared: PreparedSolution, *records: object):  # type: ignore[no-untyped-def]
    units = tuple(unit(test.name, record) for test, record in zip(prepared.hidden, records, strict=False))
    result = RunResult(units=units, end=RunEndReason.FINISHED, outcome=RunOutcome(cause=Cause.COMPLETED))
    return validator.judge(prepared, None, result)  # type: ignore[arg-type]


def test_score_is_the_share_of_tests_that_passed() -> None:
    judgement = judged(payload(), PASSED, FAILED)
    assert (judgement.score, [case.status for case in judgement.cases]) == (
        0.5,
        [CaseStatus.PASSED, CaseStatus.FAILED],
    )
    assert judged(payload(), PASSED, PASSED).stage_findings == {"sandbox": ()}


@pytest.mark.parametrize(
    ("reveal", "shown"), [("none", False), ("names", False), ("messages", True), ("all", True)]
)
def test_messages_are_shown_if_the_request_reveals_them(reveal: str, shown: bool) -> None:
    judgement = judged(payload(reveal), FAILED, FAILED)
    context = validator.retry_context(judgement.stage_findings["sandbox"], "sandbox")
    assert (SECRET in context, SECRET in str(judgement.cases)) == (shown, shown)
    assert ("assert_1" in context + str(judgement.cases)) == (reveal != "none")
    planned = validator.plan(
        payload(reveal), load_policies([get_shared_data_path("policies")]).get("solution"), LIMITS
    )
    assert ("assert_1" in str([unit.name for unit in planned.units])) == (reveal != "none")


def test_test_that_was_not_reached_counts_as_failed() -> None:
    judgement = judged(payload(), PASSED)
    assert (judgement.score, judgement.cases[1].status) == (0.5, CaseStatus.ERROR)


def test_skipped_test_does_not_count_and_nothing_but_skipped_fails() -> None:
    skipped = {"status": "skipped", "message": "later"}
    assert judged(payload(), PASSED, skipped).score == 1.0
    nothing = judged(payload(), skipped, skipped)
    (finding,) = nothing.stage_findings["sandbox"]
    assert (nothing.score, finding.message) == (0.0, "Every hidden test skipped itself")


@pytest.mark.parametrize(
    "record",
    [
        5,
        {},
        {"status": "passed"},
        {**PASSED, "fault": {"kind": "trust", "message": "=="}},
        {**PASSED, "status": 1},
    ],
)
def test_record_of_another_form_is_no_pass(record: object) -> None:
    prepared = payload()
    units = tuple(unit(test.name, record, Cause.COMPLETED) for test in prepared.hidden)
    result = RunResult(units=units, end=RunEndReason.FINISHED, outcome=RunOutcome(cause=Cause.COMPLETED))
    judgement = validator.judge(prepared, None, result)  # type: ignore[arg-type]
    assert (judgement.score, bool(judgement.stage_findings["sandbox"])) == (0.0, True)


def test_pass_with_a_bad_end_is_no_pass() -> None:
    prepared = payload()
    good = unit("test 1", PASSED)
    units = (good, replace(unit("test 2", PASSED), outcome=RunOutcome(cause=Cause.TIMEOUT)))
    result = RunResult(units=units, end=RunEndReason.FINISHED, outcome=RunOutcome(cause=Cause.TIMEOUT))
    assert validator.judge(prepared, None, result).score == 0.5  # type: ignore[arg-type]


def test_case_is_compared_outside() -> None:
    cases = [{"name": "one", "args": [1], "expected": [2]}]
    given = {**PASSED, "value": {"value": [3], "notes": [], "complete": True}}
    judgement = judged(payload("all", cases=cases), given)
    assert (judgement.score, "expected at [0] 2, received 3" in str(judgement.cases[0].message)) == (
        0.0,
        True,
    )
    right = {**PASSED, "value": {"value": [2], "notes": [], "complete": True}}
    assert judged(payload(cases=cases), right).score == 1.0


def test_repair_sees_the_tests_only_if_all_is_revealed() -> None:
    for reveal in ("none", "names", "messages", "all"):
        around = validator.surroundings(payload(reveal))
        assert (SECRET in str(around)) == (reveal == "all")
