"""Judges a `python` unit that didn't succeed: reads its record, and describes the failure.

The record affects only the wording. Other code decides whether the unit succeeded, based on its status, its
limits and the form of its record.
"""

from __future__ import annotations

import re
from dataclasses import replace

from assayd.findings.call_unit import JudgedUnit, build_case
from assayd.findings.exec_unit import own_exit_code
from assayd.findings.python_failures import ExceptionContext, build_failure_finding, is_harness_error
from assayd.findings.runs import (
    cause_finding,
    compile_error_finding,
    describe_limit,
    iter_event_findings,
    name_endless_parts,
    quote_stderr_end,
    timeout_finding,
)
from assayd.guest_results.record import CompileFailure, GuestJsonError, RaisedException, Record, read_record
from assayd.model.finding import Finding, has_errors
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, UnitResult

_TELLING = frozenset({Cause.COMPLETED, Cause.EXITED_NONZERO, Cause.POLICY_VIOLATION})
_CODE_AT_FAULT = frozenset({Cause.EXITED_NONZERO, Cause.SIGNALLED, Cause.POLICY_VIOLATION})


def build_not_started_result(name: str) -> JudgedUnit:
    """Return the result for a unit that never started."""
    return JudgedUnit(case=Case(name=name, status=CaseStatus.SKIPPED, message="never started"))


def read(unit: UnitResult) -> Record | None:
    """Return a unit's only record; None if the way in which the unit ended doesn't allow a record.

    Raises: GuestJsonError, if it doesn't conform to the protocol.
    """
    if unit.outcome.cause not in _TELLING or len(unit.results) != 1 or unit.malformed is not None:
        return None
    return read_record(unit.results[0])


def judge_python_unit(unit: UnitResult, around: ExceptionContext, *, what: str) -> JudgedUnit:
    """Return the result of a unit; it passes if it succeeded and the policy refused nothing.

    Args:
        unit: the result of the unit.
        around: the context for explaining an exception.
        what: the subject of the sentences, e.g. ``The script``.
    """
    events = tuple(iter_event_findings(unit.events, around.files or around.text))
    if unit.outcome.completed and not has_errors(events):
        return JudgedUnit(case=_build_case(unit, CaseStatus.PASSED, None), findings=events)
    if has_errors(events) and unit.outcome.cause in _TELLING:
        refused = next(event for event in events if event.is_error)
        return JudgedUnit(case=_build_case(unit, CaseStatus.FAILED, refused.message), findings=events)
    try:
        record = read(unit)
    except GuestJsonError:
        record = None
    finding = _failure_finding(unit, record, around, what)
    finding = replace(finding, context=finding.context or quote_stderr_end(unit.stderr.text()))
    status = CaseStatus.FAILED if unit.outcome.cause in _CODE_AT_FAULT else CaseStatus.ERROR
    return JudgedUnit(
        case=_explain_case(_build_case(unit, status, finding.message), record, around),
        findings=(*events, finding),
    )


def _build_case(unit: UnitResult, status: CaseStatus, message: str | None) -> Case:
    return replace(build_case(unit, status, message), exit_code=own_exit_code(unit))


def _failure_finding(unit: UnitResult, record: Record | None, around: ExceptionContext, what: str) -> Finding:
    cause = unit.outcome.cause
    match record:
        case RaisedException():
            return build_failure_finding(record, around)
        case CompileFailure():
            return compile_error_finding(record, around.text)
        case _ if cause is Cause.EXITED_NONZERO:
            found = cause_finding(cause, what, f"exit code {own_exit_code(unit)}")
            return replace(found, suggestion=_exit_status_hint(unit, around.text))
        case _ if cause is Cause.TIMEOUT:
            return name_endless_parts(timeout_finding(unit, what), around.text)
        case _:
            return cause_finding(cause, what, describe_limit(unit))


def _exit_status_hint(unit: UnitResult, text: str) -> str:
    """Return the fix for a program with an exit status other than 0."""
    said = unit.stderr.text()
    if _ARGUMENTS.search(said):
        lines = [n for n, line in enumerate(text.split("\n"), 1) if "required=True" in line]
        where = f" (line {lines[0]})" if lines else ""
        return (
            f"The script gets no arguments: write default=… for required=True{where}, or submit "
            "files with argv."
        )
    if said.strip():
        return "The script ended itself: read the end of its standard error, and exit with 0 on success."
    return "The script ended itself (e.g. by sys.exit): exit with 0 on success."


_ARGUMENTS = re.compile(r"error: the following arguments are required|error: unrecognized arguments")


def _explain_case(case: Case, record: Record | None, around: ExceptionContext) -> Case:
    if not isinstance(record, RaisedException):
        return case
    of_harness = is_harness_error(record, around)
    return replace(
        case,
        error_type=record.error_type,
        message=record.message,
        traceback=record.traceback,
        line=None if of_harness else record.line,
        file=record.file if record.file in around.files else None,
    )
