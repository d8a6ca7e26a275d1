"""Cases of the extractor: planned next to the sample paths, and compared with their expected results."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from assayd.kinds.extractor.validator import ExtractorPayload, validator
from assayd.model.finding import has_errors
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement
from assayd.model.run import Cause, Limits, RunEndReason, RunOutcome, RunResult, UnitResult

PATHS = ("/data/Q1/a.csv", "/data/Q2/b.csv")
CODE = "def extract(path: str) -> dict:\n    return {'quarter': int(path[7])}\n"
LIMITS = Limits(timeout_s=60, unit_timeout_s=5, memory_bytes=100 * 2**20, max_processes=1)
COMPLETED = RunOutcome(cause=Cause.COMPLETED)


def unit(name: str, record: dict[str, object], cause: Cause = Cause.COMPLETED) -> UnitResult:
    status = 0 if cause is Cause.COMPLETED else 256
    body = json.dumps(record).encode()
    return UnitResult(name=name, wait_status=status, results=(body,), outcome=RunOutcome(cause=cause))


def returned(value: object) -> dict[str, object]:
    return {"status": "returned", "value": value, "value_type": "dict", "notes": [], "duration_s": 0.001}


def raised(name: str) -> UnitResult:
    record = {"status": "raised", "error_type": "ValueError", "message": "bad", "line": 2}
    record |= {"traceback": "", "where": "extract", "phase": "call"}
    return unit(name, record, Cause.EXITED_NONZERO)


def run(*units: UnitResult) -> RunResult:
    worst = next((u.outcome for u in units if not u.outcome.completed), COMPLETED)
    return RunResult(units=units, end=RunEndReason.FINISHED, outcome=worst)


def rules(judgement: Judgement, stage: str = "sandbox") -> list[str]:
    return [finding.rule for finding in judgement.stage_findings[stage]]


CASED = ExtractorPayload.model_validate({
    "code": CODE,
    "sample_paths": PATHS[:1],
    "cases": [
        {"name": "first", "path": PATHS[0], "expected": {"quarter": 1}},
        {"name": "second", "path": PATHS[1], "expected": {"quarter": 2}},
    ],
})  # fmt: skip


def with_cases(*values: object) -> Judgement:
    names = (PATHS[0], "first", "second")
    units = (unit(name, returned(value)) for name, value in zip(names, values, strict=True))
    return validator.judge(CASED, ExecutionPolicy(name="x"), run(*units))


def test_every_case_is_a_call_of_its_own_with_its_path() -> None:
    units = validator.plan(CASED, ExecutionPolicy(name="x"), LIMITS).units
    assert [each.name for each in units] == [PATHS[0], "first", "second"]
    assert [each.arguments["args"] for each in units] == [[PATHS[0]], [PATHS[0]], [PATHS[1]]]


def test_cases_that_get_what_they_expect_pass_with_further_fields() -> None:
    judgement = with_cases({"quarter": 1}, {"quarter": 1, "year": 2024}, {"quarter": 2})
    assert [case.status.value for case in judgement.cases] == ["passed"] * 3
    assert not has_errors(judgement.stage_findings["quality"])


def test_case_that_gets_something_else_fails_in_quality_with_both_values() -> None:
    judgement = with_cases({"quarter": 1}, {"quarter": 1}, {"quarter": 3})
    assert [case.status.value for case in judgement.cases] == ["passed", "passed", "failed"]
    assert judgement.cases[2].expected == {"quarter": 2}
    assert judgement.cases[2].result == {"quarter": 3}
    assert rules(judgement, "quality") == ["case.differs"]


def test_call_of_a_case_that_raises_fails_in_the_sandbox() -> None:
    units = (unit(PATHS[0], returned({"quarter": 1})), raised("first"), unit("second", returned({})))
    judgement = validator.judge(CASED, ExecutionPolicy(name="x"), run(*units))
    assert rules(judgement) == ["sandbox.raised"]
    assert "quality" not in judgement.stage_findings


@pytest.mark.parametrize(
    "cases",
    [
        [{"name": "a", "path": "/p", "expected": {}}, {"name": "a", "path": "/q", "expected": {}}],
        [{"name": "a", "path": "", "expected": {}}],
        [{"name": "a", "path": "/p", "expected": [1]}],
        [{"name": "a", "path": "/p", "expected": {}, "compare": "about"}],
        [{"name": str(n), "path": "/p", "expected": {}} for n in range(101)],
    ],
)
def test_cases_of_another_form_are_refused(cases: list[object]) -> None:
    with pytest.raises(ValidationError, match="cases"):
        ExtractorPayload.model_validate({"code": CODE, "sample_paths": PATHS, "cases": cases})


def test_fix_is_asked_for_with_the_cases() -> None:
    context = validator.context(CASED, {"retry_context": "It failed."})
    told = {one.title: one.text for one in context.surroundings}
    assert told["cases that must pass"].splitlines()[1].startswith('second: "/data/Q2/b.csv" -> ')
