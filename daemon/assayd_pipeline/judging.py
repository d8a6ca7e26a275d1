"""Judges the run of a pipeline, one case per step, and explains the first failure and its error messages.

The error of a step with a nonzero exit code is classified by its standard error (in `errors`); every other
failure has a specific cause.

    cat: data/x.csv: No such file or directory     step.file_not_found
    no such table: sales                           step.table_missing
    (killed after 10 s)                            sandbox.timeout

Explains error messages of bash, its tools and SQLite with a remedy, a location and a correction.

    head: invalid number of lines: 'data/a'     line 3, `-n` takes a number: `head -n 10 data/a`
    scripts/01_a.sh: line 2: [: amount: integer expression expected

The patterns and texts are in `data/messages.toml`. A step controls its own standard error, which can affect
a hint but never the result. Messages and lines are truncated before they are searched.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath

from assayd.did_you_mean import find_close_names
from assayd.findings.runs import (
    COMPUTING_HINT,
    build_cause_finding,
    build_timeout_finding,
    describe_limit,
    point_to_loops,
    quote_stderr_end,
)
from assayd.findings.source_text import get_snippet
from assayd.findings.units import build_case, get_own_exit_code, judge_exec
from assayd.guest_results import GuestJsonError
from assayd.model.finding import Edit, Finding, Layer, Rule
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, RunResult, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text
from assayd_pipeline.command_line import SCHEMA_FILE
from assayd_pipeline.errors import (
    ADVICE,
    ErrorClass,
    ErrorSource,
    classify_error,
    explain_exit_status,
    find_endless_loops,
    find_last_error_line,
    suggest_for_silent_failure,
    suggest_for_waiting_loop,
)
from assayd_pipeline.facts import Facts
from assayd_pipeline.payload import Database
from assayd_pipeline.sql.rules import suggest_similar_names
from assayd_pipeline.sql_record import IdleStatement, SqlCounts, SqlFailure, read_sql_record

_MESSAGES_FILE = Path(__file__).parent / "data" / "messages.toml"
_AT_LINE = re.compile(r"scripts/[^:]*: line (\d{1,6}): ")
_PROGRAM_PATTERN = re.compile(r"([a-z][\w.-]{0,30}): ")
_LAST_FORM_PATTERN = re.compile(r"(?:^| )(?:Write|Assign)\b[^`]*`[^`]*`\.$")
"""The example at the end of a hint, which the corrected line replaces."""
_PROGRAM_BY_PREFIX = {"parse error:": "jq", "(standard_in) ": "bc", "Runtime error (func=": "bc"}
"""The beginnings of messages that don't name their program."""
_MAX_LINES = 2000
_MAX_CHARS = 10_000
"""Characters above which a step isn't searched for the line of a message."""
_LINE_CHARS = 300
"""Maximum characters of a message to read and of a line to correct."""
_SHOWN_CHARS = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEntry:
    """One entry of the table. The header of the table describes the fields."""

    find: re.Pattern[str]
    hint: str
    at: str = ""
    put: str = ""
    only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMessage:
    """The remedy for a message, and its location, which is the 1-based line of the step if known."""

    hint: str | None
    line: int | None = None
    edit: Edit | None = None


@cache
def _load_messages() -> tuple[MessageEntry, ...]:
    told = tomllib.loads(_MESSAGES_FILE.read_text(encoding="utf-8"))["message"]
    return tuple(MessageEntry(**{**each, "find": re.compile(each["find"])}) for each in told)


def is_known(said: str) -> bool:
    """Return whether the table contains a remedy for a line of standard error."""
    return any(message.find.search(said[:_LINE_CHARS]) for message in _load_messages())


