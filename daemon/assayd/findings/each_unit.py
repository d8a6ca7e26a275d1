"""Judges one `call` unit that called a function with many arguments in one process.

The unit is judged as a whole: unless it completed with exactly one result per call, all of its calls are
treated as having no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd.findings.call_unit import Tried, judge_call
from assayd.findings.runs import RAISED_RULE, cause_finding, event_findings, raised_finding
from assayd.findings.source_text import SplitText
from assayd.guest_results.json_reader import GuestJsonError
from assayd.guest_results.record import CallResults, Raised, Value, read_record
from assayd.model.finding import Finding, Layer, has_errors
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, UnitResult

_MOST_RAISED = 100
"""Maximum distinct exceptions of an attempt with their own finding; the others share one."""
_MORE_RAISED = Finding(
    rule=RAISED_RULE.id,
    category="runtime",
    message=f"The code raised more than {_MOST_RAISED} different exceptions.",
    layer=Layer.RUNTIME,
    suggestion="The cases have the other exceptions. Fix the ones above first.",
)


class EachJudge:
    """A judge of the units of one attempt, which reports a failure of many calls only once."""

    def __init__(self, *, text: str, function: str) -> None:
        self._text = SplitText(text)
        self._function = function
        self._raised: dict[tuple[str, int | None], Finding] = {}

    def judge(self, names: Sequence[str], unit: UnitResult | None) -> list[Tried]:
        """Return the result of each call, with its name; `unit` is None if the unit never started."""
        events = () if unit is None else tuple(event_findings(unit.events, self._text))
        found = None if unit is None or has_errors(events) else _parse_results(unit)
        if unit is not None and found is not None and len(found) == len(names):
            return [
                self._judge_result(name, unit.outcome.cause, one)
                for name, one in zip(names, found, strict=True)
            ]
        return list(self._expand_failure(names, unit))

    def _expand_failure(self, names: Sequence[str], unit: UnitResult | None) -> Iterator[Tried]:
        whole = judge_call("", unit, text=self._text, function=self._function)
        message, status, findings = whole.case.message, whole.case.status, whole.findings
        if status is CaseStatus.PASSED:  # the record of a single call
            finding = cause_finding(Cause.PROTOCOL_VIOLATION, "The code", "not one result per path")
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
            yield Tried(case=case, findings=findings)

    def _judge_result(self, name: str, cause: Cause, result: Value | Raised) -> Tried:
        if isinstance(result, Value):
            case = Case(name=name, status=CaseStatus.PASSED, cause=cause, result=result.value)
            return Tried(case=case, value=result)
        case = Case(
            name=name,
            status=CaseStatus.FAILED,
            cause=cause,
            error_type=result.error_type,
            message=result.message,
            line=result.line,
        )
        key = (result.error_type, result.line)
        if key not in self._raised and len(self._raised) < _MOST_RAISED:
            self._raised[key] = raised_finding(result, self._text)
        return Tried(case=case, findings=(self._raised.get(key, _MORE_RAISED),))


def _parse_results(unit: UnitResult) -> tuple[Value | Raised, ...] | None:
    """Return the results of a unit; None if it didn't complete or has no valid record of call results."""
    if not unit.outcome.completed or len(unit.results) != 1 or unit.malformed is not None:
        return None
    try:
        record = read_record(unit.results[0])
    except GuestJsonError:
        return None
    return record.results if isinstance(record, CallResults) else None
