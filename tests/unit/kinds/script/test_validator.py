"""Scripts: payload, command line, policy, and the judgement of a program's end."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from assayd.errors import RequestError
from assayd.kinds.script.command_line import from_files
from assayd.kinds.script.validator import ScriptPayload, validator
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import (
    CapturedOutput,
    Cause,
    Limits,
    OutputFile,
    PolicyEvent,
    Program,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
)
from assayd.policies import PolicySet
from assayd.ports.command_line import FileOptions

LIMITS = Limits(timeout_s=60, unit_timeout_s=7, memory_bytes=2**28, max_processes=4)
POLICY = ExecutionPolicy(name="x")
EXIT_1 = 1 << 8


def payload(**fields: object) -> ScriptPayload:
    """Parse a payload like a request's."""
    return ScriptPayload.model_validate_json(json.dumps(fields))


def judged(
    submitted: ScriptPayload,
    *records: object,
    cause: Cause = Cause.COMPLETED,
    status: int = 0,
    outputs: tuple[OutputFile, ...] = (),
    **more: object,
) -> Judgement:
    """Judge a run with this end."""
    outcome = RunOutcome(cause=cause)
    bodies = tuple(json.dumps(record).encode() for record in records)
    unit = UnitResult(name="script", wait_status=status, results=bodies, outcome=outcome, **more)  # type: ignore[arg-type]
    result = RunResult(units=(unit,), end=RunEndReason.FINISHED, outcome=outcome, outputs=outputs)
    return validator.judge(submitted, POLICY, result)


def rules(judgement: Judgement) -> list[str]:
    return [finding.rule for finding in judgement.stage_findings["sandbox"]]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"code": None},
        {"files": {"a.py": "1"}},
        {"code": "1", "argv": ["python3.11"]},
        {"argv": []},
        {"argv": [""]},
        {"argv": ["python3.11", "a\0b"]},
        {"argv": ["a"] * 257},
        {"argv": ["a", "x" * 65_536]},
        {"code": "1", "files": {"a": 1}},
        {"code": "1", "files": {"a": {"base64": "!"}}},
        {"code": "1", "files": {"a": {"base64": "AA==", "mode": 1}}},
        {"code": "1", "stdin": 1},
        {"code": "1", "collect": "out.csv"},
        {"code": "1", "env": {}},
    ],
)
def test_payload_that_is_not_one_program_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        payload(**fields)


def test_code_is_planned_as_a_script_that_its_status_decides(policies: PolicySet) -> None:
    submitted = payload(code="print(1)", files={"a": {"base64": "AA=="}}, stdin="ü", collect=["[a].txt"])
    spec = validator.plan(submitted, policies.get("script"), LIMITS)
    [unit] = spec.units
    assert (unit.program, unit.arguments["as_script"], unit.status_decides) == (Program.PYTHON, True, True)
    assert (unit.stdin, spec.files, spec.collect) == ("ü".encode(), {"a": b"\0"}, ("[[]a].txt",))
    assert spec.allow_exec


def test_argv_is_planned_as_a_program(policies: PolicySet) -> None:
    spec = validator.plan(payload(argv=["python3.11", "-V"]), policies.get("script"), LIMITS)
    [unit] = spec.units
    env = {"HOME": "/sandbox", "TMPDIR": "/sandbox"}
    assert (unit.program, unit.arguments) == (Program.EXEC, {"argv": ["python3.11", "-V"], "env": env})


def test_policy_that_judges_imports_lets_code_start_no_program_and_wants_its_report(
    policies: PolicySet,
) -> None:
    policy = policies.get("default")
    submitted = payload(code="print(1)")
    spec = validator.plan(validator.prepare(submitted), validator.narrow(submitted, policy), LIMITS)
    assert (spec.allow_exec, spec.units[0].status_decides) == (False, False)
    with pytest.raises(RequestError) as refused:
        validator.narrow(payload(argv=["python3.11"]), policy)
    assert refused.value.code == "policy.unenforceable"


def test_command_line_gives_code_or_a_program_with_its_files() -> None:
    options = FileOptions(extra={"stdin": "x", "collect": "a.csv,b.csv"})
    assert from_files({"s.py": b"print(1)"}, options) == {
        "code": "print(1)",
        "stdin": "x",
        "collect": ["a.csv", "b.csv"],
    }
    program = FileOptions(extra={"argv": "python3.11 main.py 'a b'"})
    assert from_files({"main.py": b"1", "raw": b"\xff"}, program) == {
        "argv": ["python3.11", "main.py", "a b"],
        "files": {"main.py": "1", "raw": {"base64": "/w=="}},
    }


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({}, FileOptions()),
        ({"a.py": b"", "b.py": b""}, FileOptions()),
        ({"a.csv": b""}, FileOptions()),
        ({"a.py": b"\xff"}, FileOptions()),
        ({"a.py": b""}, FileOptions(input={})),
        ({"a.py": b""}, FileOptions(extra={"env": "a"})),
        ({"a.py": b""}, FileOptions(extra={"argv": "python3.11 'a"})),
    ],
)
def test_command_line_that_means_no_script_is_refused(files: dict[str, bytes], options: FileOptions) -> None:
    with pytest.raises(RequestError):
        from_files(files, options)


RAISED = {
    "status": "raised", "error_type": "ZeroDivisionError", "message": "division by zero", "line": 2,
    "traceback": "…", "where": "f", "phase": "call",
}  # fmt: skip
CODE = payload(code="def f():\n    return 1 / 0\nf()")


