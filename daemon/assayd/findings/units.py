"""Judges one unit by its program: `call`, `exec` and `python`.

Judges one `call` unit: whether it returned a value and, if not, with which findings.

The input of this module is controlled by the guest. A value is accepted only if the cause, which the
sandbox determines, is `completed`. The validator compares the value with the expected value.

Judges one `call` unit that called a function with many arguments in one process.

The unit is judged as a whole: unless it completed with exactly one result per call, all of its calls are
treated as having no result.

Judges one `exec` unit: whether the program started, and whether it succeeded.

The result is the program's wait status; its output is shown, but never trusted. Since the program can't
write a record, an existing record can only report that the program never started.

Judges a `python` unit that didn't succeed: reads its record, and describes the failure.

The record affects only the wording. Other code decides whether the unit succeeded, based on its status, its
limits and the form of its record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assayd.findings.python_failures import ExceptionContext, build_failure_finding, is_harness_error
from assayd.findings.runs import (
    RAISED_RULE,
    build_cause_finding,
    build_compile_error_finding,
    build_exception_finding,
    build_missing_function_finding,
    build_timeout_finding,
    describe_limit,
    iter_event_findings,
    point_to_endless_loops,
    quote_stderr_end,
)
from assayd.findings.source_text import SplitText
from assayd.guest_results import (
    CallResults,
    CompileFailure,
    ExecFailure,
    GuestJsonError,
    MissingFunction,
    RaisedException,
    Record,
    ReturnedValue,
    TypedValue,
    parse_guest_record,
)
from assayd.model.finding import Finding, Layer, Rule, has_errors
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text

_CAUSES_WITH_RECORD = frozenset({Cause.COMPLETED, Cause.EXITED_NONZERO, Cause.POLICY_VIOLATION})


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedUnit:
    """The result of one call or unit. `value` is set only if the call returned without a violation.

    `again` contains the results of repeated calls, which affect only warnings.
    """

    case: Case
    findings: tuple[Finding, ...] = ()
    value: TypedValue | None = None
    again: tuple[JsonValue, ...] = ()


def judge_call(name: str, unit: UnitResult | None, *, text: str, function: str) -> JudgedUnit:
    """Return the result of a unit that called `function` of `text`. `unit` is None if it never started."""
    if unit is None:
        return JudgedUnit(case=Case(name=name, status=CaseStatus.SKIPPED, message="never started"))
    events = tuple(iter_event_findings(unit.events, text))
    try:
        record = _parse_record(unit)
    except GuestJsonError as problem:
        finding = build_cause_finding(Cause.PROTOCOL_VIOLATION, "The code", str(problem))
        return JudgedUnit(
            case=build_case(unit, CaseStatus.ERROR, finding.message), findings=(*events, finding)
        )
    if unit.outcome.completed and isinstance(record, ReturnedValue) and not has_errors(events):
        case = build_case(unit, CaseStatus.PASSED, None, record.value.value)
        return JudgedUnit(case=case, findings=events, value=record.value, again=record.again)
    if has_errors(events) and (unit.outcome.cause in _CAUSES_WITH_RECORD):
        refused = next(event for event in events if event.is_error)
        return JudgedUnit(case=_build_failed_case(unit, record, refused.message), findings=events)
    finding = _build_failure_finding(unit, record, text, function)
    return JudgedUnit(case=_build_failed_case(unit, record, finding.message), findings=(*events, finding))


def build_case(unit: UnitResult, status: CaseStatus, message: str | None, value: JsonValue = None) -> Case:
    """Return the case of a unit. Its duration is measured by the runner, not by the guest."""
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


def _parse_record(unit: UnitResult) -> Record | None:
    """Return the child's record, or None if the way in which the child ended allows no record.

    Raises: GuestJsonError, if the record doesn't conform to the protocol.
    """
    if unit.outcome.cause not in _CAUSES_WITH_RECORD or len(unit.results) != 1 or unit.malformed is not None:
        return None
    return parse_guest_record(unit.results[0])


def _build_failure_finding(unit: UnitResult, record: Record | None, text: str, function: str) -> Finding:
    match record:
        case RaisedException():
            return build_exception_finding(record, text)
        case CompileFailure():
            return build_compile_error_finding(record, text)
        case MissingFunction():
            return build_missing_function_finding(function)
        case _ if unit.outcome.completed:
            return build_cause_finding(Cause.PROTOCOL_VIOLATION, "The code", "not the record of a call")
        case _ if unit.outcome.cause is Cause.TIMEOUT:
            return point_to_endless_loops(build_timeout_finding(unit, "The code"), text)
        case _:
            return build_cause_finding(unit.outcome.cause, "The code", describe_limit(unit))


def _build_failed_case(unit: UnitResult, record: Record | None, message: str) -> Case:
    at_fault = isinstance(record, ReturnedValue | RaisedException | CompileFailure | MissingFunction)
    case = build_case(unit, CaseStatus.FAILED if at_fault else CaseStatus.ERROR, message)
    if not isinstance(record, RaisedException):
        return case
    return replace(
        case,
        error_type=record.error_type,
        message=record.message,
        traceback=record.traceback,
        line=record.line,
    )


_MAX_EXCEPTION_FINDINGS = 100
"""Maximum distinct exceptions of an attempt with their own finding; the others share one."""
_MORE_RAISED_FINDING = Finding(
    rule=RAISED_RULE.id,
    category="runtime",
    message=f"The code raised more than {_MAX_EXCEPTION_FINDINGS} different exceptions.",
    layer=Layer.RUNTIME,
    suggestion="The cases have the other exceptions. Fix the ones above first.",
)


class RepeatedCallJudge:
    """A judge of the units of one attempt, which reports a failure of many calls only once."""

    def __init__(self, *, text: str, function: str) -> None:
        self._text = SplitText(text)
        self._function = function
        self._raised: dict[tuple[str, int | None], Finding] = {}

    def judge_unit(self, names: Sequence[str], unit: UnitResult | None) -> list[JudgedUnit]:
        """Return the result of each call, with its name. `unit` is None if the unit never started."""
        events = () if unit is None else tuple(iter_event_findings(unit.events, self._text))
        found = None if unit is None or has_errors(events) else _parse_results(unit)
        if unit is not None and found is not None and len(found) == len(names):
            return [
                self._judge_result(name, unit.outcome.cause, one)
                for name, one in zip(names, found, strict=True)
            ]
        return list(self._expand_failure(names, unit))

    def _expand_failure(self, names: Sequence[str], unit: UnitResult | None) -> Iterator[JudgedUnit]:
        whole = judge_call("", unit, text=self._text, function=self._function)
        message, status, findings = whole.case.message, whole.case.status, whole.findings
        if status is CaseStatus.PASSED:  # the record of a single call
            finding = build_cause_finding(Cause.PROTOCOL_VIOLATION, "The code", "not one result per path")
            message, status, findings = finding.message, CaseStatus.ERROR, (finding,)
        for name in names:
            case = Case(
                name=name,
                status=status,
                cause=whole.case.cause,
                message=message,
                error_type=whole.case.error_type,
                line=whole.case.line,
            )
            yield JudgedUnit(case=case, findings=findings)

    def _judge_result(self, name: str, cause: Cause, result: TypedValue | RaisedException) -> JudgedUnit:
        if isinstance(result, TypedValue):
            case = Case(name=name, status=CaseStatus.PASSED, cause=cause, result=result.value)
            return JudgedUnit(case=case, value=result)
        case = Case(
            name=name,
            status=CaseStatus.FAILED,
            cause=cause,
            error_type=result.error_type,
            message=result.message,
            line=result.line,
        )
        key = (result.error_type, result.line)
        if key not in self._raised and len(self._raised) < _MAX_EXCEPTION_FINDINGS:
            self._raised[key] = build_exception_finding(result, self._text)
        return JudgedUnit(case=case, findings=(self._raised.get(key, _MORE_RAISED_FINDING),))


def _parse_results(unit: UnitResult) -> tuple[TypedValue | RaisedException, ...] | None:
    """Return the results of a unit, or None if it didn't complete or has no valid record of call results."""
    if not unit.outcome.completed or len(unit.results) != 1 or unit.malformed is not None:
        return None
    try:
        record = parse_guest_record(unit.results[0])
    except GuestJsonError:
        return None
    return record.results if isinstance(record, CallResults) else None


