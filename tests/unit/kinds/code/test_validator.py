"""Code nodes: payload, command line, policy, and the judgement of a run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from assayd.errors import RequestError
from assayd.kinds.code.command_line import from_files
from assayd.kinds.code.validator import CodePayload, validator
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import (
    CapturedOutput,
    Cause,
    Limits,
    Program,
    ResourceUsage,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
)
from assayd.policies import PolicySet
from assayd.ports.command_line import FileOptions

CODE = "data: list\nresult: int = len(data)\n"
LIMITS = Limits(timeout_s=60, unit_timeout_s=7, memory_bytes=2**28, max_processes=4)
POLICY = ExecutionPolicy(name="x")
PROTOCOL = "sandbox.protocol_violation"


def payload(**fields: object) -> CodePayload:
    """Parse a payload like a request's."""
    return CodePayload.model_validate_json(json.dumps({"code": CODE, "inputs": {"data": []}, **fields}))


def record(value: object, type_name: str = "int", **more: object) -> dict[str, object]:
    """Return the record of a node with this result."""
    found = {"value": value, "value_type": type_name, "notes": [], "complete": True, **more}
    return {"status": "returned", "values": {"result": found}, "missing": []}


def judged(*records: object, cause: Cause = Cause.COMPLETED, status: int = 0, code: str = CODE) -> Judgement:
    """Judge a run with this end."""
    outcome = RunOutcome(cause=cause)
    unit = UnitResult(
        name="node",
        wait_status=status,
        results=tuple(json.dumps(each).encode() for each in records),
        stdout=CapturedOutput(head=b"said", total_bytes=4),
        usage=ResourceUsage(wall_s=3.0),
        outcome=outcome,
    )
    result = RunResult(units=(unit,), end=RunEndReason.FINISHED, outcome=outcome)
    return validator.judge(validator.prepare(payload(code=code)), POLICY, result)


def rules(judgement: Judgement) -> list[str]:
    return [finding.rule for found in judgement.stage_findings.values() for finding in found]


@pytest.mark.parametrize(
    "timeout_s", [True, False, "5", 0, -1, None, [1]], ids=lambda value: f"{type(value).__name__} {value}"
)
def test_timeout_that_is_no_time_is_refused(timeout_s: object) -> None:
    if timeout_s is None:
        assert payload(timeout_s=None).timeout_s is None
        return
    with pytest.raises(ValidationError, match="timeout_s"):
        payload(timeout_s=timeout_s)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_timeout_without_a_number_is_refused(number: str) -> None:
    with pytest.raises(ValidationError):
        CodePayload.model_validate_json(f'{{"code": "x", "timeout_s": {number}}}')


@pytest.mark.parametrize(
    "fields",
    [
        {"code": None},
        {"code": 1},
        {"inputs": []},
        {"inputs": {str(number): 1 for number in range(101)}},
        {"requires": ["not a name"]},
        {"requires": "json"},
        {"timeout": 5},
        {"result_types": ["int"]},
    ],
)
def test_payload_of_another_form_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        payload(**fields)


def test_timeout_tightens_the_time_of_a_unit(policies: PolicySet) -> None:
    policy = policies.get("code")
    narrowed = validator.narrow(payload(timeout_s=2), policy)
    assert narrowed.resources.unit_timeout_s == 2
    assert narrowed.digest != policy.digest
    assert validator.narrow(payload(), policy) is policy


def test_timeout_that_is_wider_than_the_policy_is_refused(policies: PolicySet) -> None:
    with pytest.raises(RequestError, match="can only tighten") as refused:
        validator.narrow(payload(timeout_s=30.5), policies.get("code"))
    assert (refused.value.code, refused.value.field) == ("override.wider", "payload.timeout_s")


