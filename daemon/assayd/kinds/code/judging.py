"""Judges the run of a code node: how it ended, and whether it told its result."""

from __future__ import annotations

from dataclasses import replace

from assayd.findings import runs as run_findings
from assayd.findings.call_unit import Tried
from assayd.findings.python_failures import ExceptionContext
from assayd.findings.python_unit import judge_end, never_started, read
from assayd.findings.runs import cause_finding
from assayd.guest_results.json_reader import GuestJsonError
from assayd.guest_results.record import Bound, Value
from assayd.kinds.code.annotations import RESULT
from assayd.kinds.code.payload import PreparedCode
from assayd.model.report import CaseStatus
from assayd.model.run import Cause, UnitResult

UNIT = "node"


def judge_unit(unit: UnitResult | None, payload: PreparedCode) -> Tried:
    """Judge the end of the run; a good one must have told the value of `result`, or that there is none."""
    if unit is None:
        return never_started(UNIT)
    around = ExceptionContext(text=payload.code, required=payload.requires, awaited=payload.awaited)
    tried = judge_end(unit, around, what="The code")
    if tried.case.status is not CaseStatus.PASSED:
        return tried
    try:
        return replace(tried, value=_value(unit))
    except GuestJsonError as problem:
        finding = cause_finding(Cause.PROTOCOL_VIOLATION, "The code", str(problem))
        case = replace(tried.case, status=CaseStatus.ERROR, message=finding.message)
        return Tried(case=case, findings=(*tried.findings, finding))


def _value(unit: UnitResult) -> Value | None:
    record = read(unit)
    if not isinstance(record, Bound):
        raise GuestJsonError("not the record of a node")
    if RESULT not in record.values and record.missing != (RESULT,):
        raise GuestJsonError("the record tells nothing of the result")
    return record.values.get(RESULT)


def stage_of(tried: Tried) -> str:
    """Put a text that only the container's Python refuses where syntax belongs."""
    disagrees = any(finding.rule == run_findings.NOT_COMPILED_RULE.id for finding in tried.findings)
    return "syntax" if disagrees else "sandbox"
