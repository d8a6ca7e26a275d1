"""Judges the runs of a program: how each ended, and what cases printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assayd.findings.call_unit import Tried
from assayd.findings.exec_unit import judge_exec
from assayd.findings.expected import judge_output, together
from assayd.findings.runs import unfinished
from assayd.model.finding import has_errors
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Cause, RunResult, UnitResult
from assayd_fifth.language import language
from assayd_fifth.payload import FifthCase, FifthPayload
from assayd_fifth.run import error_finding, notes

GFORTH = "/usr/bin/gforth"
UNIT = "program"


def runs_of(submitted: FifthPayload) -> Iterator[tuple[str, str, FifthCase | None]]:
    """Return what is run: by its name, with what it reads, and the case that it is, if it is one."""
    for case in submitted.cases:
        yield case.name, case.stdin, case
    if submitted.execute and not submitted.cases:
        yield UNIT, "", None


def judge_runs(submitted: FifthPayload, result: RunResult) -> Judgement:
    """Judge each run by how it ended, and what a case printed; what gforth says only words a bad end."""
    tries = []
    for index, (name, _, case) in enumerate(runs_of(submitted)):
        unit = result.units[index] if index < len(result.units) else None
        unit = unit if unit is not None and unit.name == name else None
        tried = _judge_run(name, unit, submitted.code)
        if case is not None and unit is not None:
            before = tried.findings
            tried = judge_output(tried, case, case.expected, unit.stdout)
            if tried.findings is not before:
                tried = replace(tried, findings=(*before, *tried.findings))
        tries.append(tried)
    found = together(tries)
    if not has_errors(found) and any(one.case.status is not CaseStatus.PASSED for one in tries):
        found = (*found, *unfinished(result, "The program"))
    return Judgement(stage_findings={"sandbox": found}, cases=tuple(one.case for one in tries))


def _judge_run(name: str, unit: UnitResult | None, code: str) -> Tried:
    tried = judge_exec(name, unit, program=GFORTH)
    if unit is None:
        return tried
    stderr = unit.stderr.text()
    if tried.case.status is CaseStatus.PASSED:
        return replace(tried, findings=tuple(notes(stderr, language())))
    said = error_finding(stderr, code, language())
    if said is None or unit.outcome.cause is not Cause.EXITED_NONZERO or unit.results:
        return tried
    case = replace(tried.case, error_type=said.rule, message=said.message, line=said.line)
    return Tried(case=case, findings=(said,))
