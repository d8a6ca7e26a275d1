"""Explains rejected and misinterpreted constructs in a step's SQL, with the submission's tables.

The module runs in an analysis worker. `find_refusals` determines refusals before the run. A refusal is shown
only if the run fails with the same error, because the tables can be different during the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from pydantic import BaseModel, ConfigDict

from assayd.findings.source_text import get_snippet, line_number_at
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.policy import SqlPolicy
from assayd.model.text_limits import shorten_text
from assayd.static.python.safe_fixes import build_edit
from assayd.static.work_paths import decode_content
from assayd_pipeline.payload import PipelinePayload
from assayd_pipeline.sql import check_sql
from assayd_pipeline.sql.dialects import (
    MOST_CHARS,
    ExplainedConstruct,
    explain_rejected,
    has_different_meaning,
)
from assayd_pipeline.sql.meanings import explain_misinterpretations, explain_unpreparable
from assayd_pipeline.sql.preparer import StatementPreparer, TableSources, open_preparer
from assayd_pipeline.sql.read import split_sql

RULES = (
    Rule(
        id="sql.suspicious",
        title="SQL that means something else",
        severity=Severity.WARNING,
        help="Bad: WHERE city = NULL. Good: WHERE city IS NULL.",
    ),
)
_EXPLAINED_RULES = frozenset(
    {"sql.syntax", "sql.not_understood", "sql.parameter", "sql.statement", "sql.truncate"}
)
_MAX_STATEMENTS = 100
_CSV_HEAD_BYTES = 2000
_MAX_HINTS = 5


class Refusal(BaseModel):
    """The reason why SQLite would reject a statement, with a remedy. Line numbers are 1-based."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    complaint: str
    suggestion: str
    line: int
    message: str = ""
    start_line: int | None = None
    end_line: int | None = None
    replacement: str = ""

    def matches_error(self, message: str) -> bool:
        """Return whether a run's error equals this refusal. In runs, statements end with a semicolon."""
        ends = self.complaint == "incomplete input" and 'near ";": syntax error' in message
        return self.complaint in message or ends

    @property
    def edit(self) -> Edit | None:
        """Return the edit that corrects the statement, or None if the correction is unknown."""
        if self.start_line is None or self.end_line is None:
            return None
        return Edit(start_line=self.start_line, end_line=self.end_line, replacement=self.replacement)


def prepare_tables_before(payload: PipelinePayload, number: int) -> StatementPreparer | None:
    """Return a preparer with the tables before a step, or None if the submission doesn't define them."""
    database = payload.database
    made = [
        statement
        for step in payload.steps[: number - 1]
        if step.type == "sql"
        for _, statement in _split_statements(step.content)
    ]
    heads = {
        path: decode_content(given)[:_CSV_HEAD_BYTES].decode("utf-8", "replace").split("\n")[0]
        for path, given in payload.files.items()
        if path.lower().endswith((".csv", ".tsv"))
    }
    tables = TableSources(
        content=b"" if database is None else database.content,
        schema="" if database is None else database.schema_sql or "",
        made=tuple(made),
        heads=heads,
    )
    return open_preparer(tables)


def add_explanations(
    content: str, findings: Sequence[Finding], policy: SqlPolicy, tables: StatementPreparer | None
) -> Iterator[Finding]:
    """Yield a step's findings, and add the correct SQLite form to those about unparsable statements."""
    for finding in findings:
        yield (
            _add_explanation(content, finding, policy, tables)
            if finding.rule in _EXPLAINED_RULES
            else finding
        )


def iter_suspicions(payload: PipelinePayload, number: int, content: str) -> Iterator[Finding]:
    """Yield findings about constructs that SQLite accepts in a step, but interprets differently.

    Tables are created only if a statement has a form that requires them, which is rare.
    """
    before: list[str] = []

    @cache
    def opened() -> StatementPreparer | None:
        return prepare_tables_before(payload, number)

    def tables() -> StatementPreparer | None:
        found = opened()
        while found is not None and before:
            found.run(before.pop(0))
        return found

    for start, statement in _split_statements(content):
        told = list(explain_misinterpretations(statement, tables))
        if has_different_meaning(statement) and (other := explain_rejected(statement, tables())) is not None:
            told.append(other)
        for one in told:
            yield _build_suspicion_finding(content, start, statement, one)
        before.append(statement)


