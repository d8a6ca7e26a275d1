"""Builds the request for fixing a pipeline from the failed step and its context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assayd.findings.briefing import describe_file_head
from assayd.findings.retry_context import list_errors, normalize_source
from assayd.model.prompting import PromptContext
from assayd.static.work_paths import decode_content
from assayd_pipeline.errors import ErrorSource as Writer
from assayd_pipeline.judging import StepText
from assayd_pipeline.payload import Database, PipelinePayload
from assayd_pipeline.shell.parse.source import normalize_script
from assayd_pipeline.sql import preparer
from assayd_pipeline.sql.read import InvalidSqlCharacter, tokenize

SAMPLE_ROWS = 3
"""Rows per table, if the request allows samples."""
_HEAD_BYTES = 1024
"""Bytes of each file in a request for a fix."""
_STEP_CHARS = 4000
"""Characters of each other step in a request for a fix."""


def iter_numbered_steps(submitted: PipelinePayload) -> Iterator[StepText]:
    """Return every step with its number, in the form in which it is run."""
    for number, step in enumerate(submitted.steps, 1):
        yield StepText(
            number=number, name=step.name, program=Writer(step.type), content=normalize_script(step.content)
        )


def find_faulty_step(submitted: PipelinePayload, report: Mapping[str, object]) -> StepText:
    """Return the step of the first error, whose message begins with the step's name."""
    steps = list(iter_numbered_steps(submitted))
    for finding in list_errors(report):
        for step in steps:
            if str(finding.get("message")).startswith(f"{step.label}:"):
                return step
    return steps[0] if steps else StepText(number=1, name="", program=Writer.BASH, content="")


def find_faulty_types(submitted: PipelinePayload, report: Mapping[str, object]) -> frozenset[Writer]:
    """Return the types of the steps with errors; without errors, return the type of the first step."""
    found = {
        step.program
        for finding in list_errors(report)
        for step in iter_numbered_steps(submitted)
        if str(finding.get("message")).startswith(f"{step.label}:")
    }
    return frozenset(found or {find_faulty_step(submitted, report).program})


def iter_fix_context(submitted: PipelinePayload, step: StepText, failure: str) -> Iterator[PromptContext]:
    """Yield the context that a fix must fit: the schema, relevant files, and all other steps."""
    if step.program is Writer.SQL and (tables := describe_tables(submitted.database)) is not None:
        yield PromptContext(title="tables", text=tables)
    named = [path for path in submitted.files if path in step.content or path in failure]
    shown = sorted(named if named and "*" not in step.content else submitted.files)
    for path in shown:
        yield describe_file_head(path, decode_content(submitted.files[path]), _HEAD_BYTES)
    if others := sorted(submitted.files.keys() - set(shown)):
        yield PromptContext(title="other files, not shown", text="\n".join(others))
    for other in iter_numbered_steps(submitted):
        if other.number != step.number:
            yield _describe_other_step(other)


def _describe_other_step(step: StepText) -> PromptContext:
    size = len(step.content)
    cut = f", first {_STEP_CHARS} of {size} characters" if size > _STEP_CHARS else ""
    title = f"{step.label}, {step.program.value}{cut}"
    return PromptContext(title=title, text=step.content[:_STEP_CHARS])


def describe_tables(database: Database | None) -> str | None:
    """Return the schema, or a description of the tables in a database file; None if neither exists."""
    if database is None:
        return None
    if database.schema_sql is not None:
        return database.schema_sql
    return preparer.describe_database(database.content, SAMPLE_ROWS if database.sample_rows else 0)


def normalize_step(step: StepText) -> bytes:
    """Return a step without layout and comments, so that steps can be compared."""
    if step.program is Writer.BASH:
        return normalize_source(step.content, "#")
    try:
        return " ".join(token.text for token in tokenize(step.content)).encode()
    except InvalidSqlCharacter:
        return normalize_source(step.content, "--")
