"""Judges the run of a pipeline by one case per step, and determines the reason of the first failure.

The error of a step with a nonzero exit code is classified by its standard error (in `errors`); every other
failure has a specific cause.

    cat: data/x.csv: No such file or directory     step.file_not_found
    no such table: sales                           step.table_missing
    (killed after 10 s)                            sandbox.timeout
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from assayd.findings.runs import (
    COMPUTING,
    cause_finding,
    describe_limit,
    name_loops,
    quote_stderr_end,
    timeout_finding,
)
from assayd.findings.source_text import get_snippet
from assayd.findings.units import build_case, judge_exec, own_exit_code
from assayd.guest_results.record import GuestJsonError
from assayd.model.finding import Finding, Layer, Rule
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, RunResult, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text
from assayd_pipeline.advice import advise_on_exit, advise_on_silence, advise_on_wait, find_loops
from assayd_pipeline.command_line import SCHEMA_FILE
from assayd_pipeline.errors import ADVICE, ErrorClass, ErrorSource, classify_error, find_last_line
from assayd_pipeline.facts import Facts
from assayd_pipeline.messages import explain_message
from assayd_pipeline.payload import Database
from assayd_pipeline.sql.names import advise_on_names
from assayd_pipeline.sql_record import IdleStatement, SqlCounts, SqlFailure, read_sql_record

BASH = "/usr/bin/bash"

_TITLES = {
    ErrorClass.FILE_NOT_FOUND: "File not found",
    ErrorClass.TABLE_MISSING: "Table not found",
    ErrorClass.SYNTAX_ERROR: "Syntax error reported by a program",
    ErrorClass.PERMISSION_DENIED: "Permission denied",
    ErrorClass.TIMEOUT: "Timeout",
    ErrorClass.DATA_VALIDATION: "Data violates a constraint",
    ErrorClass.SCHEMA_MISMATCH: "Statement doesn't match the tables",
    ErrorClass.COMMAND_NOT_FOUND: "Command not found",
    ErrorClass.UNKNOWN: "A step failed",
}
RULES = (
    *(
        Rule(id=f"step.{error_class}", title=title, help=ADVICE[error_class])
        for error_class, title in _TITLES.items()
    ),
    Rule(id="database.schema", title="SQLite rejects the schema", help="Bad: CREATE TABEL t (a)."),
    Rule(id="database.unusable", title="The database is damaged", help="Bad: a file that was cut short."),
    Rule(
        id="outputs.incomplete",
        title="Some changed files weren't kept",
        help="Bad: 200 files under data/. Good: a few; temporary files go to tmp/.",
    ),
)
"""A rule per class of error, and the rules about database and outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepText:
    """The facts for judging a step: its 1-based number, its name, its program and its text."""

    number: int
    name: str
    program: ErrorSource
    content: str

    @property
    def label(self) -> str:
        """Return the step's name for use in a sentence."""
        return format_step_label(self.number, self.name)


def format_step_label(number: int, name: str) -> str:
    """Return a step's name for use in a sentence; messages about the step begin with it."""
    return f"Step {number} ({name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStep:
    """The case of a step, its finding if the step failed, and its statements without effect.

    `tables` contains the database's tables after a SQL step.
    """

    case: Case
    finding: Finding | None = None
    idle: tuple[IdleStatement, ...] = ()
    tables: Mapping[str, Facts] | None = None


def judge_step(step: StepText, unit: UnitResult | None) -> JudgedStep:
    """Judge one step; the step's unit is None if the step never started."""
    if unit is None:
        return JudgedStep(case=Case(name=step.name, status=CaseStatus.SKIPPED, message="never started"))
    judged = _judge_sql(step, unit) if step.program is ErrorSource.SQL else _judge_bash(step, unit)
    if judged.finding is None:
        return judged
    message = f"{step.label}: {shorten_text(judged.finding.message)}"
    text = unit.stderr.text()
    told = text.strip() in judged.finding.message  # the message is the whole text, so don't repeat it
    said = quote_stderr_end(text) if step.program is ErrorSource.BASH and not told else None
    context = step.label if said is None else f"{step.label}; {said}"
    return replace(judged, finding=replace(judged.finding, message=message, file=step.name, context=context))


def _judge_bash(step: StepText, unit: UnitResult) -> JudgedStep:
    tried = judge_exec(step.name, unit, program=BASH)
    if unit.outcome.cause is not Cause.EXITED_NONZERO or unit.results:
        return _judge_abnormal_end(step, unit, tried.case, tried.findings[0] if tried.findings else None)
    stderr = unit.stderr.text()
    seen = classify_error(stderr, program=step.program)
    said = seen.line or find_last_line(stderr)
    words = f"{said or 'it failed'} (exit code {own_exit_code(unit)})"
    told = explain_message(said, step.content)
    advice, at, edit = told.hint, told.line, told.edit
    if not stderr.strip():
        advice, at = advise_on_silence(step.content)
    finding = _step_finding(step, seen.error_class, words, line=at)
    hint = f"{advice or finding.suggestion}{advise_on_exit(step.content, own_exit_code(unit))}"
    finding = replace(finding, suggestion=hint, edit=edit)
    case = replace(tried.case, error_type=seen.error_class, message=finding.message, line=finding.line)
    return JudgedStep(case=case, finding=finding)


