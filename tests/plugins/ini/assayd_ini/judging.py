"""Judges a run: one case for each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assayd.findings.python_failures import ExceptionContext
from assayd.findings.runs import build_cause_finding
from assayd.findings.units import build_not_started_result, judge_python_unit, read
from assayd.guest_results import BoundNames, GuestJsonError
from assayd.model.finding import Finding, Layer, Rule
from assayd.model.report import Case, CaseStatus, Judgement
from assayd.model.run import Cause, RunResult, UnitResult
from assayd_ini.payload import IniPayload

UNIT = "file"
RULES = (
    Rule(id="ini.missing", title="A declared field that is not there", help="Add it to its section."),
    Rule(id="ini.type", title="A value of another type", help="Bad: port = many. Good: port = 8080."),
    Rule(id="ini.undeclared", title="A field that is not declared", help="Declare it, or take it out."),
)
_SAYS = {
    "missing": ("ini.missing", "is not there", "Add it to its section."),
    "wrong": ("ini.type", "is not of its type", "Write a value of the declared type."),
    "undeclared": ("ini.undeclared", "is not declared", "Take it out, or declare it."),
}


def judge_file(payload: IniPayload, result: RunResult) -> Judgement:
    """Return a case and the findings for every field."""
    unit = result.units[0] if result.units and result.units[0].name == UNIT else None
    if unit is None:
        return Judgement(stage_findings={"fields": ()}, cases=(build_not_started_result(UNIT).case,))
    tried = judge_python_unit(unit, ExceptionContext(text=payload.text), what="The file")
    if tried.case.status is not CaseStatus.PASSED:
        return Judgement(stage_findings={"fields": tried.findings}, cases=(tried.case,))
    try:
        judged = list(_judge_fields(_told(unit), payload))
    except GuestJsonError as problem:
        finding = build_cause_finding(Cause.PROTOCOL_VIOLATION, "The file", str(problem))
        return Judgement(stage_findings={"fields": (finding,)}, cases=(tried.case,))
    findings = tuple(finding for _, finding in judged if finding is not None)
    return Judgement(stage_findings={"fields": findings}, cases=tuple(case for case, _ in judged))


def _told(unit: UnitResult) -> Mapping[str, object]:
    """Return the run's record of each field. Raises: GuestJsonError."""
    record = read(unit)
    value = record.values.get("result") if isinstance(record, BoundNames) else None
    if value is None or not isinstance(value.value, dict):
        raise GuestJsonError("not the record of an INI file")
    return value.value


def _judge_fields(told: Mapping[str, object], payload: IniPayload) -> Iterator[tuple[Case, Finding | None]]:
    for field in sorted({*payload.fields, *told}):
        said = told.get(field)
        if not isinstance(said, list) or len(said) != 2 or not all(isinstance(part, str) for part in said):
            raise GuestJsonError("the record tells nothing of a field")
        state, value = said
        if state == "read":
            yield Case(name=field, status=CaseStatus.PASSED, result=value), None
            continue
        if state not in _SAYS:
            raise GuestJsonError("the record has a state that there is not")
        rule, words, remedy = _SAYS[state]
        message = f"{field[:140]!a} {words}."
        finding = Finding(
            rule=rule, category="fields", message=message, layer=Layer.RUNTIME, suggestion=remedy
        )
        yield Case(name=field, status=CaseStatus.FAILED, message=message), finding
