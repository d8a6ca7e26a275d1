"""Approved code applied to many paths: how they are divided among processes, and judged."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from assayd.findings.source_text import SplitText
from assayd.kinds.extractor.validator import ExtractorPayload, validator
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Cause, Limits, ResourceUsage, RunEndReason, RunOutcome, RunResult, UnitResult

PATHS = tuple(f"/d/{number}.csv" for number in range(150))
CODE = "def extract(path: str) -> dict:\n    return {'n': int(path[3:-4])}\n"
PAYLOAD = ExtractorPayload(code=CODE + "\n" * 200, paths=PATHS)
POLICY = ExecutionPolicy(name="x")
LIMITS = Limits(timeout_s=60, unit_timeout_s=5, memory_bytes=100 * 2**20, max_processes=1)
NAMES = ("paths 1 to 100", "paths 101 to 150")


def value(result: object, type_name: str = "dict") -> dict[str, object]:
    return {"value": result, "value_type": type_name}


def unit(name: str, *results: object, cause: Cause = Cause.COMPLETED) -> UnitResult:
    record = json.dumps({"status": "returned", "each": list(results)}).encode()
    return UnitResult(
        name=name,
        wait_status=0,
        results=(record,) if cause is Cause.COMPLETED else (),
        usage=ResourceUsage(wall_s=0.1),
        outcome=RunOutcome(cause=cause),
    )


def judged(*units: UnitResult) -> Judgement:
    worst = next(
        (one.outcome for one in units if not one.outcome.completed), RunOutcome(cause=Cause.COMPLETED)
    )
    return validator.judge(PAYLOAD, POLICY, RunResult(units=units, end=RunEndReason.FINISHED, outcome=worst))


def test_hundred_paths_share_a_process() -> None:
    spec = validator.plan(PAYLOAD, POLICY, LIMITS)

    assert spec is not None
    assert [one.name for one in spec.units] == list(NAMES)
    assert spec.units[1].arguments["each"] == [[path] for path in PATHS[100:]]
    assert {one.deadline_s for one in spec.units} == {5}


def test_dict_for_every_path_passes_even_if_all_are_empty() -> None:
    judgement = judged(unit(NAMES[0], *[value({})] * 100), unit(NAMES[1], *[value({"n": 1})] * 50))

    assert judgement.stage_findings == {"sandbox": (), "quality": ()}
    assert [case.name for case in judgement.cases] == list(PATHS)
    assert (judgement.cases[0].result, judgement.cases[-1].result) == ({}, {"n": 1})


def test_failed_path_is_a_case_and_equal_failures_are_one_finding() -> None:
    raised = {"error_type": "ValueError", "message": "no", "line": 2}
    judgement = judged(
        unit(NAMES[0], *[raised] * 99, value([1], "list")), unit(NAMES[1], *[value({"n": 1})] * 50)
    )

    assert [finding.rule for finding in judgement.stage_findings["sandbox"]] == [
        "sandbox.raised",
        "result.not_dict",
    ]
    first = judgement.cases[0]
    assert (first.status, first.error_type, first.line) == (CaseStatus.FAILED, "ValueError", 2)
    assert judgement.cases[100].status is CaseStatus.PASSED


def test_exceptions_beyond_the_limit_share_a_finding() -> None:
    raised = [{"error_type": "ValueError", "message": "no", "line": line} for line in range(1, 151)]
    judgement = judged(unit(NAMES[0], *raised[:100]), unit(NAMES[1], *raised[100:]))

    found = judgement.stage_findings["sandbox"]
    assert len(found) == 101
    assert (found[-1].line, found[-1].context) == (None, "/d/100.csv and 49 more")
    assert judgement.cases[-1].line == 150


def test_large_text_is_split_once_for_all_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = []
    monkeypatch.setattr(SplitText, "split", lambda text, end: splits.append(end) or str.split(text, end))
    raised = [{"error_type": "ValueError", "message": "no", "line": line} for line in range(1, 101)]
    judged(unit(NAMES[0], *raised), unit(NAMES[1], *[value({})] * 50))

    assert len(splits) == 1


def test_attempt_with_paths_is_withheld_from_approval() -> None:
    assert validator.withheld(PAYLOAD)
    assert not validator.withheld(ExtractorPayload(code=CODE, sample_paths=PATHS[:1]))


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (unit(NAMES[0], cause=Cause.TIMEOUT), "sandbox.timeout"),
        (unit(NAMES[0], *[value({})] * 99), "sandbox.protocol_violation"),
        (unit(NAMES[0], *[value({})] * 99, 7), "sandbox.protocol_violation"),
    ],
)
def test_process_without_all_its_results_gives_none_of_them(broken: UnitResult, rule: str) -> None:
    judgement = judged(broken, unit(NAMES[1], *[value({"n": 1})] * 50))

    assert [finding.rule for finding in judgement.stage_findings["sandbox"]] == [rule]
    assert {case.status for case in judgement.cases[:100]} == {CaseStatus.ERROR}
    assert {case.status for case in judgement.cases[100:]} == {CaseStatus.PASSED}


def test_process_that_never_started_leaves_its_paths_skipped() -> None:
    judgement = judged(unit(NAMES[0], *[value({"n": 1})] * 100))

    assert {case.status for case in judgement.cases[100:]} == {CaseStatus.SKIPPED}
    assert judgement.stage_findings["sandbox"]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, "missing or empty: pass at least one path"),
        ({"paths": ["/a"], "sample_paths": ["/b"]}, "can't be combined"),
        ({"paths": ["/a"] * 1001}, "at most 1000"),
    ],
)
def test_payload_needs_sample_paths_or_paths(fields: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        ExtractorPayload.model_validate({"code": CODE, **fields})
