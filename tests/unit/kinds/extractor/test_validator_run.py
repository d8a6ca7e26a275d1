"""Plans and judgements of the extractor, with records as a runner returns them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.kinds.extractor.validator import ExtractorPayload, validator
from assayd.model.finding import Layer, Severity, has_errors
from assayd.model.policy import ExecutionPolicy, ImportPolicy
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import (
    CapturedOutput,
    Cause,
    Limits,
    PolicyEvent,
    Program,
    ResourceUsage,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitEndReason,
    UnitResult,
)

PATHS = ("/data/Q1/a.csv", "/data/Q2/b.csv", "/data/Q3/c.csv")
CODE = "def extract(path: str) -> dict:\n    quarter = int(path[6:8])\n    return {'quarter': quarter}\n"
PAYLOAD = validator.prepare(ExtractorPayload(code=f"Here:\n```python\n{CODE}```\n", sample_paths=PATHS))
LIMITS = Limits(timeout_s=60, unit_timeout_s=5, memory_bytes=100 * 2**20, max_processes=1)
COMPLETED = RunOutcome(cause=Cause.COMPLETED)
RAISED = {
    "status": "raised",
    "error_type": "ValueError",
    "message": "invalid literal for int() with base 10: 'Q1'",
    "line": 2,
    "traceback": "Traceback …",
    "where": "extract",
    "phase": "call",
}


def returned(value: object, type_name: str = "dict") -> bytes:
    record = {"status": "returned", "value": value, "value_type": type_name, "notes": []}
    return json.dumps(record | {"duration_s": 0.001}).encode()


def unit(name: str, record: bytes | None, cause: Cause = Cause.COMPLETED) -> UnitResult:
    return UnitResult(
        name=name,
        wait_status=0 if cause is Cause.COMPLETED else 256,
        results=() if record is None else (record,),
        stdout=CapturedOutput(head=b"out", total_bytes=3),
        usage=ResourceUsage(wall_s=0.002),
        outcome=RunOutcome(cause=cause),
    )


def run(*units: UnitResult, outcome: RunOutcome | None = None) -> RunResult:
    worst = next((u.outcome for u in units if not u.outcome.completed), COMPLETED)
    return RunResult(units=units, end=RunEndReason.FINISHED, outcome=outcome or worst)


def raised(name: str, **changes: object) -> UnitResult:
    return unit(name, json.dumps(RAISED | changes).encode(), Cause.EXITED_NONZERO)


def judged(result: RunResult, policy: ExecutionPolicy | None = None) -> Judgement:
    return validator.judge(PAYLOAD, policy or ExecutionPolicy(name="x"), result)


def rules(judgement: Judgement, stage: str = "sandbox") -> list[str]:
    return [finding.rule for finding in judgement.stage_findings[stage]]


def good(*values: object) -> RunResult:
    return run(*(unit(path, returned(value)) for path, value in zip(PATHS, values, strict=True)))


def test_preparing_keeps_the_code_of_an_answer_and_the_paths() -> None:
    assert (PAYLOAD.code, PAYLOAD.sample_paths) == (CODE, PATHS)
    assert validator.prepare(PAYLOAD) == PAYLOAD


def test_the_plan_calls_the_cleaned_code_once_per_path(extractor_policy: ExecutionPolicy) -> None:
    spec = validator.plan(PAYLOAD, extractor_policy, LIMITS)
    assert [u.name for u in spec.units] == list(PATHS)
    assert {u.program for u in spec.units} == {Program.CALL}
    assert {u.deadline_s for u in spec.units} == {5}
    assert spec.units[1].arguments == {
        "source": CODE,
        "filename": "extractor.py",
        "function": "extract",
        "args": ["/data/Q2/b.csv"],
        "kwargs": {},
        "builtins": "safe",
    }
    assert (spec.image, spec.limits) == ("python", LIMITS)
    assert spec.imports == replace(
        extractor_policy.imports, allowed=extractor_policy.imports.allowed | {"os"}
    )
    assert set(spec.preload) <= extractor_policy.imports.allowed
    assert (dict(spec.files), spec.collect, spec.allow_exec) == ({}, (), False)


def test_names_of_modules_go_along_where_some_are_computed(extractor_policy: ExecutionPolicy) -> None:
    code = "import math\ndef extract(path): return {'x': getattr(math, path)(4)}\n"
    spec = validator.plan(ExtractorPayload(code=code, sample_paths=PATHS), extractor_policy, LIMITS)
    assert spec is not None
    names = spec.units[0].arguments["names"]
    assert isinstance(names, dict)
    assert set(names["math"]) == extractor_policy.imports.names["math"]
    assert "json" not in names


def test_the_same_path_twice_is_tried_twice() -> None:
    payload = ExtractorPayload(code=CODE, sample_paths=("/a", "/a"))
    assert len(validator.plan(payload, ExecutionPolicy(name="x"), LIMITS).units) == 2
    result = run(unit("/a", returned({"a": 1})), unit("/a", returned({"a": 2})))
    cases = validator.judge(payload, ExecutionPolicy(name="x"), result).cases
    assert [case.result for case in cases] == [{"a": 1}, {"a": 2}]


def test_a_dict_for_every_path_passes() -> None:
    judgement = judged(good({"quarter": 1}, {"quarter": 2}, {"quarter": 3}))
    assert judgement.stage_findings == {"sandbox": (), "quality": ()}
    assert [case.name for case in judgement.cases] == list(PATHS)
    assert {case.status for case in judgement.cases} == {CaseStatus.PASSED}
    first = judgement.cases[0]
    assert (first.result, first.stdout, first.duration_s) == ({"quarter": 1}, "out", 0.002)
    assert first.cause is Cause.COMPLETED


def test_an_exception_is_told_with_its_line_and_once_for_all_paths() -> None:
    judgement = judged(run(*(raised(path) for path in PATHS)))
    [finding] = judgement.stage_findings["sandbox"]
    assert "quality" not in judgement.stage_findings
    assert (finding.rule, finding.layer, finding.line) == ("sandbox.raised", Layer.RUNTIME, 2)
    assert finding.snippet == "    quarter = int(path[6:8])"
    assert finding.context == "/data/Q1/a.csv and 2 more"
    assert "match" in (finding.suggestion or "")
    case = judgement.cases[0]
    assert (case.status, case.error_type, case.line) == (CaseStatus.FAILED, "ValueError", 2)
    assert case.traceback == "Traceback …"


def test_exceptions_of_one_line_whose_texts_differ_are_told_once() -> None:
    judgement = judged(run(*(raised(path, message=f"invalid literal: {path!r}") for path in PATHS)))
    [finding] = judgement.stage_findings["sandbox"]
    assert finding.message == f"ValueError: invalid literal: {PATHS[0]!r}"
    assert finding.context == f"{PATHS[0]} and 2 more"


def test_different_exceptions_are_told_in_the_order_of_paths() -> None:
    judgement = judged(
        run(
            raised(PATHS[0], line=3),
            unit(PATHS[1], returned({"a": 1})),
            raised(PATHS[2], error_type="KeyError"),
        )
    )
    assert [f.line for f in judgement.stage_findings["sandbox"]] == [3, 2]
    assert [case.status.value for case in judgement.cases] == ["failed", "passed", "failed"]


@pytest.mark.parametrize("line", [99, 0, -1, None])
def test_a_line_that_is_not_in_the_text_is_not_believed(line: int | None) -> None:
    [finding] = judged(run(*(raised(path, line=line) for path in PATHS))).stage_findings["sandbox"]
    assert (finding.line, finding.snippet) == (None, None)


@pytest.mark.parametrize(
    ("error_type", "word"),
    [
        ("AttributeError", "Check the type"),
        ("IndexError", "Check its length"),
        ("KeyError", "Use a key"),
        ("SystemExit", "Return"),
        ("json.decoder.JSONDecodeError", "JSON"),
        ("HomeMade", "Handle"),
    ],
)
def test_the_hint_fits_the_exception(error_type: str, word: str) -> None:
    judgement = judged(run(*(raised(path, error_type=error_type) for path in PATHS)))
    assert word in (judgement.stage_findings["sandbox"][0].suggestion or "")


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (None, "NoneType"),
        ([], "list"),
        ("x", "str"),
        ({"a": 1}, "OrderedDict"),
        ({"a": 1}, "Row"),
        ({"a": 1}, "Dict"),
        ([], "dict"),
        (None, "dict"),
    ],
)
def test_only_an_exact_dict_is_a_result(value: object, type_name: str) -> None:
    results = [unit(path, returned({"a": 1})) for path in PATHS[:2]]
    judgement = judged(run(*results, unit(PATHS[2], returned(value, type_name))))
    assert rules(judgement) == ["result.not_dict"]
    assert judgement.cases[2].status is CaseStatus.FAILED


_ENDS = [cause for cause in Cause if cause not in {Cause.COMPLETED, Cause.EXITED_NONZERO}]


@pytest.mark.parametrize("cause", _ENDS)
def test_every_bad_end_fails_with_its_own_rule_whatever_the_record_says(cause: Cause) -> None:
    good_units = [unit(path, returned({"a": 1})) for path in PATHS[:2]]
    judgement = judged(run(*good_units, unit(PATHS[2], returned({"a": 1}), cause)))
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, finding.context) == (f"sandbox.{cause}", PATHS[2])
    assert finding.is_error
    assert finding.suggestion
    assert judgement.cases[2].status is not CaseStatus.PASSED
    assert judgement.cases[2].result is None
    assert finding.rule in {rule.id for rule in validator.rules}


def test_a_good_record_of_a_process_that_failed_does_not_count() -> None:
    units = [unit(path, returned({"a": 1}), Cause.EXITED_NONZERO) for path in PATHS]
    assert rules(judged(run(*units))) == ["sandbox.exited_nonzero"]


def test_a_failure_that_exits_well_does_not_pass() -> None:
    units = [unit(path, json.dumps(RAISED).encode()) for path in PATHS]
    assert rules(judged(run(*units))) == ["sandbox.raised"]


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{}",
        b"PASS",
        b'{"status": "returned", "value": {"a": NaN}, "value_type": "dict"}',
        b'{"status": "returned", "status": "returned", "value": {"a": 1}, "value_type": "dict"}',
        b'{"status": "returned", "value": {"a": 1}, "value_type": ["dict"]}',
        b'{"status": "returned", "values": {"a": {"value": 1, "value_type": "int"}}}',
        b'{"status": "returned", "value": ' + b"[" * 10_000 + b"]" * 10_000 + b', "value_type": "dict"}',
    ],
)
def test_bytes_that_are_no_record_of_a_call_fail(record: bytes) -> None:
    units = [unit(path, returned({"a": 1})) for path in PATHS[:2]]
    judgement = judged(run(*units, unit(PATHS[2], record)))
    assert rules(judgement) == ["sandbox.protocol_violation"]
    assert judgement.cases[2].status is CaseStatus.ERROR


def test_two_records_are_none() -> None:
    twice = replace(unit(PATHS[0], None), results=(returned({"a": 1}), returned({"a": 1})))
    result = run(twice, *(unit(path, returned({"a": 1})) for path in PATHS[1:]))
    assert rules(judged(result)) == ["sandbox.protocol_violation"]


def test_a_refused_import_that_the_code_swallowed_fails_the_path() -> None:
    event = PolicyEvent(kind="import", detail="os", allowed=False, enforced=True, line=2)
    caught = replace(unit(PATHS[0], returned({"a": 1}), Cause.POLICY_VIOLATION), events=(event,))
    judgement = judged(run(caught, *(unit(path, returned({"a": 1})) for path in PATHS[1:])))
    [finding] = judgement.stage_findings["sandbox"]
    assert (finding.rule, finding.line, finding.is_error) == ("policy.import", 2, True)
    assert judgement.cases[0].status is CaseStatus.FAILED


def test_an_enforced_event_turns_a_pass_into_a_failure() -> None:
    event = PolicyEvent(kind="open", detail="/etc/passwd", allowed=False, enforced=True)
    units = [replace(unit(path, returned({"a": 1})), events=(event,)) for path in PATHS]
    judgement = judged(run(*units))
    assert rules(judgement) == ["policy.operation"]
    assert {case.status for case in judgement.cases} == {CaseStatus.FAILED}


def test_events_beside_a_timeout_do_not_hide_it() -> None:
    event = PolicyEvent(kind="network", detail="a:1", allowed=False, enforced=True)
    late = replace(unit(PATHS[0], None, Cause.TIMEOUT), events=(event,), end=UnitEndReason.DEADLINE)
    judgement = judged(run(late, *(unit(path, returned({"a": 1})) for path in PATHS[1:])))
    assert rules(judgement) == ["policy.network", "sandbox.timeout"]


def test_events_that_are_allowed_or_only_observed_fail_nothing() -> None:
    events = (
        PolicyEvent(kind="import", detail="re", allowed=True, enforced=False),
        PolicyEvent(kind="import", detail="os", allowed=False, enforced=False),
    )
    units = [replace(unit(path, returned({"a": 1})), events=events) for path in PATHS]
    judgement = judged(run(*units))
    assert [f.severity for f in judgement.stage_findings["sandbox"]] == [Severity.INFO]
    assert {case.status for case in judgement.cases} == {CaseStatus.PASSED}


def test_paths_that_were_never_started_are_skipped_and_told() -> None:
    overdue = RunOutcome(cause=Cause.TIMEOUT)
    judgement = judged(run(unit(PATHS[0], returned({"a": 1})), outcome=overdue))
    assert [case.status.value for case in judgement.cases] == ["passed", "skipped", "skipped"]
    [finding] = judgement.stage_findings["sandbox"]
    assert finding.rule == "sandbox.timeout"
    assert "2 of 3 paths" in finding.message


def test_a_unit_of_another_name_is_none() -> None:
    judgement = judged(run(*(unit(path, returned({"a": 1})) for path in reversed(PATHS))))
    assert [case.status.value for case in judgement.cases] == ["skipped", "passed", "skipped"]
    assert rules(judgement) == ["sandbox.protocol_violation"]


def test_no_units_at_all_never_pass() -> None:
    judgement = judged(run())
    assert has_errors(judgement.stage_findings["sandbox"])


def test_a_compiler_that_disagrees_is_a_finding_of_the_syntax_stage() -> None:
    record = {"status": "not_compiled", "error_type": "SyntaxError", "message": "no", "line": 1, "column": 5}
    units = [unit(path, json.dumps(record).encode(), Cause.EXITED_NONZERO) for path in PATHS]
    judgement = judged(run(*units))
    assert list(judgement.stage_findings) == ["syntax"]
    [finding] = judgement.stage_findings["syntax"]
    assert (finding.rule, finding.layer, finding.line) == ("syntax.guest_disagrees", Layer.RUNTIME, 1)


def test_a_function_that_is_not_there_after_the_run_is_told() -> None:
    units = [unit(path, b'{"status": "no_function"}', Cause.EXITED_NONZERO) for path in PATHS]
    assert rules(judged(run(*units))) == ["sandbox.no_function"]


def test_the_quality_of_the_results_is_a_stage_of_its_own() -> None:
    judgement = judged(good({}, {}, {}))
    assert judgement.stage_findings["sandbox"] == ()
    assert rules(judgement, "quality") == ["quality.all_empty"]
    assert {case.status for case in judgement.cases} == {CaseStatus.PASSED}


def test_the_retry_context_of_a_run_shows_line_and_path() -> None:
    findings = judged(run(*(raised(path) for path in PATHS))).stage_findings["sandbox"]
    text = validator.retry_context(findings, "sandbox")
    assert "line 2: “ValueError: invalid literal for int()" in text
    assert "Code: quarter = int(path[6:8])" in text
    assert "Seen: “/data/Q1/a.csv and 2 more”" in text


_RECORDS = (
    st.binary(max_size=40)
    | st.just(returned({}))
    | st.fixed_dictionaries(
        {"status": st.sampled_from(["returned", "raised", "not_compiled", "no_function", "x"])},
        optional={
            "value": st.none()
            | st.integers()
            | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
            "value_type": st.sampled_from(["dict", "list", "x", None]),
            "line": st.none() | st.integers(),
            **dict.fromkeys(["message", "error_type", "traceback", "phase"], st.text(max_size=5)),
        },
    ).map(lambda record: json.dumps(record).encode())
)
_UNITS = st.builds(
    lambda name, records, cause, events: replace(unit(name, None, cause), results=records, events=events),
    st.sampled_from([*PATHS, "other"]),
    st.lists(_RECORDS, max_size=2).map(tuple),
    st.sampled_from(Cause),
    st.lists(
        st.builds(
            PolicyEvent,
            kind=st.sampled_from(["import", "network", "open", "\n"]),
            detail=st.text(max_size=5),
            allowed=st.booleans(),
            enforced=st.booleans(),
            line=st.none() | st.integers(),
        ),
        max_size=2,
    ).map(tuple),
)


@given(st.lists(_UNITS, max_size=4))
def test_whatever_comes_back_it_passes_only_as_a_complete_positive_record(units: list[UnitResult]) -> None:
    judgement = judged(run(*units))
    passed = not any(has_errors(findings) for findings in judgement.stage_findings.values())
    assert len(judgement.cases) == len(PATHS)
    if passed:
        assert all(case.status is CaseStatus.PASSED and case.result is not None for case in judgement.cases)
        assert all(u.outcome.completed and len(u.results) == 1 for u in units[: len(PATHS)])
    found = {f.rule for findings in judgement.stage_findings.values() for f in findings}
    assert found <= {rule.id for rule in validator.rules}


def test_a_request_does_not_choose_what_the_runner_itself_imports(extractor_policy: ExecutionPolicy) -> None:
    asked = ImportPolicy(allowed=frozenset({"unittest.__main__"}))
    spec = validator.plan(
        ExtractorPayload(code=CODE, sample_paths=PATHS), replace(extractor_policy, imports=asked), LIMITS
    )
    assert spec is not None
    assert "unittest.__main__" not in spec.preload
    assert set(spec.preload) <= extractor_policy.imports.allowed
