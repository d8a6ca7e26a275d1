"""Judges the tests of a solution: counts passed tests, and selects the details of failures to show.

The tests' process, which runs no code of the solution, writes the record. The record is used only if the
runner has observed the end of that process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from assayd.findings.expected import find_difference
from assayd.findings.python_failures import ExceptionContext, build_failure_finding
from assayd.findings.runs import build_cause_finding, build_unfinished_findings, describe_limit
from assayd.findings.source_text import SplitText
from assayd.findings.units import build_case
from assayd.guest_results import GuestJsonError, RaisedException, decode_guest_json
from assayd.kinds.solution.payload import PreparedSolution, RevealLevel, SolutionCase
from assayd.model.finding import Finding, Layer, Rule
from assayd.model.report import Case, CaseStatus, Judgement
from assayd.model.run import Cause, RunResult, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text

FAILED_RULE = Rule(
    id="solution.test_failed",
    title="A hidden test failed",
    help="Bad: def double(x): return x + 2, and a test asserts double(1) == 2.",
)
FAULT_RULE = Rule(
    id="solution.not_comparable",
    title="A value of the solution can't be judged",
    help="Bad: return Point(1, 2), and a test compares it. Good: return (1, 2).",
)
ENDED_RULE = Rule(
    id="solution.ended",
    title="The solution's process ended during a test",
    help="Bad: os._exit(0), sys.setrecursionlimit(10**9), while True.",
)
RULES = (FAILED_RULE, FAULT_RULE, ENDED_RULE)

_RELIABLE_CAUSES = frozenset({Cause.COMPLETED, Cause.EXITED_NONZERO})
_MAX_FAILURE_CHARS = 500

Fields = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOutcome:
    """The outcome of a test. `finding` is the fault; `broken` is True if the solution can't be imported."""

    case: Case
    finding: Finding | None = None
    broken: bool = False


def judge_tests(payload: PreparedSolution, result: RunResult) -> Judgement:
    """Return the judgement of a run: the share of passed tests, and the failed tests.

    Failures are reported only as far as the request permits.
    """
    payload = payload.model_copy(update={"code": SplitText(payload.code)})  # each unit quotes its lines
    wanted = dict(enumerate(payload.cases))
    units = dict(enumerate(result.units))
    outcomes = [
        _judge_test(test.name, units.get(number), payload, wanted.get(number))
        for number, test in enumerate(payload.hidden)
    ]
    counted = [one for one in outcomes if not _is_skipped_by_test(one.case)]
    passed = sum(one.case.status is CaseStatus.PASSED for one in counted)
    findings = tuple(_iter_revealed_findings(outcomes, payload, passed, len(counted)))
    if not findings and passed < max(len(counted), 1):
        started = build_unfinished_findings(result, "The solution") if counted else ()
        findings = started or (_build_summary_finding(passed, len(counted)),)
    return Judgement(
        stage_findings={"sandbox": findings},
        cases=tuple(_redact_case(one.case, payload.reveal) for one in outcomes),
        score=passed / len(counted) if counted else 0.0,
    )


def _is_skipped_by_test(case: Case) -> bool:
    return case.status is CaseStatus.SKIPPED and case.cause is not None


def _judge_test(
    name: str, unit: UnitResult | None, payload: PreparedSolution, wanted: SolutionCase | None
) -> TestOutcome:
    if unit is None or unit.name != name:
        case = Case(name=name, status=CaseStatus.ERROR, message="The attempt's time ended before this test.")
        return TestOutcome(case=case)
    record = _read_record(unit)
    if record is None:
        finding = build_cause_finding(_determine_cause(unit), f"The test {name!r}", describe_limit(unit))
        return _build_failed_outcome(unit, finding, CaseStatus.ERROR)
    return _judge_record(unit, record, payload, wanted)


def _judge_record(
    unit: UnitResult, record: Fields, payload: PreparedSolution, wanted: SolutionCase | None
) -> TestOutcome:
    """Return the outcome that the record of the tests' process shows. Only one type of record is a pass."""
    if record.get("status") == "broken":
        return _build_import_failure_outcome(unit, record, payload)
    if (fault := record.get("fault")) is not None:
        return _build_fault_outcome(unit, record, fault)
    if record.get("status") == "skipped" and unit.outcome.cause in _RELIABLE_CAUSES:
        return TestOutcome(case=build_case(unit, CaseStatus.SKIPPED, str(record.get("message") or "skipped")))
    if record.get("status") == "returned" and unit.outcome.completed:
        return _judge_returned_value(unit, record, wanted)
    return _judge_raised_exception(unit, record, payload)


