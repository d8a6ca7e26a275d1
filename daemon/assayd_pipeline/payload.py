"""Defines the payload of a pipeline: steps, files, a database, and the id of a stored pipeline."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    model_validator,
)

from assayd.documents.base import canonical, digest
from assayd.static.work_paths import Base64Text, FileContent
from assayd_pipeline.facts import Expected
from assayd_pipeline.from_files import SQLITE_HEADER
from assayd_pipeline.shell.parse.source import normalize_script

MOST_STEPS = 100
"""Source: docs/operating/configure.md."""
MOST_NAME_CHARS = 64

Ulid = Annotated[str, StringConstraints(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]


def _check_step_name(name: str) -> str:
    if not name.strip() or len(name) > MOST_NAME_CHARS:
        raise ValueError(f"a step's name must have 1 to {MOST_NAME_CHARS} characters")
    if not name.isprintable() or ".." in name or any(sign in name for sign in "/\\"):
        raise ValueError("a step's name must not have slashes, '..' or control characters")
    return name


def _check_step_content(content: str) -> str:
    if not content.strip():
        raise ValueError("a step must have content")
    if "\0" in content:
        raise ValueError("a step's content must not have a NUL character")
    return content


def _check_sqlite_file(text: str) -> str:
    content = b64decode(text)
    if content and (not content.startswith(SQLITE_HEADER) or len(content) < 512):
        raise ValueError("isn't a SQLite database")
    return text


class _PayloadModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")


class Step(_PayloadModel):
    """One step, which is a bash script or a list of SQL statements."""

    name: Annotated[str, AfterValidator(_check_step_name)]
    type: Literal["bash", "sql"]
    content: Annotated[str, AfterValidator(_check_step_content)]


def compute_steps_digest(steps: Sequence[Step]) -> str:
    """Return the SHA-256 digest of the steps as they are run."""
    return digest(canonical([[step.name, step.type, normalize_script(step.content)] for step in steps]))


class Database(_PayloadModel):
    """The database of SQL steps, which is an empty database with a schema, or a database file.

    If `sample_rows` is set, prompts can contain three rows of each table; otherwise, they contain only
    names.
    """

    schema_sql: Annotated[str, AfterValidator(_check_step_content)] | None = None
    base64: Annotated[Base64Text, AfterValidator(_check_sqlite_file)] | None = None

    sample_rows: StrictBool = False

    @model_validator(mode="after")
    def _require_one_source(self) -> Database:
        if (self.schema_sql is None) == (self.base64 is None):
            raise ValueError("pass either schema_sql or base64")
        return self

    @property
    def content(self) -> bytes:
        """Return the content of the database file; empty if there is a schema instead."""
        return b"" if self.base64 is None else b64decode(self.base64)


class PipelinePayload(_PayloadModel):
    """The bash and SQL steps of a pipeline, which work on files and a SQLite database."""

    steps: tuple[Step, ...] = Field((), max_length=MOST_STEPS, description="Steps to run in order.")
    files: Mapping[str, FileContent] = Field(
        default_factory=dict, description="Files of the directory that the steps run in, by path."
    )
    database: Database | None = Field(None, description="The database of SQL steps.")
    pipeline_id: Ulid | None = Field(
        None, description="A stored pipeline: its steps run, or `steps` replace them."
    )
    expects: Expected | None = Field(
        None, description="Facts of an earlier run; data that differs from them causes a finding."
    )

    @model_validator(mode="after")
    def _require_steps(self) -> PipelinePayload:
        if not self.steps and self.pipeline_id is None:
            raise ValueError("pass steps, or the pipeline_id of a stored pipeline")
        return self