def explain_message(said: str, content: str) -> ExplainedMessage:
    """Explain a line of a step's standard error. Without a remedy, return only the line's location."""
    said = said[:_LINE_CHARS]
    lines = content.split("\n")[:_MAX_LINES]
    at = _find_line(said, lines)
    if (
        misspelt := _explain_misspelt_file(said, lines) or _explain_misspelt_variable(said, lines, at)
    ) is not None:
        return misspelt
    for message in _load_messages():
        found = message.find.search(said)
        if found is None:
            continue
        line, new = _correct_line(message, found, lines, at)
        if message.only and new is None:
            continue
        hint = _fill_groups(message.hint, found)
        if line is None or new is None:
            return ExplainedMessage(hint=hint, line=at)
        if len(new.strip()) <= _SHOWN_CHARS:
            hint = f"{_LAST_FORM_PATTERN.sub('', hint)} Write `{new.strip()}`.".lstrip()
        return ExplainedMessage(
            hint=hint,
            line=line,
            edit=Edit(start_line=line, end_line=line, replacement=new),
        )
    return ExplainedMessage(hint=None, line=at)


def _explain_misspelt_file(said: str, lines: list[str]) -> ExplainedMessage | None:
    """Return the remedy for a missing file whose name is similar to another path in the step, or None."""
    missing = _MISSING.search(said)
    if missing is None or sum(map(len, lines)) > _MAX_CHARS:
        return None
    word = re.compile(rf"(?<![\w./-]){re.escape(missing[1])}(?![\w./-])")
    places = [number for number, line in enumerate(lines, 1) if word.search(line)]
    others = {path for line in lines for path in _PATH.findall(line)} - {missing[1]}
    meant = _find_intended_path(PurePosixPath(missing[1]), map(PurePosixPath, sorted(others)))
    if meant is None or not places:
        return None
    hint, at = f"Did you mean `{meant}`?", places[0]
    new = word.sub(meant, lines[at - 1])
    if len(places) > 1 or len(new) > _LINE_CHARS:
        return ExplainedMessage(hint=hint, line=at)
    return ExplainedMessage(hint=hint, line=at, edit=Edit(start_line=at, end_line=at, replacement=new))


def _explain_misspelt_variable(said: str, lines: list[str], at: int | None) -> ExplainedMessage | None:
    """Return the remedy for an unbound variable with a name similar to an assigned variable's, or None."""
    unbound = _UNBOUND_PATTERN.search(said)
    if unbound is None or sum(map(len, lines)) > _MAX_CHARS:
        return None
    close = find_close_names(
        unbound[1], sorted({name for line in lines for name in _ASSIGNMENT_PATTERN.findall(line)})
    )
    return (
        ExplainedMessage(hint=f"Did you mean `${close[0]}`?", line=at)
        if close and close[0] != unbound[1]
        else None
    )


_UNBOUND_PATTERN = re.compile(r"([A-Za-z_]\w{2,60})(?:\[\S{1,60}\])?: unbound variable")
_ASSIGNMENT_PATTERN = re.compile(r"(?:^|[\s;&|(])([A-Za-z_]\w{2,60})=")


def _find_intended_path(missing: PurePosixPath, others: Iterable[PurePosixPath]) -> str | None:
    """Return a path with the same name in another folder or a similar name in the same folder, or None."""
    known = list(others)
    moved = [str(path) for path in known if path.name == missing.name]
    stems = {path.stem: str(path) for path in known if path.parent == missing.parent}
    close = find_close_names(missing.stem, stems) if len(missing.stem) >= _MIN_STEM_CHARS else []
    return next(iter((*moved, *(stems[stem] for stem in close))), None)


_MIN_STEM_CHARS = 3
"""Minimum length of a name to compare; shorter names resemble too many others."""
_MISSING = re.compile(
    r"(?<![\w./-])([\w.-]{1,60}(?:/[\w.-]{1,60}){0,6})'?(?: for reading)?: No such file or directory"
)
_PATH = re.compile(r"(?<![\w./-])[\w.-]{1,60}(?:/[\w.-]{1,60}){1,6}")


def _escape_replacement(text: str) -> str:
    """Escape a string for a regex replacement, in which backslashes have a special meaning."""
    return text.replace("\\", r"\\")