NOT_EXECUTED_RULE = Rule(
    id="sandbox.not_executed",
    title="The program didn't start",
    help="Bad: argv ['no-such-program']. Good: a program of the image, by its name or its absolute path.",
)

_REASONS: Mapping[str, tuple[str, str]] = {
    "ENOENT": ("isn't in the image", "Use a program that the image has."),
    "EACCES": (
        "can't be executed",
        "Files in the work directory can't be executed. Start an interpreter of the image with the file.",
    ),
    "EPERM": ("isn't allowed to be executed", "Remove it: this kind can't start programs."),
    "ENOEXEC": (
        "has a format that the kernel can't start",
        "Start an interpreter of the image with the file.",
    ),
    "E2BIG": ("has more arguments than the kernel accepts", "Pass long content as a file or on stdin."),
}
_FAULT_CAUSES = frozenset({Cause.EXITED_NONZERO, Cause.SIGNALLED})


def judge_exec(name: str, unit: UnitResult | None, *, program: str, offer: str = "") -> JudgedUnit:
    """Return the result of a unit that should have run `program`; `unit` is None if it never started.

    Args:
        name: the name of the case.
        unit: the result of the unit.
        program: the program that the unit should run.
        offer: a sentence that lists the programs in the image.
    """
    if unit is None:
        return JudgedUnit(case=Case(name=name, status=CaseStatus.SKIPPED, message="never started"))
    if unit.outcome.completed:
        return JudgedUnit(case=_build_case(unit, CaseStatus.PASSED, None))
    finding = _build_exec_finding(unit, program)
    if offer and finding.rule == NOT_EXECUTED_RULE.id:
        finding = replace(finding, suggestion=f"{finding.suggestion} {offer}")
    at_fault = unit.outcome.cause in _FAULT_CAUSES
    case = _build_case(unit, CaseStatus.FAILED if at_fault else CaseStatus.ERROR, finding.message)
    return JudgedUnit(case=case, findings=(finding,))