@pytest.mark.parametrize("record", [None, RAISED, {"status": "returned"}, "nonsense", {"status": "exited"}])
def test_status_zero_passes_whatever_the_record_says(record: object) -> None:
    judgement = judged(CODE, *([record] if record else []))
    assert (rules(judgement), judgement.cases[0].status) == ([], CaseStatus.PASSED)


@pytest.mark.parametrize(
    "record", [None, {"status": "returned", "values": {}}, "nonsense", {"status": "exited"}]
)
def test_another_status_fails_whatever_the_record_says(record: object) -> None:
    judgement = judged(CODE, *([record] if record else []), cause=Cause.EXITED_NONZERO, status=EXIT_1)
    [case] = judgement.cases
    assert (rules(judgement), case.status, case.exit_code) == (
        ["sandbox.exited_nonzero"],
        CaseStatus.FAILED,
        1,
    )


def test_exception_is_shown_with_its_line() -> None:
    judgement = judged(CODE, RAISED, cause=Cause.EXITED_NONZERO, status=EXIT_1)
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, finding.line, finding.snippet) == ("sandbox.raised", 2, "    return 1 / 0")
    assert judgement.cases[0].error_type == "ZeroDivisionError"


def test_end_of_standard_error_stands_in_the_finding_and_in_the_retry_context() -> None:
    said = "".join(f"note {number}\n" for number in range(8))
    judgement = judged(
        payload(code="import sys\nsys.exit(3)"),
        cause=Cause.EXITED_NONZERO,
        status=EXIT_1,
        stderr=CapturedOutput(head=said.encode(), total_bytes=len(said)),
    )
    [finding] = judgement.stage_findings["sandbox"]
    assert finding.context == "standard error ended with:\nnote 3\nnote 4\nnote 5\nnote 6\nnote 7"
    assert "note 7" in validator.retry_context([finding], "sandbox")


def test_script_that_failed_in_silence_has_no_context() -> None:
    judgement = judged(payload(code="raise SystemExit(1)"), cause=Cause.EXITED_NONZERO, status=EXIT_1)
    assert [f.context for f in judgement.stage_findings["sandbox"]] == [None]


def test_refused_operation_fails_a_script_that_ended_well() -> None:
    refused = PolicyEvent(kind="import", detail="socket", allowed=False, enforced=True, line=1)
    judgement = judged(CODE, cause=Cause.POLICY_VIOLATION, events=(refused,))
    assert rules(judgement) == ["policy.import"]


def test_outputs_are_asked_for_only_after_a_good_end() -> None:
    wanted = payload(code="1 / 0", collect=["a.csv", "b.csv"])
    there = (OutputFile(name="a.csv", content=b""), OutputFile(name="b.csv", content=b"x", truncated=True))
    assert rules(judged(wanted)) == ["collect.missing", "collect.missing"]
    assert rules(judged(wanted, outputs=there)) == ["collect.cut"]
    assert rules(judged(wanted, cause=Cause.EXITED_NONZERO, status=EXIT_1)) == ["sandbox.exited_nonzero"]


@pytest.mark.parametrize("stage", ["syntax", "sandbox", "new"])
def test_every_stage_has_its_headline(stage: str) -> None:
    assert validator.retry_context([], stage).splitlines()[0].endswith(":")


CASES = [{"name": "one", "stdin": "1", "expected": "2\n"}, {"name": "two", "stdin": "2", "expected": "4\n"}]


def judged_cases(submitted: ScriptPayload, *printed: tuple[str, bytes]) -> Judgement:
    outcome = RunOutcome(cause=Cause.COMPLETED)
    units = tuple(
        UnitResult(
            name=name, wait_status=0, stdout=CapturedOutput(head=text, total_bytes=len(text)), outcome=outcome
        )
        for name, text in printed
    )
    return validator.judge(
        submitted, POLICY, RunResult(units=units, end=RunEndReason.FINISHED, outcome=outcome)
    )


def test_every_case_is_a_run_of_its_own_with_its_standard_input() -> None:
    units = validator.plan(payload(code="print(1)", cases=CASES), POLICY, LIMITS).units
    assert [(each.name, each.stdin) for each in units] == [("one", b"1"), ("two", b"2")]
    with_stdin = validator.plan(payload(code="print(1)", stdin="3", cases=CASES), POLICY, LIMITS).units
    assert [each.name for each in with_stdin] == ["one", "two", "script"]


def test_case_that_prints_something_else_fails_with_the_line() -> None:
    judgement = judged_cases(payload(code="x", cases=CASES), ("one", b"2\n"), ("two", b"5\n"))
    assert [case.status.value for case in judgement.cases] == ["passed", "failed"]
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, finding.context) == ("case.differs", 'expected at line 1: "4"\nreceived: "5"')


def test_cases_that_print_what_they_expect_pass_for_a_program_as_well() -> None:
    submitted = payload(argv=["python3.11", "m.py"], files={"m.py": "x"}, cases=CASES)
    assert rules(judged_cases(submitted, ("one", b"2\n"), ("two", b"4\n"))) == []


def test_case_that_was_never_run_fails_even_if_the_run_says_that_it_is_complete() -> None:
    assert rules(judged_cases(payload(code="x", cases=CASES), ("one", b"2\n"))) == [
        "sandbox.protocol_violation"
    ]
