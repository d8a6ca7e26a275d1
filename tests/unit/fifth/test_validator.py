"""The kind `fifth`: stages, workflows in its source, plans, and judgement of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from pydantic import ValidationError

from assayd.errors import RequestError
from assayd.model.finding import Finding, Layer
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import (
    CapturedOutput,
    Cause,
    Limits,
    Program,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
)
from assayd.policies import PolicySet
from assayd.ports.command_line import STDIN, FileOptions
from assayd_fifth.command_line import from_files
from assayd_fifth.payload import FifthCase, FifthPayload
from assayd_fifth.validator import validator

LIMITS = Limits(timeout_s=20, unit_timeout_s=10, memory_bytes=128 * 2**20, max_processes=1)
POLICY = ExecutionPolicy(name="x")
CLEAN = """\\ Two small words
: double ( n -- n*2 )
  2 * ;

: show-double ( n -- )
  dup . s"  doubled is " type double . cr ;

5 show-double
"""
CONCATENATION = ": concat-strings ( addr1 u1 addr2 u2 -- addr3 u3 )\n  s+ ;\n"
INVENTED = """: process-data ( addr u -- )
  string-split   \\ Not a real word
  foreach        \\ Also not real
    process-item
  end-foreach ;  \\ Definitely not real
"""
SEVERAL = """include str.fs

: build-greeting name greeting
  greeting s" , " s+ name s+
  allocate drop ;
