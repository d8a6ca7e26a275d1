"""Judges one `call` unit: whether it returned a value and, if not, with which findings.

The input of this module is controlled by the guest. A value is accepted only if the cause, which the
sandbox determines, is `completed`. The validator compares the value with the expected value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from assayd.findings.runs import (
    cause_finding,
    event_findings,
    limit_details,
    no_function_finding,
    not_compiled_finding,
    raised_finding,
)
from assayd.findings.timeout import add_endless_parts, timeout_finding
from assayd.guest_results.json_reader import GuestJsonError
from assayd.guest_results.record import NoFunction, NotCompiled, Raised, Record, Returned, Value, read_record
from assayd.model.finding import Finding, has_errors
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, UnitResult
from assayd.model.submission import JsonValue

_MAY_HOLD_A_RECORD = frozenset({Cause.COMPLETED, Cause.EXITED_NONZERO, Cause.POLICY_VIOLATION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of one call. `value` is set only if the call returned and no other fact contradicts this.

    `again` contains the results of repeated calls, which affect only warnings.
    """

    case: Case
    findings: tuple[Finding, ...] = ()
    value: Value | None = None
    again: tuple[JsonValue, ...] = ()


def judge_call(name: str, unit: UnitResult | None, *, text: str, function: str) -> Tried:
    """Judge a unit that called `function` of `text`; `unit` is None if it never started."""
    if unit is None:
        return Tried(case=Case(name=name, status=CaseStatus.SKIPPED, message="never started"))
    events = tuple(event_findings(unit.events, text))
    try:
        record = _record(unit)
    except GuestJsonError as problem:
        finding = cause_finding(Cause.PROTOCOL_VIOLATION, "The code", str(problem))
        return Tried(case=case_of(unit, CaseStatus.ERROR, finding.message), findings=(*events, finding))
    if unit.outcome.completed and isinstance(record, Returned) and not has_errors(events):
        case = case_of(unit, CaseStatus.PASSED, None, record.value.value)
        return Tried(case=case, findings=events, value=record.value, again=record.again)
    if has_errors(events) and (unit.outcome.cause in _MAY_HOLD_A_RECORD):
        refused = next(event for event in events if event.is_error)
        return Tried(case=_failed(unit, record, refused.message), findings=events)
    finding = _failure(unit, record, text, function)
    return Tried(case=_failed(unit, record, finding.message), findings=(*events, finding))


def case_of(unit: UnitResult, status: CaseStatus, message: str | None, value: JsonValue = None) -> Case:
    """Return the case of a unit; its duration is measured by the runner, not by the guest."""
    return Case(
        name=unit.name,
        status=status,
        cause=unit.outcome.cause,
        result=value,
        message=message,
        stdout=unit.stdout.text(),
        stderr=unit.stderr.text(),
        duration_s=unit.usage.wall_s,
    )


def _record(unit: UnitResult) -> Record | None:
    """Parse the child's record, if the way in which the child ended allows a record."""
    if unit.outcome.cause not in _MAY_HOLD_A_RECORD or len(unit.results) != 1 or unit.malformed is not None:
        return None
    return read_record(unit.results[0])


def _failure(unit: UnitResult, record: Record | None, text: str, function: str) -> Finding:
    match record:
        case Raised():
            return raised_finding(record, text)
        case NotCompiled():
            return not_compiled_finding(record, text)
        case NoFunction():
            return no_function_finding(function)
        case _ if unit.outcome.completed:
            return cause_finding(Cause.PROTOCOL_VIOLATION, "The code", "not the record of a call")
        case _ if unit.outcome.cause is Cause.TIMEOUT:
            return add_endless_parts(timeout_finding(unit, "The code"), text)
        case _:
            return cause_finding(unit.outcome.cause, "The code", limit_details(unit))


def _failed(unit: UnitResult, record: Record | None, message: str) -> Case:
    at_fault = isinstance(record, Returned | Raised | NotCompiled | NoFunction)
    case = case_of(unit, CaseStatus.FAILED if at_fault else CaseStatus.ERROR, message)
    if not isinstance(record, Raised):
        return case
    return replace(
        case,
        error_type=record.error_type,
        message=record.message,
        traceback=record.traceback,
        line=record.line,
    )