def test_command_line_gives_code_inputs_and_options() -> None:
    options = FileOptions(input={"data": [1]}, extra={"timeout_s": "2.5", "requires": "json, csv"})
    assert from_files({"node.py": CODE.encode()}, options) == {
        "code": CODE,
        "inputs": {"data": [1]},
        "timeout_s": 2.5,
        "requires": ["json", "csv"],
    }


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({}, FileOptions()),
        ({"a.py": b"", "b.py": b""}, FileOptions()),
        ({"a.csv": b""}, FileOptions()),
        ({"a.py": b"\xff"}, FileOptions()),
        ({"a.py": b""}, FileOptions(sample_paths=("/a",))),
        ({"a.py": b""}, FileOptions(extra={"color": "red"})),
        ({"a.py": b""}, FileOptions(extra={"timeout_s": "soon"})),
    ],
)
def test_command_line_that_means_no_node_is_refused(files: dict[str, bytes], options: FileOptions) -> None:
    with pytest.raises(RequestError):
        from_files(files, options)


def test_plan_is_one_unit_that_gives_the_result(policies: PolicySet) -> None:
    spec = validator.plan(validator.prepare(payload()), policies.get("code"), LIMITS)
    [unit] = spec.units
    assert (unit.program, unit.deadline_s, unit.status_decides) == (Program.PYTHON, 7, False)
    assert (unit.arguments["namespace"], unit.arguments["results"]) == ({"data": []}, ["result"])
    assert not spec.allow_exec


def test_answer_of_a_model_is_run_as_the_code_in_it() -> None:
    prepared = validator.prepare(payload(code=f"Here it is:\n```python\n{CODE}```\n"))
    assert isinstance(prepared, CodePayload)
    assert prepared.code == CODE


def test_result_of_the_declared_type_passes() -> None:
    judgement = judged(record(3))
    [case] = judgement.cases
    assert (rules(judgement), case.status, case.result, case.stdout) == ([], CaseStatus.PASSED, 3, "said")


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (record("3", "str"), "result.type"),
        (record("3", "int"), "result.type"),
        (record(None, "int"), "result.type"),
        (record({"$py": "object", "value": "int"}, "int"), "result.type"),
        (record({"$py": "int", "value": 3}, "int"), "result.type"),
        (record({"$py": "set", "value": [], "more": 1}, "int"), "result.type"),
        (record(3, complete=False), "result.cut"),
        (record(3, complete=None), "result.cut"),
        (record({"$py": "object", "value": "int"}, "int", complete=False), "result.cut"),
        ({"status": "returned", "values": {}, "missing": ["result"]}, "result.missing"),
        ({"status": "returned", "values": {}, "missing": []}, PROTOCOL),
        ({"status": "returned", "values": {"a": {"value": 1, "value_type": "int"}}}, PROTOCOL),
        ({"status": "returned", "value": 3, "value_type": "int"}, PROTOCOL),
        ({"status": "exited", "exit_code": 0}, PROTOCOL),
        ({"status": "raised"}, PROTOCOL),
        ("passed", PROTOCOL),
    ],
)  # fmt: skip
def test_record_that_is_not_the_result_is_no_pass(found: object, rule: str) -> None:
    judgement = judged(found)
    assert rules(judgement) == [rule]
    assert judgement.cases[0].status is not CaseStatus.PASSED


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("range", "list(…)"), ("coroutine", "asyncio.run"), ("method", "Call it"), ("Point", "plain values")],
)
def test_result_without_a_form_says_what_to_make_of_it(name: str, remedy: str) -> None:
    [finding] = judged(record({"$py": "object", "value": name}, name)).stage_findings["result"]
    assert (finding.rule, remedy in (finding.suggestion or "")) == ("result.type", True)


def test_good_record_beside_a_bad_end_is_no_pass() -> None:
    for cause in set(Cause) - {Cause.COMPLETED, Cause.CANCELLED, Cause.INFRASTRUCTURE}:
        judgement = judged(record(3), cause=cause, status=9)
        assert rules(judgement) == [f"sandbox.{cause}"]
        assert judgement.cases[0].result is None


def test_value_that_loses_something_is_a_warning() -> None:
    judgement = judged(record(3, notes=[{"path": "$", "problem": "a Level, shown as its base type int"}]))
    [finding] = judgement.stage_findings["result"]
    assert (finding.rule, finding.severity) == ("result.not_plain", "warning")
    assert judgement.cases[0].status is CaseStatus.PASSED


