"""Judges the runs of a code node: their ends, and the presence, types and values of their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assayd.findings import runs as run_findings
from assayd.findings.call_unit import Tried
from assayd.findings.expected import judge_value
from assayd.findings.python_failures import ExceptionContext
from assayd.findings.python_unit import judge_end, never_started, read
from assayd.findings.runs import cause_finding, grouped, unfinished
from assayd.findings.source_text import SplitText
from assayd.guest_results.record import Bound, GuestJsonError, Value
from assayd.kinds.code.annotations import RESULT
from assayd.kinds.code.payload import CodeCase, CodePayload, PreparedCode
from assayd.kinds.code.result import Wanted, check_result
from assayd.kinds.code.worth import compare_second_run
from assayd.model.finding import Finding, has_errors
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Cause, RunResult, UnitResult
from assayd.model.submission import JsonValue

UNIT = "node"


def runs_of(payload: CodePayload) -> Iterator[tuple[str, Mapping[str, object], CodeCase | None]]:
    """Yield the name, the inputs and the case (None for the main run) of each run."""
    if payload.inputs or not payload.cases:
        yield UNIT, payload.inputs, None
    for case in payload.cases:
        yield case.name, case.inputs, case


def judge_runs(payload: PreparedCode, result: RunResult) -> Judgement:
    """Judge the end of every run; if all runs completed, judge their results as well."""
    payload = payload.model_copy(update={"code": SplitText(payload.code)})  # each unit quotes its lines
    cases = [case for _, _, case in runs_of(payload)]
    tries = [
        _judge_unit(name, _find_unit(result, index, name), payload)
        for index, (name, _, _) in enumerate(runs_of(payload))
    ]
    found = _merge_findings(tries)
    if any(one.case.status is not CaseStatus.PASSED for one in tries) or has_errors(found):
        found = found if has_errors(found) else (*found, *unfinished(result, "The code"))
        stage = next((stage for one in tries if (stage := _failed_stage(one)) != "sandbox"), "sandbox")
        return Judgement(stage_findings={stage: found}, cases=tuple(one.case for one in tries))
    judged = [_judge_result(one, case, payload) for one, case in zip(tries, cases, strict=True)]
    last = tries[-1]
    value = last.value.value if last.value else None
    varying = compare_second_run(value, last.again, payload.code, payload.result_line)
    return Judgement(
        stage_findings={"sandbox": found, "result": (*_merge_findings(judged), *varying)},
        cases=tuple(one.case for one in judged),
    )


def _judge_result(tried: Tried, wanted: CodeCase | None, payload: PreparedCode) -> Tried:
    """Compare the type of a run's result with the declaration, and the value with the case."""
    declared = Wanted(
        types=payload.result_types,
        annotation=payload.result_annotation,
        line=payload.result_line,
        text=payload.code,
    )
    found = tuple(check_result(tried.value, declared))
    case = replace(tried.case, result=tried.value.value if tried.value else None)
    if has_errors(found):
        case = replace(case, status=CaseStatus.FAILED, message=found[0].message)
    judged = Tried(case=case, findings=found, value=tried.value)
    if wanted is None:
        return judged
    return judge_value(judged, wanted, wanted.expected)  # type: ignore[arg-type]  # it was read as JSON


def _merge_findings(tries: Sequence[Tried]) -> tuple[Finding, ...]:
    """Return the findings of all runs; merge equal findings of several runs."""
    if len(tries) == 1:
        return tries[0].findings
    alike = [(one.case.name, finding) for one in tries for finding in one.findings if not finding.context]
    return (*grouped(alike), *(finding for one in tries for finding in one.findings if finding.context))


def _find_unit(result: RunResult, index: int, name: str) -> UnitResult | None:
    """Return the unit at a run's position, or None if the unit has a different name."""
    unit = result.units[index] if index < len(result.units) else None
    return unit if unit is not None and unit.name == name else None


def _judge_unit(name: str, unit: UnitResult | None, payload: PreparedCode) -> Tried:
    """Judge the end of a run; a successful run must report `result` or its absence."""
    if unit is None:
        return never_started(name)
    around = ExceptionContext(text=payload.code, required=payload.requires, awaited=payload.awaited)
    tried = judge_end(unit, around, what="The code")
    if tried.case.status is not CaseStatus.PASSED:
        return tried
    try:
        value, again = _read_result_value(unit)
        return replace(tried, value=value, again=again)
    except GuestJsonError as problem:
        finding = cause_finding(Cause.PROTOCOL_VIOLATION, "The code", str(problem))
        case = replace(tried.case, status=CaseStatus.ERROR, message=finding.message)
        return Tried(case=case, findings=(*tried.findings, finding))


def _read_result_value(unit: UnitResult) -> tuple[Value | None, tuple[JsonValue, ...]]:
    """Return the value of `result`, and its values in a second run."""
    record = read(unit)
    if not isinstance(record, Bound):
        raise GuestJsonError("not the record of a node")
    if RESULT not in record.values and record.missing != (RESULT,):
        raise GuestJsonError("the record lacks the result")
    return record.values.get(RESULT), record.again


def _failed_stage(tried: Tried) -> str:
    """Return the stage to report as failed: `syntax` if the container's Python rejected the source."""
    disagrees = any(finding.rule == run_findings.NOT_COMPILED_RULE.id for finding in tried.findings)
    return "syntax" if disagrees else "sandbox"