def _fill_groups(text: str, found: re.Match[str], *, quote: Callable[[str], str] = str) -> str:
    def value(place: re.Match[str]) -> str:
        return quote(found.group(int(place[1])) or "")

    return re.sub(r"\{([1-9])\}", value, text)


def _correct_line(
    message: MessageEntry, found: re.Match[str], lines: list[str], at: int | None
) -> tuple[int | None, str | None]:
    """Return the only line that matches an entry's pattern and its correction, or None for both."""
    if not message.at or (at is None and sum(map(len, lines)) > _MAX_CHARS):
        return None, None
    pattern = re.compile(_fill_groups(message.at, found, quote=re.escape))
    put = _fill_groups(message.put, found, quote=_escape_replacement)
    matches = (
        (number, seen)
        for number, line in enumerate(lines, 1)
        if (at is None or number == at)
        and len(line) <= _LINE_CHARS
        and not line.lstrip().startswith("#")
        and (seen := pattern.search(line)) is not None
    )
    places = list(islice(matches, 2))
    if len(places) != 1:
        return None, None
    [(number, seen)] = places
    line = lines[number - 1]
    return number, line[: seen.start()] + seen.expand(put) + line[seen.end() :]


def _find_line(said: str, lines: list[str]) -> int | None:
    """Return the line that bash reports or the only line that calls a message's program, or None."""
    named = _AT_LINE.match(said)
    if named is not None:
        return int(named[1]) if int(named[1]) <= len(lines) else None
    program = _PROGRAM_PATTERN.match(said)
    nameless = (name for begin, name in _PROGRAM_BY_PREFIX.items() if said.startswith(begin))
    name = program[1] if program is not None else next(nameless, None)
    if name is None:
        return None
    calls = list(_iter_lines_calling(name, lines))
    if len(calls) > 1:
        quoted = re.findall(r"['\"`‘]([^'\"`’]{2,200})['\"’]|: ([\w./*-]{3,200}):", said)
        values = [value for pair in quoted for value in pair if value]
        narrowed = [n for n in calls if any(value in lines[n - 1] for value in values)]
        calls = narrowed or calls
    return calls[0] if len(calls) == 1 else None


def _iter_lines_calling(program: str, lines: list[str]) -> Iterator[int]:
    word = re.compile(rf"(?<![\w./-]){re.escape(program)}(?![\w.=-])")
    for number, line in enumerate(lines, 1):
        if not line.lstrip().startswith("#") and word.search(line[:_LINE_CHARS]):
            yield number


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
        """Return the label with which messages about a step begin, e.g. ``Step 2 (load)``."""
        return format_step_label(self.number, self.name)


def format_step_label(number: int, name: str) -> str:
    """Return the label with which messages about a step begin, e.g. ``Step 2 (load)``."""
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
    """Judge one step. The step's unit is None if the step never started."""
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
        return _judge_abnormal_exit(step, unit, tried.case, tried.findings[0] if tried.findings else None)
    stderr = unit.stderr.text()
    seen = classify_error(stderr, program=step.program)
    said = seen.line or find_last_error_line(stderr)
    words = f"{said or 'it failed'} (exit code {get_own_exit_code(unit)})"
    told = explain_message(said, step.content)
    advice, at, edit = told.hint, told.line, told.edit
    if not stderr.strip():
        advice, at = suggest_for_silent_failure(step.content)
    finding = _build_step_finding(step, seen.error_class, words, line=at)
    hint = f"{advice or finding.suggestion}{explain_exit_status(step.content, get_own_exit_code(unit))}"
    finding = replace(finding, suggestion=hint, edit=edit)
    case = replace(tried.case, error_type=seen.error_class, message=finding.message, line=finding.line)
    return JudgedStep(case=case, finding=finding)