def _judge_sql(step: StepText, unit: UnitResult) -> JudgedStep:
    case = replace(build_case(unit, CaseStatus.ERROR, None), exit_code=own_exit_code(unit))
    try:
        record = read_sql_record(unit)
    except GuestJsonError as problem:
        broken = cause_finding(Cause.PROTOCOL_VIOLATION, "It", str(problem))
        return JudgedStep(case=replace(case, message=broken.message), finding=broken)
    if isinstance(record, SqlFailure) and unit.outcome.cause is Cause.EXITED_NONZERO:
        return _judge_sql_failure(step, record, case)
    if unit.outcome.completed and isinstance(record, SqlCounts):
        passed = replace(case, status=CaseStatus.PASSED, result=_count_results(record))
        return JudgedStep(case=passed, idle=record.idle, tables=record.tables)
    cause = Cause.PROTOCOL_VIOLATION if unit.outcome.completed else unit.outcome.cause
    return _judge_abnormal_end(step, unit, case, cause_finding(cause, "It", describe_limit(unit)))


def _judge_sql_failure(step: StepText, record: SqlFailure, case: Case) -> JudgedStep:
    seen = classify_error(record.message, program=step.program)
    place = f"statement {record.statement}: " if record.statement is not None else ""
    finding = _step_finding(step, seen.error_class, place + record.message, line=record.line)
    finding = replace(
        finding,
        column=record.column if finding.line is not None else None,
        suggestion=advise_on_names(record.message, record.names)
        or explain_message(record.message, step.content).hint
        or finding.suggestion,
    )
    failed = replace(
        case,
        status=CaseStatus.FAILED,
        result=_count_results(record.ran),
        error_type=seen.error_class,
        message=record.message,
        line=finding.line,
        traceback=record.text,
    )
    return JudgedStep(case=failed, finding=finding)


def _judge_abnormal_end(step: StepText, unit: UnitResult, case: Case, finding: Finding | None) -> JudgedStep:
    """Return the case for a failure with a specific cause; for timeouts, the advice is about the step."""
    if finding is None:
        return JudgedStep(case=case)
    if unit.outcome.cause is Cause.TIMEOUT:
        finding = _timeout_finding(step, unit)
        case = replace(case, error_type=ErrorClass.TIMEOUT)
    return JudgedStep(case=replace(case, message=finding.message), finding=finding)


def _timeout_finding(step: StepText, unit: UnitResult) -> Finding:
    """Return the finding for a step that reached its time limit, located at the step's loop if any."""
    finding, text = timeout_finding(unit, "It"), step.content
    if step.program is not ErrorSource.BASH:
        lines = [number for number, line in enumerate(text.split("\n"), 1) if _RECURSIVE.search(line)]
    elif (waits := advise_on_wait(text)) is not None:
        return replace(finding, suggestion=waits[0], line=waits[1], snippet=get_snippet(text, waits[1]))
    else:
        lines = find_loops(text)
    if finding.suggestion == COMPUTING and not lines:
        return replace(finding, suggestion=ADVICE[ErrorClass.TIMEOUT])
    return name_loops(finding, text, lines)


_RECURSIVE = re.compile(r"\bWITH\s+RECURSIVE\b", re.IGNORECASE)


def _step_finding(step: StepText, error_class: ErrorClass, words: str, *, line: int | None) -> Finding:
    shown = get_snippet(step.content, line)
    return Finding(
        rule=f"step.{error_class}",
        category=error_class,
        message=shorten_text(f"{words}."),
        layer=Layer.RUNTIME,
        line=line if shown is not None else None,
        snippet=shown,
        suggestion=ADVICE[error_class],
    )


def _count_results(ran: SqlCounts) -> JsonValue:
    return {"statements": ran.statements, "rows": ran.rows, "changes": ran.changes}


def judge_database(database: Database, unit: UnitResult | None) -> Iterator[Finding]:
    """Yield findings about the unit that creates or checks the database."""
    if unit is None or unit.outcome.completed:
        return
    try:
        record = read_sql_record(unit)
    except GuestJsonError as problem:
        yield cause_finding(Cause.PROTOCOL_VIOLATION, "Preparing the database", str(problem))
        return
    if not isinstance(record, SqlFailure) or unit.outcome.cause is not Cause.EXITED_NONZERO:
        what, cause = "Preparing the database", unit.outcome.cause
        yield (
            timeout_finding(unit, what)
            if cause is Cause.TIMEOUT
            else cause_finding(cause, what, describe_limit(unit))
        )
        return
    made = database.schema_sql is not None
    shown = get_snippet(database.schema_sql or "", record.line) if made else None
    field = "payload.database.schema_sql" if made else "payload.database.base64"
    yield Finding(
        rule="database.schema" if made else "database.unusable",
        category="database",
        message=f"{field}: {record.message}.",
        layer=Layer.RUNTIME,
        file=SCHEMA_FILE if made else None,
        line=record.line if shown is not None else None,
        column=record.column if shown is not None else None,
        snippet=shown,
        suggestion="Correct the schema."
        if made
        else "Submit an intact copy, made with SQLite's backup command.",
    )


def judge_outputs(result: RunResult) -> Iterator[Finding]:
    """Yield findings about changed files that are incomplete, because partial results are rejected."""
    cut = [f"{output.name!a} is too large" for output in result.outputs if output.truncated]
    for reason in (*result.outputs_dropped, *cut)[:10]:
        yield Finding(
            rule="outputs.incomplete",
            category="outputs",
            message=shorten_text(f"A changed file wasn't kept: {reason}."),
            layer=Layer.RUNTIME,
            suggestion="Write fewer and smaller files under data/; put temporary ones under tmp/.",
        )