"""


def findings(payload: FifthPayload, stage: str | None = None) -> list[Finding]:
    return [
        finding
        for each in validator.stages
        if stage in {None, each.name}
        for finding in each.check(payload, POLICY)
    ]


def places(found: Sequence[Finding]) -> list[tuple[str, int | None]]:
    return [(finding.rule, finding.line) for finding in found]


def rated(code: str, **fields: object) -> tuple[float, Mapping[str, list[str]]]:
    payload = FifthPayload(code=code, **fields)  # type: ignore[arg-type]
    rating = validator.rate(payload, findings(payload))
    assert isinstance(rating.feedback, dict)
    return rating.confidence, rating.feedback  # type: ignore[return-value]


def test_workflow_of_a_clean_pass() -> None:
    payload = FifthPayload(code=CLEAN, task_type="arithmetic", model_source="claude-sonnet")
    assert findings(payload) == []
    confidence, feedback = rated(CLEAN)
    assert confidence == 1.0
    assert len(feedback["notes"]) == 4


def test_workflow_of_a_forbidden_pattern() -> None:
    [finding] = findings(FifthPayload(code=CONCATENATION))
    assert (finding.rule, finding.category, finding.line, finding.column) == (
        "forbidden.concatenation",
        "forbidden_pattern",
        2,
        3,
    )
    assert "memory" in finding.message
    assert "str-reset" in (finding.suggestion or "")


def test_workflow_of_invented_words() -> None:
    found = findings(FifthPayload(code=INVENTED))
    assert places(found) == [
        ("vocabulary.unknown_word", 2),
        ("vocabulary.imagined_syntax", 3),
        ("vocabulary.unknown_word", 4),
        ("vocabulary.imagined_syntax", 5),
    ]
    assert {finding.category for finding in found} == {"hallucination"}
    assert "repeat" in (found[1].suggestion or "")


def test_workflow_of_several_causes_finds_them_together_and_orders_their_fixes() -> None:
    payload = FifthPayload(code=SEVERAL)
    assert places(findings(payload)) == [
        ("forbidden.include", 1),
        ("forbidden.concatenation", 4),
        ("forbidden.allocation", 5),
        ("required.stack_comment", 3),
        ("vocabulary.unknown_word", 3),
        ("vocabulary.unknown_word", 3),
    ]
    _, feedback = rated(SEVERAL)
    assert feedback["priority_fixes"][:4] == [
        "require not include",
        "Buffer pattern not s+",
        "Stack effect comments",
        "No allocate",
    ]
    text = validator.retry_context(findings(payload), "forbidden")
    assert "line 1: 'include'" in text
    assert "s+ is FORBIDDEN" in text


def test_leniency_turns_the_errors_of_required_into_warnings_and_no_others() -> None:
    code = ": f 2 * ;\n: g ( -- ) nothing ;\n"
    strict, lenient = (findings(FifthPayload(code=code, strict_mode=mode)) for mode in (True, False))
    assert places(strict) == places(lenient)
    assert [f.is_error for f in strict] == [True, True]
    assert [f.is_error for f in lenient] == [False, True]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("code", [": f ( n -- ) if drop ;", ": f ( -- ) loop ;", ": f ( -- ) nl then ;"])
def test_control_words_that_certainly_do_not_belong_together_are_errors_in_every_mode(
    code: str, *, strict: bool
) -> None:
    payload = FifthPayload(code=code, strict_mode=strict, libraries=("html",))
    assert [(f.rule, f.is_error) for f in findings(payload, "structure")] == [("structure.unbalanced", True)]


CERTAIN = {
    ": f ( n -- ) >r ;": "structure.return_stack",
    ": f ( text$ n -- ) >r text ;": "structure.return_stack",
    ": f ( -- n ) 10 0 do i 5 = if 1 exit then loop 0 ;": "structure.return_stack",
    ": f ( n -- n ) dup if 1 then ;": "structure.branches",
    ": two ( a b -- n ) + ;\n: f ( n -- n ) two ;": "structure.stack_underflow",
    "drop": "structure.stack_underflow",
}


@pytest.mark.parametrize(("code", "rule"), CERTAIN.items(), ids=CERTAIN)
def test_certain_faults_of_depth_and_return_stack_are_errors_in_strict_mode_only(
    code: str, rule: str
) -> None:
    strict = findings(FifthPayload(code=code, libraries=("html",)), "structure")
    lenient = findings(FifthPayload(code=code, libraries=("html",), strict_mode=False), "structure")
    assert [(f.rule, f.is_error) for f in strict] == [(rule, True)]
    assert [(f.rule, f.is_error) for f in lenient] == [(rule, False)]


DOUBTFUL = {
    "a later branch may put it right": ": f ( n -- n ) dup if 1 then dup if drop then ;",
    "a word that nobody knows": "require own.fs\n: f ( n -- ) own if drop ;",
    "a comment with alternatives": ": f ( n -- n | ) dup if drop then ;",
    "a library word": ": f ( text$ -- ) text text ;",
    "what is computed while compiling": ": f ( n -- ) [ 1 drop ] if drop ;",
    "a loop that may end at once": ": f ( -- ) 3 0 do i loop ;",
    "outside of definitions": "1 if",
}


@pytest.mark.parametrize("code", DOUBTFUL.values(), ids=DOUBTFUL)
def test_structure_only_warns_of_what_is_not_certain(code: str) -> None:
    found = findings(FifthPayload(code=code, libraries=("html",)), "structure")
    assert found
    assert not any(finding.is_error for finding in found)


@pytest.mark.parametrize(
    "code",
    [
        ": clear ( -- ) depth 0 ?do drop loop ;",
        ": clear ( -- ) begin depth while drop repeat ;",
        ": shown ( -- ) depth if .s then ;",
    ],
)
def test_program_that_counts_its_stack_itself_is_not_judged(code: str) -> None:
    assert findings(FifthPayload(code=code)) == []


def test_loop_over_the_depth_outside_of_definitions_is_told_only_that_it_has_to_be_in_one() -> None:
    assert places(findings(FifthPayload(code="depth 0 ?do drop loop"))) == [("structure.compile_only", 1)]


def test_immediate_word_of_a_submitted_file_may_end_what_is_open() -> None:
    files = {"own.fs": ": fin ( -- ) postpone then ; immediate\n"}
    code = "require own.fs\n: f ( n -- ) if 1 . fin ;"
    assert not any(f.is_error for f in findings(FifthPayload(code=code, files=files)))


def test_model_and_task_change_no_finding() -> None:
    plain = findings(FifthPayload(code=SEVERAL))
    for source in ("gpt-4", "llama3", "claude-opus"):
        assert findings(FifthPayload(code=SEVERAL, model_source=source, task_type="sql")) == plain


def test_answer_is_prepared_to_its_program_with_the_lines_in_their_places() -> None:
    prepared = validator.prepare(FifthPayload(code=f"Here:\n```\n{CLEAN}```\nDone."))
    assert isinstance(prepared, FifthPayload)
    assert prepared.code == f"\n\n{CLEAN}\n"
    assert validator.prepare(prepared) == prepared


@pytest.mark.parametrize(
    "fields",
    [
        {"files": {"../x.fs": ""}},
        {"files": {"/x.fs": ""}},
        {"files": {".hidden": ""}},
        {"files": {"a b.fs": ""}},
        {"libraries": ["a; bye"]},
        {"execute": "yes"},
        {"strict_mode": 1},
        {"task_type": "x" * 201},
        {"speed": 1},
    ],
)
def test_payload_of_another_form_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FifthPayload.model_validate({"code": "", **fields})


def test_nothing_is_planned_unless_it_is_asked_for(policies: PolicySet) -> None:
    assert validator.plan(FifthPayload(code=CLEAN), policies.get("fifth"), LIMITS) is None


CASES = (
    FifthCase(name="one", expected="1", compare="tokens"),
    FifthCase(name="two", stdin="2", expected="4 \n"),
)


def test_the_plan_loads_prelude_libraries_and_program_in_gforth(policies: PolicySet) -> None:
    payload = FifthPayload(code=CLEAN, execute=True, libraries=("core", "ui"), files={"lib/own.fs": ": x ;"})
    spec = validator.plan(payload, policies.get("fifth"), LIMITS)
    assert spec is not None
    [unit] = spec.units
    assert (spec.image, spec.allow_exec, unit.program, unit.deadline_s) == ("forth", True, Program.EXEC, 10)
    argv = [
        "/usr/bin/gforth",
        *(f"assayd/{name}.fs" for name in ("prelude", "libraries", "program")),
        "-e",
        "bye",
    ]
    assert unit.arguments["argv"] == argv
    assert spec.files["assayd/program.fs"] == CLEAN.encode()
    assert spec.files["assayd/libraries.fs"] == b"require core.fs\nrequire ui.fs\n"
    assert spec.files["lib/own.fs"] == b": x ;"
    assert set(argv[1:4]) <= set(spec.files)


def test_each_case_is_a_run_that_reads_its_own_input(policies: PolicySet) -> None:
    payload = FifthPayload(code=CLEAN, cases=CASES)
    spec = validator.plan(payload, policies.get("fifth"), LIMITS)
    assert spec is not None
    assert [(unit.name, unit.stdin) for unit in spec.units] == [("one", b""), ("two", b"2")]


def test_cases_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="one"):
        FifthPayload(code=CLEAN, cases=(CASES[0], CASES[0]))


def test_program_that_prints_something_else_fails_the_case_that_expects_it() -> None:
    units = tuple(
        UnitResult(
            name=case.name,
            wait_status=0,
            stdout=CapturedOutput(head=b"1 \n", total_bytes=3),
            stderr=CapturedOutput(),
            outcome=RunOutcome(cause=Cause.COMPLETED),
        )
        for case in CASES
    )
    result = RunResult(units=units, end=RunEndReason.FINISHED, outcome=units[0].outcome)
    judgement = validator.judge(FifthPayload(code=CLEAN, cases=CASES), POLICY, result)
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, "received" in finding.message) == ("case.differs", True)
    assert [case.status for case in judgement.cases] == [CaseStatus.PASSED, CaseStatus.FAILED]
    assert [case.expected for case in judgement.cases] == ["1", "4 \n"]


def judged(cause: Cause, stderr: str = "", status: int = 256, results: tuple[bytes, ...] = ()) -> Judgement:
    unit = UnitResult(
        name="program",
        wait_status=0 if cause is Cause.COMPLETED else status,
        results=results,
        stdout=CapturedOutput(head=b"out", total_bytes=3),
        stderr=CapturedOutput(head=stderr.encode(), total_bytes=len(stderr)),
        outcome=RunOutcome(cause=cause),
    )
    result = RunResult(units=(unit,), end=RunEndReason.FINISHED, outcome=unit.outcome)
    return validator.judge(FifthPayload(code=CLEAN, execute=True), POLICY, result)


def test_run_that_ends_well_passes() -> None:
    judgement = judged(Cause.COMPLETED)
    assert judgement.stage_findings == {"sandbox": ()}
    [case] = judgement.cases
    assert (case.status, case.exit_code, case.stdout) == (CaseStatus.PASSED, 0, "out")


def test_error_of_gforth_is_told_with_its_line() -> None:
    judgement = judged(Cause.EXITED_NONZERO, "assayd/program.fs:8: Stack underflow\n5 >>>show-double<<<\n")
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, finding.line, finding.layer) == ("fifth.stack_underflow", 8, Layer.RUNTIME)
    [case] = judgement.cases
    assert (case.status, case.line, case.error_type) == (CaseStatus.FAILED, 8, "fifth.stack_underflow")


@pytest.mark.parametrize("cause", [c for c in Cause if c not in {Cause.COMPLETED, Cause.EXITED_NONZERO}])
def test_bad_end_fails_whatever_the_program_says(cause: Cause) -> None:
    judgement = judged(cause, "assayd: library-unavailable x.fs\nassayd/program.fs:8: Aborted\n>>>x<<<\n")
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, finding.is_error) == (f"sandbox.{cause}", True)
    assert finding.rule in {rule.id for rule in validator.rules}


def test_exit_that_nobody_explains_fails_by_its_code() -> None:
    [finding] = judged(Cause.EXITED_NONZERO, "nothing", status=3 << 8).stage_findings["sandbox"]
    assert (finding.rule, finding.is_error) == ("sandbox.exited_nonzero", True)


def test_missing_library_is_told_and_the_static_result_stands() -> None:
    judgement = judged(Cause.COMPLETED, "assayd: library-unavailable core.fs\n")
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, finding.is_error) == ("fifth.library_unavailable", False)
    assert judgement.cases[0].status is CaseStatus.PASSED


def test_run_that_never_started_passes_nothing() -> None:
    result = RunResult(units=(), end=RunEndReason.DEADLINE, outcome=RunOutcome(cause=Cause.TIMEOUT))
    judgement = validator.judge(FifthPayload(code=CLEAN, execute=True), POLICY, result)
    assert judgement.cases[0].status is CaseStatus.SKIPPED


def test_first_file_is_the_program_and_the_others_are_loaded_by_it() -> None:
    options = FileOptions(extra={"libraries": "core,ui", "execute": "true", "strict_mode": "false"})
    files = {"main.fs": b"require own.fs", "own.fs": b": x ( -- ) ;"}
    assert from_files(files, options) == {
        "code": "require own.fs",
        "files": {"own.fs": ": x ( -- ) ;"},
        "libraries": ["core", "ui"],
        "execute": True,
        "strict_mode": False,
    }
    assert from_files({STDIN: b"cr"}, FileOptions()) == {"code": "cr"}


def test_request_in_yaml_has_the_fields_of_a_payload() -> None:
    text = b"validation_request:\n  code: |\n    : x ( -- ) ;\n  task_type: html\n  strict_mode: true\n"
    options = FileOptions(extra={"strict_mode": "false"})
    assert from_files({"request.yaml": text, "own.fs": b": y ( -- ) ;"}, options) == {
        "code": ": x ( -- ) ;\n",
        "task_type": "html",
        "strict_mode": False,
        "files": {"own.fs": ": y ( -- ) ;"},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"validation_request: [", "line 1: this isn't valid YAML"),
        (b"validation_request:\n  strict_mode: 2024-13-45\n", "request.yml: a date or number in this YAML"),
        (b"validation_request:\n  strict_mode: !!bool maybe\n", "a date or number in this YAML isn't valid"),
        (b"code: x", "expected `validation_request:` with a field `code`"),
        (b"validation_request:\n  code: [1]", "expected `validation_request:`"),
        (b"validation_request:\n  code: x\n  speed: 1", "unknown field 'speed'; known fields: code, "),
    ],
)
def test_request_in_yaml_that_is_none_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        from_files({"request.yml": text}, FileOptions())


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({}, FileOptions()),
        ({"main.py": b""}, FileOptions()),
        ({"main.fs": b"\xff"}, FileOptions()),
        ({"main.fs": b""}, FileOptions(sample_paths=("/a",))),
        ({"main.fs": b""}, FileOptions(input={})),
        ({"main.fs": b""}, FileOptions(extra={"speed": "1"})),
        ({"main.fs": b""}, FileOptions(extra={"execute": "maybe"})),
    ],
)
def test_command_line_of_another_form_is_refused(files: dict[str, bytes], options: FileOptions) -> None:
    with pytest.raises(RequestError):
        from_files(files, options)