def _judge_sql(step: StepText, unit: UnitResult) -> JudgedStep:
    case = replace(build_case(unit, CaseStatus.ERROR, None), exit_code=get_own_exit_code(unit))
    try:
        record = read_sql_record(unit)
    except GuestJsonError as problem:
        broken = build_cause_finding(Cause.PROTOCOL_VIOLATION, "It", str(problem))
        return JudgedStep(case=replace(case, message=broken.message), finding=broken)
    if isinstance(record, SqlFailure) and unit.outcome.cause is Cause.EXITED_NONZERO:
        return _judge_sql_failure(step, record, case)
    if unit.outcome.completed and isinstance(record, SqlCounts):
        passed = replace(case, status=CaseStatus.PASSED, result=_count_results(record))
        return JudgedStep(case=passed, idle=record.idle, tables=record.tables)
    cause = Cause.PROTOCOL_VIOLATION if unit.outcome.completed else unit.outcome.cause
    return _judge_abnormal_exit(step, unit, case, build_cause_finding(cause, "It", describe_limit(unit)))


def _judge_sql_failure(step: StepText, record: SqlFailure, case: Case) -> JudgedStep:
    seen = classify_error(record.message, program=step.program)
    place = f"statement {record.statement}: " if record.statement is not None else ""
    finding = _build_step_finding(step, seen.error_class, place + record.message, line=record.line)
    finding = replace(
        finding,
        column=record.column if finding.line is not None else None,
        suggestion=suggest_similar_names(record.message, record.names)
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


def _judge_abnormal_exit(step: StepText, unit: UnitResult, case: Case, finding: Finding | None) -> JudgedStep:
    """Return the case and the finding of a failure with a specific cause, or only the case without a finding.

    For a timeout, the advice is about the text of the step.
    """
    if finding is None:
        return JudgedStep(case=case)
    if unit.outcome.cause is Cause.TIMEOUT:
        finding = _build_timeout_finding(step, unit)
        case = replace(case, error_type=ErrorClass.TIMEOUT)
    return JudgedStep(case=replace(case, message=finding.message), finding=finding)


def _build_timeout_finding(step: StepText, unit: UnitResult) -> Finding:
    """Return the finding for a step that reached its time limit, located at the step's loop if any."""
    finding, text = build_timeout_finding(unit, "It"), step.content
    if step.program is not ErrorSource.BASH:
        lines = [number for number, line in enumerate(text.split("\n"), 1) if _RECURSIVE.search(line)]
    elif (waits := suggest_for_waiting_loop(text)) is not None:
        return replace(finding, suggestion=waits[0], line=waits[1], snippet=get_snippet(text, waits[1]))
    else:
        lines = find_endless_loops(text)
    if finding.suggestion == COMPUTING_HINT and not lines:
        return replace(finding, suggestion=ADVICE[ErrorClass.TIMEOUT])
    return point_to_loops(finding, text, lines)


_RECURSIVE = re.compile(r"\bWITH\s+RECURSIVE\b", re.IGNORECASE)


def _build_step_finding(step: StepText, error_class: ErrorClass, words: str, *, line: int | None) -> Finding:
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


def iter_database_findings(database: Database, unit: UnitResult | None) -> Iterator[Finding]:
    """Yield findings if the unit that creates or checks the database failed."""
    if unit is None or unit.outcome.completed:
        return
    try:
        record = read_sql_record(unit)
    except GuestJsonError as problem:
        yield build_cause_finding(Cause.PROTOCOL_VIOLATION, "Preparing the database", str(problem))
        return
    if not isinstance(record, SqlFailure) or unit.outcome.cause is not Cause.EXITED_NONZERO:
        what, cause = "Preparing the database", unit.outcome.cause
        yield (
            build_timeout_finding(unit, what)
            if cause is Cause.TIMEOUT
            else build_cause_finding(cause, what, describe_limit(unit))
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
    """Yield findings about changed files that weren't kept or are truncated: partial results are rejected."""
    cut = [f"{output.name!a} is too large" for output in result.outputs if output.truncated]
    for reason in (*result.outputs_dropped, *cut)[:10]:
        yield Finding(
            rule="outputs.incomplete",
            category="outputs",
            message=shorten_text(f"A changed file wasn't kept: {reason}."),
            layer=Layer.RUNTIME,
            suggestion="Write fewer and smaller files under data/; put temporary ones under tmp/.",
        )