def _determine_cause(unit: UnitResult) -> Cause:
    return Cause.PROTOCOL_VIOLATION if unit.outcome.completed else unit.outcome.cause


def _read_record(unit: UnitResult) -> Fields | None:
    """Parse the record of the tests' process. Return None if it is missing, malformed or unreliable."""
    if unit.outcome.cause not in _RELIABLE_CAUSES | {
        Cause.OUT_OF_MEMORY,
        Cause.PROCESS_LIMIT,
        Cause.DISK_LIMIT,
    }:
        return None
    if len(unit.results) != 1 or unit.malformed is not None:
        return None
    try:
        fields = decode_guest_json(unit.results[0])
    except GuestJsonError:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("status"), str) else None


def _build_failed_outcome(
    unit: UnitResult, finding: Finding, status: CaseStatus = CaseStatus.FAILED, told: JsonValue = None
) -> TestOutcome:
    case = build_case(unit, status, finding.message)
    if isinstance(told, dict):
        case = replace(
            case,
            error_type=_get_text(told, "error_type"),
            traceback=_get_text(told, "traceback"),
            line=_get_line(told),
        )
    return TestOutcome(case=case, finding=finding)


def _build_import_failure_outcome(unit: UnitResult, record: Fields, payload: PreparedSolution) -> TestOutcome:
    """Explain why the solution can't be imported. Reveal no test, because none has run."""
    told = record.get("solution")
    raised = _parse_raised(told, "import") if isinstance(told, dict) else None
    if raised is None:
        message = "The solution's process ended while the code was imported."
        return replace(_build_failed_outcome(unit, _build_test_finding(ENDED_RULE, message)), broken=True)
    finding = build_failure_finding(raised, ExceptionContext(text=payload.code))
    return replace(_build_failed_outcome(unit, finding, told=told), broken=True)


def _build_fault_outcome(unit: UnitResult, record: Fields, fault: JsonValue) -> TestOutcome:
    kind, message = (fault.get("kind"), fault.get("message")) if isinstance(fault, dict) else (None, None)
    ended = kind == "ended"
    finding = _build_test_finding(
        ENDED_RULE if ended else FAULT_RULE, _format_failure_message(unit.name, str(message))
    )
    return _build_failed_outcome(
        unit, finding, CaseStatus.ERROR if ended else CaseStatus.FAILED, record.get("test")
    )


def _judge_returned_value(unit: UnitResult, record: Fields, wanted: SolutionCase | None) -> TestOutcome:
    """Return the outcome of a test that returned. For a case, compare the returned value."""
    passed = build_case(unit, CaseStatus.PASSED, None)
    if wanted is None:
        return TestOutcome(case=passed)
    value = record.get("value")
    found = value.get("value") if isinstance(value, dict) else None
    passed = replace(passed, result=found, expected=wanted.expected)  # type: ignore[arg-type]  # read as JSON
    differs = find_difference(wanted.expected, found, wanted.compare)
    complete = isinstance(value, dict) and value.get("complete") is True
    if differs is None and complete:
        return TestOutcome(case=passed)
    at = f" at {differs.place}" if differs is not None and differs.place else ""
    message = (
        "the value is too large to compare"
        if differs is None
        else f"expected{at} {shorten_text(differs.expected, 200)}, "
        f"received {shorten_text(differs.received, 200)}"
    )
    finding = _build_test_finding(FAILED_RULE, _format_failure_message(unit.name, message))
    return TestOutcome(
        case=replace(passed, status=CaseStatus.FAILED, message=finding.message), finding=finding
    )