def test_text_that_only_the_container_refuses_fails_at_syntax() -> None:
    refused = {"status": "not_compiled", "error_type": "SyntaxError", "message": "no", "line": 1, "column": 1}
    judgement = judged(refused, cause=Cause.EXITED_NONZERO, status=256)
    assert list(judgement.stage_findings) == ["syntax"]


def test_node_that_never_started_is_skipped() -> None:
    result = RunResult(units=(), end=RunEndReason.DEADLINE, outcome=RunOutcome(cause=Cause.TIMEOUT))
    [case] = validator.judge(validator.prepare(payload()), POLICY, result).cases
    assert case.status is CaseStatus.SKIPPED


@pytest.mark.parametrize("stage", ["syntax", "annotations", "inputs", "sandbox", "result", "new"])
def test_every_stage_has_its_headline(stage: str) -> None:
    assert validator.retry_context([], stage).splitlines()[0].endswith(":")


CASES = [
    {"name": "none", "inputs": {"data": []}, "expected": 0},
    {"name": "two", "inputs": {"data": [1, 2]}, "expected": 2},
]


def judged_cases(submitted: CodePayload, *results: tuple[str, object]) -> Judgement:
    outcome = RunOutcome(cause=Cause.COMPLETED)
    units = tuple(
        UnitResult(name=name, wait_status=0, results=(json.dumps(record(value)).encode(),), outcome=outcome)
        for name, value in results
    )
    result = RunResult(units=units, end=RunEndReason.FINISHED, outcome=outcome)
    return validator.judge(validator.prepare(submitted), POLICY, result)


def test_every_case_is_a_run_of_its_own_with_its_inputs() -> None:
    units = validator.plan(payload(cases=CASES), POLICY, LIMITS).units
    assert [each.name for each in units] == ["node", "none", "two"]
    assert [each.arguments["namespace"] for each in units] == [{"data": []}, {"data": []}, {"data": [1, 2]}]


def test_without_inputs_only_the_cases_are_run() -> None:
    submitted = payload(inputs={}, cases=CASES)
    assert [each.name for each in validator.plan(submitted, POLICY, LIMITS).units] == ["none", "two"]
    stages = {stage.name: stage.check(submitted, POLICY) for stage in validator.stages}
    assert not any(finding.is_error for found in stages.values() for finding in found)


def test_case_that_gets_something_else_fails_at_the_result() -> None:
    judgement = judged_cases(payload(cases=CASES), ("node", 0), ("none", 0), ("two", 3))
    assert [case.status.value for case in judgement.cases] == ["passed", "passed", "failed"]
    assert [finding.rule for finding in judgement.stage_findings["result"]] == ["case.differs"]
    assert (judgement.cases[2].expected, judgement.cases[2].result) == (2, 3)


def test_all_cases_right_is_passed() -> None:
    judgement = judged_cases(payload(inputs={}, cases=CASES), ("none", 0), ("two", 2))
    assert rules(judgement) == []
    assert {case.status for case in judgement.cases} == {CaseStatus.PASSED}


def test_case_that_was_never_run_fails_even_if_the_run_says_that_it_is_complete() -> None:
    judgement = judged_cases(payload(inputs={}, cases=CASES), ("none", 0))
    assert PROTOCOL in rules(judgement)


def test_case_with_inputs_of_another_type_is_refused_by_reading() -> None:
    cases = [CASES[0], {"name": "text", "inputs": {"data": "ab"}, "expected": 2}]
    found = validator.stages[2].check(payload(cases=cases), POLICY)
    assert [(finding.rule, finding.context) for finding in found] == [("inputs.type", "case text")]


@pytest.mark.parametrize(("image", "rules"), [(None, ["inputs.requires"]), ("science", [])])
def test_what_another_image_has_is_not_judged_by_what_ours_has(image: str | None, rules: list[str]) -> None:
    policy = replace(POLICY, image=image)
    submitted = payload(code="result: int = 1", inputs={}, requires=["pandas"])

    assert [finding.rule for finding in validator.stages[2].check(submitted, policy)] == rules
    assert validator.plan(validator.prepare(submitted), policy, LIMITS).image == (image or "python")