def get_own_exit_code(unit: UnitResult) -> int | None:
    """Return the exit code of a process that exited by itself, otherwise None."""
    status = unit.wait_status
    return os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None


def _build_case(unit: UnitResult, status: CaseStatus, message: str | None) -> Case:
    return replace(build_case(unit, status, message), exit_code=get_own_exit_code(unit))


def _build_exec_finding(unit: UnitResult, program: str) -> Finding:
    cause = unit.outcome.cause
    if cause is Cause.EXITED_NONZERO:
        if unit.results:
            return _build_not_executed_finding(unit.results[0], program)
        found = build_cause_finding(cause, "The program", f"exit code {get_own_exit_code(unit)}")
        return replace(found, context=quote_stderr_end(unit.stderr.text()))
    if cause is Cause.TIMEOUT:
        return build_timeout_finding(unit, "The program")
    return build_cause_finding(cause, "The program", str(unit.outcome.evidence.get("signal", "")))


def _build_not_executed_finding(body: bytes, program: str) -> Finding:
    try:
        record = parse_guest_record(body)
    except GuestJsonError as problem:
        return build_cause_finding(Cause.PROTOCOL_VIOLATION, "The program", str(problem))
    if not isinstance(record, ExecFailure):
        return build_cause_finding(Cause.PROTOCOL_VIOLATION, "The program", "not a program's record")
    why, remedy = _REASONS.get(record.error, (f"wasn't started ({record.message})", "Start another program."))
    return Finding(
        rule=NOT_EXECUTED_RULE.id,
        category="runtime",
        message=f"{shorten_text(program, 200)!a} {why}.",
        layer=Layer.RUNTIME,
        suggestion=remedy,
    )


