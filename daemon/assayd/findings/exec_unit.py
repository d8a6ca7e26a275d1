"""Judges one `exec` unit: whether the program started, and whether it succeeded.

The result is the program's wait status; its output is shown, but never trusted. Since the program can't
write a record, an existing record can only report that the program never started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from assayd.findings.call_unit import JudgedUnit, build_case
from assayd.findings.runs import cause_finding, quote_stderr_end, timeout_finding
from assayd.guest_results.record import ExecFailure, GuestJsonError, read_record
from assayd.model.finding import Finding, Layer, Rule
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, UnitResult
from assayd.model.text_limits import shorten_text

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
_AT_FAULT = frozenset({Cause.EXITED_NONZERO, Cause.SIGNALLED})


def judge_exec(name: str, unit: UnitResult | None, *, program: str, offer: str = "") -> JudgedUnit:
    """Judge a unit that should have run `program`; `unit` is None if it never started.

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
    finding = _exec_finding(unit, program)
    if offer and finding.rule == NOT_EXECUTED_RULE.id:
        finding = replace(finding, suggestion=f"{finding.suggestion} {offer}")
    at_fault = unit.outcome.cause in _AT_FAULT
    case = _build_case(unit, CaseStatus.FAILED if at_fault else CaseStatus.ERROR, finding.message)
    return JudgedUnit(case=case, findings=(finding,))


def own_exit_code(unit: UnitResult) -> int | None:
    """Return the exit code of a process that exited by itself; otherwise None."""
    status = unit.wait_status
    return os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None


def _build_case(unit: UnitResult, status: CaseStatus, message: str | None) -> Case:
    return replace(build_case(unit, status, message), exit_code=own_exit_code(unit))


def _exec_finding(unit: UnitResult, program: str) -> Finding:
    cause = unit.outcome.cause
    if cause is Cause.EXITED_NONZERO:
        if unit.results:
            return _not_executed_finding(unit.results[0], program)
        found = cause_finding(cause, "The program", f"exit code {own_exit_code(unit)}")
        return replace(found, context=quote_stderr_end(unit.stderr.text()))
    if cause is Cause.TIMEOUT:
        return timeout_finding(unit, "The program")
    return cause_finding(cause, "The program", str(unit.outcome.evidence.get("signal", "")))


def _not_executed_finding(body: bytes, program: str) -> Finding:
    try:
        record = read_record(body)
    except GuestJsonError as problem:
        return cause_finding(Cause.PROTOCOL_VIOLATION, "The program", str(problem))
    if not isinstance(record, ExecFailure):
        return cause_finding(Cause.PROTOCOL_VIOLATION, "The program", "not a program's record")
    why, remedy = _REASONS.get(record.error, (f"wasn't started ({record.message})", "Start another program."))
    return Finding(
        rule=NOT_EXECUTED_RULE.id,
        category="runtime",
        message=f"{shorten_text(program, 200)!a} {why}.",
        layer=Layer.RUNTIME,
        suggestion=remedy,
    )