def find_refusals(payload: PipelinePayload) -> tuple[Refusal, ...]:
    """Return each step's first statement that SQLite would reject, if the rejection can be explained."""
    found: list[Refusal] = []
    for number, step in enumerate(payload.steps, 1):
        tables = prepare_tables_before(payload, number) if step.type == "sql" else None
        if tables is None or len(found) >= _MAX_HINTS:
            continue
        for start, statement in _split_statements(step.content):
            complaint = tables.find_error(statement)
            if complaint is None:
                tables.run(statement)
                continue
            one = explain_unpreparable(statement, complaint, tables)
            if one is not None:
                found.append(_build_refusal(number, step.content, start, statement, complaint, one))
            break
    return tuple(found)


def _build_refusal(
    number: int, content: str, start: int, statement: str, complaint: str, one: ExplainedConstruct
) -> Refusal:
    edit = _build_edit(content, start, statement, one)
    return Refusal(
        step=number,
        complaint=complaint,
        suggestion=shorten_text(one.hint),
        message=_build_message(one),
        line=line_number_at(content, start + _skip_white_space(statement, one)),
        start_line=None if edit is None else edit.start_line,
        end_line=None if edit is None else edit.end_line,
        replacement="" if edit is None else edit.replacement,
    )


def _split_statements(content: str) -> Iterator[tuple[int, str]]:
    """Yield the statements with their offsets, except very long ones; nothing if the text can't be split."""
    for statement in split_sql(content).statements[:_MAX_STATEMENTS]:
        start, end = statement.tokens[0].start, statement.tokens[-1].end
        if end - start <= MOST_CHARS:
            yield start, content[start:end]


def _add_explanation(
    content: str, finding: Finding, policy: SqlPolicy, tables: StatementPreparer | None
) -> Finding:
    """Return a finding with an explanation of its statement, or the unchanged finding."""
    start, statement = _find_statement(content, finding)
    for place, before in _split_statements(content):
        if tables is not None and place < start:
            tables.run(before)
    one = explain_rejected(statement, tables)
    if one is None or ((one.said or not one.written) and finding.edit is not None):
        return finding
    edit = _build_edit(content, start, statement, one)
    if edit is not None and check_sql(_apply_explanation(content, start, statement, one), policy).syntax:
        edit = None
    line = line_number_at(content, start + _skip_white_space(statement, one)) if one.written else finding.line
    return replace(
        finding,
        message=_build_message(one) or finding.message,
        line=line,
        column=finding.column if line == finding.line else None,
        snippet=get_snippet(content, line),
        suggestion=shorten_text(one.hint),
        edit=edit or (finding.edit if not one.written else None),
    )


def _find_statement(content: str, finding: Finding) -> tuple[int, str]:
    """Return the statement at a finding's position with its offset, or the whole text if there is none."""
    lines = content.split("\n")
    line = min(finding.line or 1, len(lines))
    at = sum(len(one) + 1 for one in lines[: line - 1]) + (finding.column or 1) - 1
    found = list(_split_statements(content))
    for start, statement in reversed(found):
        if start <= at:
            return start, statement
    return 0, content.rstrip().rstrip(";")


def _skip_white_space(statement: str, one: ExplainedConstruct) -> int:
    """Return the offset at which a construct begins, after any whitespace."""
    rest = statement[one.start :]
    return one.start + len(rest) - len(rest.lstrip())


def _apply_explanation(content: str, start: int, statement: str, one: ExplainedConstruct) -> str:
    new, end = one.new or "", start + len(statement)
    rest = content[end:]
    if not new.strip():
        rest = rest.lstrip().removeprefix(";").lstrip("\n")
    return content[:start] + new + rest


def _build_edit(content: str, start: int, statement: str, one: ExplainedConstruct) -> Edit | None:
    return (
        None if one.new is None else build_edit(content, _apply_explanation(content, start, statement, one))
    )


def _build_message(one: ExplainedConstruct) -> str:
    """Return the message that names foreign SQL and its database, or an empty string."""
    if not one.written or one.said:
        return one.written
    written = shorten_text(" ".join(one.written.split()), 60)
    if one.of.startswith("no database"):
        return f"SQLite doesn't read this: {written}."
    if one.of == "other databases":
        return f"SQLite has no {written}."
    return f"This is {one.of}, not SQLite: {written}."


def _build_suspicion_finding(content: str, start: int, statement: str, one: ExplainedConstruct) -> Finding:
    line = line_number_at(content, start + _skip_white_space(statement, one))
    written = shorten_text(" ".join(one.written.split()), 60)
    message = f"This is {one.of}: `{written}`." if one.certain else f"`{written}` {one.of}."
    return Finding(
        rule="sql.suspicious",
        category="sql",
        severity=Severity.WARNING,
        message=message,
        line=line,
        snippet=get_snippet(content, line),
        suggestion=shorten_text(one.hint),
        edit=_build_edit(content, start, statement, one),
    )
