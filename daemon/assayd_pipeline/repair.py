"""Builds the request for fixing a pipeline from the failed step and its context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assayd.findings.briefing import describe_file_head
from assayd.findings.retry_context import errors_of, strip_layout
from assayd.model.prompting import PromptContext
from assayd.static.work_paths import decode_content
from assayd_pipeline.errors import ErrorSource as Writer
from assayd_pipeline.judging import StepText
from assayd_pipeline.payload import Database, PipelinePayload
from assayd_pipeline.shell.parse.source import clean
from assayd_pipeline.sql import catalog
from assayd_pipeline.sql.read import NotSql, tokenize

SAMPLE_ROWS = 3
"""Rows per table, if the request allows samples."""
_HEAD_BYTES = 1024
"""Bytes of each file in a request for a fix."""
_STEP_CHARS = 4000
"""Characters of each other step in a request for a fix."""


def numbered_steps(submitted: PipelinePayload) -> Iterator[StepText]:
    """Return every step with its number, in the form in which it is run."""
    for number, step in enumerate(submitted.steps, 1):
        yield StepText(number=number, name=step.name, program=Writer(step.type), content=clean(step.content))


def faulty(submitted: PipelinePayload, report: Mapping[str, object]) -> StepText:
    """Return the step of the first error, whose message begins with the step's name."""
    steps = list(numbered_steps(submitted))
    for finding in errors_of(report):
        for step in steps:
            if str(finding.get("message")).startswith(f"{step.label}:"):
                return step
    return steps[0] if steps else StepText(number=1, name="", program=Writer.BASH, content="")


def find_faulty_types(submitted: PipelinePayload, report: Mapping[str, object]) -> frozenset[Writer]:
    """Return the types of the steps with errors; without errors, return the type of the first step."""
    found = {
        step.program
        for finding in errors_of(report)
        for step in numbered_steps(submitted)
        if str(finding.get("message")).startswith(f"{step.label}:")
    }
    return frozenset(found or {faulty(submitted, report).program})


def around(submitted: PipelinePayload, step: StepText, failure: str) -> Iterator[PromptContext]:
    """Yield the context that a fix must fit: the schema, relevant files, and all other steps."""
    if step.program is Writer.SQL and (tables := tables_of(submitted.database)) is not None:
        yield PromptContext(title="tables", text=tables)
    named = [path for path in submitted.files if path in step.content or path in failure]
    shown = sorted(named if named and "*" not in step.content else submitted.files)
    for path in shown:
        yield describe_file_head(path, decode_content(submitted.files[path]), _HEAD_BYTES)
    if others := sorted(submitted.files.keys() - set(shown)):
        yield PromptContext(title="other files, not shown", text="\n".join(others))
    for other in numbered_steps(submitted):
        if other.number != step.number:
            yield _describe_other_step(other)


def _describe_other_step(step: StepText) -> PromptContext:
    size = len(step.content)
    cut = f", first {_STEP_CHARS} of {size} characters" if size > _STEP_CHARS else ""
    title = f"{step.label}, {step.program.value}{cut}"
    return PromptContext(title=title, text=step.content[:_STEP_CHARS])


def tables_of(database: Database | None) -> str | None:
    """Return the schema, or a description of the tables in a database file; None if neither exists."""
    if database is None:
        return None
    if database.schema_sql is not None:
        return database.schema_sql
    return catalog.describe(database.content, SAMPLE_ROWS if database.sample_rows else 0)


def normal(step: StepText) -> bytes:
    """Return a step without layout and comments, so that steps can be compared."""
    if step.program is Writer.BASH:
        return strip_layout(step.content, "#")
    try:
        return " ".join(token.text for token in tokenize(step.content)).encode()
    except NotSql:
        return strip_layout(step.content, "--")