_RECORDED_CAUSES = frozenset({Cause.COMPLETED, Cause.EXITED_NONZERO, Cause.POLICY_VIOLATION})
_CODE_FAULT_CAUSES = frozenset({Cause.EXITED_NONZERO, Cause.SIGNALLED, Cause.POLICY_VIOLATION})


def build_not_started_result(name: str) -> JudgedUnit:
    """Return the result for a unit that never started."""
    return JudgedUnit(case=Case(name=name, status=CaseStatus.SKIPPED, message="never started"))


def read(unit: UnitResult) -> Record | None:
    """Return a unit's only record, or None if the unit ended in a way that allows no record.

    Raises: GuestJsonError, if the record doesn't conform to the protocol.
    """
    if unit.outcome.cause not in _RECORDED_CAUSES or len(unit.results) != 1 or unit.malformed is not None:
        return None
    return parse_guest_record(unit.results[0])


def judge_python_unit(unit: UnitResult, around: ExceptionContext, *, what: str) -> JudgedUnit:
    """Return the result of a unit. It passes if it succeeded and the policy refused nothing.

    Args:
        unit: the result of the unit.
        around: the context for explaining an exception.
        what: the subject of the sentences, e.g. ``The script``.
    """
    events = tuple(iter_event_findings(unit.events, around.files or around.text))
    if unit.outcome.completed and not has_errors(events):
        return JudgedUnit(case=_build_case(unit, CaseStatus.PASSED, None), findings=events)
    if has_errors(events) and unit.outcome.cause in _RECORDED_CAUSES:
        refused = next(event for event in events if event.is_error)
        return JudgedUnit(case=_build_case(unit, CaseStatus.FAILED, refused.message), findings=events)
    try:
        record = read(unit)
    except GuestJsonError:
        record = None
    finding = _build_python_finding(unit, record, around, what)
    finding = replace(finding, context=finding.context or quote_stderr_end(unit.stderr.text()))
    status = CaseStatus.FAILED if unit.outcome.cause in _CODE_FAULT_CAUSES else CaseStatus.ERROR
    return JudgedUnit(
        case=_explain_case(_build_case(unit, status, finding.message), record, around),
        findings=(*events, finding),
    )


def _build_python_finding(
    unit: UnitResult, record: Record | None, around: ExceptionContext, what: str
) -> Finding:
    cause = unit.outcome.cause
    match record:
        case RaisedException():
            return build_failure_finding(record, around)
        case CompileFailure():
            return build_compile_error_finding(record, around.text)
        case _ if cause is Cause.EXITED_NONZERO:
            found = build_cause_finding(cause, what, f"exit code {get_own_exit_code(unit)}")
            return replace(found, suggestion=_suggest_exit_status_fix(unit, around.text))
        case _ if cause is Cause.TIMEOUT:
            return point_to_endless_loops(build_timeout_finding(unit, what), around.text)
        case _:
            return build_cause_finding(cause, what, describe_limit(unit))


def _suggest_exit_status_fix(unit: UnitResult, text: str) -> str:
    """Return the fix for a program with an exit status other than 0, based on its standard error."""
    said = unit.stderr.text()
    if _ARGUMENTS_PATTERN.search(said):
        lines = [n for n, line in enumerate(text.split("\n"), 1) if "required=True" in line]
        where = f" (line {lines[0]})" if lines else ""
        return (
            f"The script gets no arguments: write default=… for required=True{where}, or submit "
            "files with argv."
        )
    if said.strip():
        return "The script ended itself: read the end of its standard error, and exit with 0 on success."
    return "The script ended itself (e.g. by sys.exit): exit with 0 on success."


_ARGUMENTS_PATTERN = re.compile(r"error: the following arguments are required|error: unrecognized arguments")


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