def _judge_raised_exception(unit: UnitResult, record: Fields, payload: PreparedSolution) -> TestOutcome:
    """Return the outcome of a test that raised an exception. Prefer the solution's own exception."""
    own, test = record.get("solution"), record.get("test")
    raised = _parse_raised(own, "call") if isinstance(own, dict) else None
    if raised is not None:
        finding = build_failure_finding(raised, ExceptionContext(text=payload.code))
        return _build_failed_outcome(unit, finding, told=own)
    told = test if isinstance(test, dict) else {}
    said = f"{told.get('error_type')}: {told.get('message')}".removesuffix(": ")
    assertion = _get_assertion_source(told)
    last = record.get("last_call")
    calls = f"; the last call: {payload.entry_point}{last}" if isinstance(last, str) and last else ""
    message = _format_failure_message(
        unit.name,
        f"{shorten_text(assertion or said, _MAX_FAILURE_CHARS)}{shorten_text(calls, _MAX_FAILURE_CHARS)}",
    )
    return _build_failed_outcome(unit, _build_test_finding(FAILED_RULE, message), told=test)


def _get_assertion_source(told: Fields) -> str:
    """Return the source line of an assertion without message, which is clearer than the exception type.

    Return an empty string for other exceptions.
    """
    if told.get("error_type") != "AssertionError" or told.get("message"):
        return ""
    lines = str(told.get("traceback") or "").splitlines()
    return lines[-2].strip() if len(lines) > 1 else ""


def _parse_raised(told: Fields, phase: str) -> RaisedException | None:
    error, message = told.get("error_type"), told.get("message")
    if not isinstance(error, str) or not isinstance(message, str):
        return None
    where = told.get("where")
    return RaisedException(
        error_type=error[:200],
        message=message,
        line=_get_line(told),
        traceback=_get_text(told, "traceback") or "",
        where=where if isinstance(where, str) else None,
        phase=phase,
    )


def _get_text(fields: Fields, name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _get_line(fields: Fields) -> int | None:
    line = fields.get("line")
    return line if type(line) is int and 0 < line < 10**7 else None


def _format_failure_message(name: str, message: str) -> str:
    return f"The test {shorten_text(name, 100)!r} failed: {message.rstrip('.')}."


def _build_test_finding(rule: Rule, message: str) -> Finding:
    return Finding(
        rule=rule.id,
        category="tests",
        message=shorten_text(message, 1000),
        layer=Layer.RUNTIME,
        suggestion=_REMEDIES[rule.id],
    )


_REMEDIES = {
    FAILED_RULE.id: "Make the code do what its description asks for, also for inputs that it doesn't show.",
    FAULT_RULE.id: "Return plain values: numbers, strings, lists, tuples, sets, dicts.",
    ENDED_RULE.id: "Return from each call in time: no exit, endless loop, or unbounded recursion or memory.",
}


def _iter_revealed_findings(
    outcomes: list[TestOutcome], payload: PreparedSolution, passed: int, counted: int
) -> Iterator[Finding]:
    """Yield the findings about faults that the request permits to reveal."""
    failed = [one for one in outcomes if one.case.status not in {CaseStatus.PASSED, CaseStatus.SKIPPED}]
    if not failed:
        return
    if all(one.broken for one in failed) and (first := failed[0].finding) is not None:
        yield first
        return
    if payload.reveal.includes(RevealLevel.MESSAGES):
        found = [one.finding for one in failed if one.finding is not None]
        yield from dict.fromkeys(found)
        if found:
            return
    names = [one.case.name for one in failed] if payload.reveal.includes(RevealLevel.NAMES) else []
    yield _build_summary_finding(passed, counted, names)


def _build_summary_finding(passed: int, counted: int, names: list[str] | None = None) -> Finding:
    if not counted:
        return _build_test_finding(FAILED_RULE, "Every hidden test skipped itself")
    named = f": {shorten_text(', '.join(names), 300)}" if names else ""
    return _build_test_finding(FAILED_RULE, f"{counted - passed} of {counted} hidden tests failed{named}")


def _redact_case(case: Case, reveal: RevealLevel) -> Case:
    """Return a case without the data that the request hides. The test's name was hidden earlier."""
    if reveal is RevealLevel.ALL:
        return case
    message = "skipped by the test" if _is_skipped_by_test(case) else None
    shown = Case(
        name=case.name, status=case.status, cause=case.cause, duration_s=case.duration_s, message=message
    )
    if reveal.includes(RevealLevel.MESSAGES):
        return replace(shown, message=case.message, error_type=case.error_type, line=case.line)
    return shown
