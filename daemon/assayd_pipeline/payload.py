"""The payload of a pipeline (steps, files, a database, a stored pipeline), and samples for the self-test."""

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
from assayd.model.submission import Sample
from assayd.static.work_paths import Base64Text, FileContent
from assayd_pipeline.command_line import SQLITE_HEADER
from assayd_pipeline.facts import Expected
from assayd_pipeline.shell.parse.source import normalize_script

MAX_STEPS = 100
"""Maximum number of steps in a pipeline, as documented in docs/operating/configure.md."""
MAX_STEP_NAME_CHARS = 64

Ulid = Annotated[str, StringConstraints(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]


def _check_step_name(name: str) -> str:
    if not name.strip() or len(name) > MAX_STEP_NAME_CHARS:
        raise ValueError(f"a step's name must have 1 to {MAX_STEP_NAME_CHARS} characters")
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
        """Return the content of the database file, or empty bytes if there is a schema instead."""
        return b"" if self.base64 is None else b64decode(self.base64)


class PipelinePayload(_PayloadModel):
    """The bash and SQL steps of a pipeline, which work on files and a SQLite database."""

    steps: tuple[Step, ...] = Field((), max_length=MAX_STEPS, description="Steps to run in order.")
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


def _build_sample(name: str, *steps: tuple[str, str], rules: Sequence[str] = (), **more: object) -> Sample:
    """Return a sample, which is valid if `rules` is empty, and needs a container if all are run rules."""
    payload = {
        "steps": [
            {"name": f"step {n}", "type": kind, "content": text} for n, (kind, text) in enumerate(steps, 1)
        ],
        **more,
    }
    runs = all(rule.startswith(("step.", "sandbox.", "database.", "outputs.")) for rule in rules)
    verdict = "failed" if rules else "validated"
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


_CLEAN_SCRIPT = (
    "set -euo pipefail\nawk -F, 'NR == 1 || $2 > 0' data/sales.csv > tmp/clean.csv\nwc -l < tmp/clean.csv\n"
)

_LOAD_SQL = (
    "CREATE TABLE IF NOT EXISTS sales (region TEXT NOT NULL, amount REAL NOT NULL);\n"
    'INSERT INTO sales SELECT region, amount FROM "tmp/clean.csv";\n'
    "SELECT region, sum(amount) AS total FROM sales GROUP BY region ORDER BY region;\n"
)

_KEEP_SCRIPT = "cat logs/02_step_2.out > data/totals.tsv\n"

_SALES_FILES = {"data/sales.csv": "region,amount\nnorth,10\nsouth,-1\nnorth,5\n"}

_BROKEN_SCHEMA = {"schema_sql": "CREATE TABEL t"}

_ENDLESS_QUERY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

SAMPLES = (
    _build_sample(
        "good", ("bash", _CLEAN_SCRIPT), ("sql", _LOAD_SQL), ("bash", _KEEP_SCRIPT), files=_SALES_FILES
    ),
    _build_sample(
        "schema",
        ("sql", "UPDATE t SET a = 2 WHERE a = 1"),
        database={"schema_sql": "CREATE TABLE t (a); INSERT INTO t VALUES (1);"},
    ),
    _build_sample("not_bash", ("bash", "if true; then"), rules=["shell.syntax"]),
    _build_sample("not_sql", ("sql", "SELCT 1"), rules=["sql.syntax"]),
    _build_sample("blocked", ("bash", "rm data/sales.csv"), rules=["command.blocked"]),
    _build_sample(
        "all_rows", ("sql", "DELETE FROM sales -- WHERE id = 1"), rules=["sql.delete_without_where"]
    ),
    _build_sample("drops", ("sql", "DROP TABLE sales"), rules=["sql.drop"]),
    _build_sample("upwards", ("bash", "true"), files={"../x": ""}, rules=["path.invalid"]),
    _build_sample("missing_file", ("bash", "cat data/gone.csv"), rules=["path.missing"]),
    _build_sample("removed_file", ("bash", 'cat "data/$(date +%s).csv"'), rules=["step.file_not_found"]),
    _build_sample("missing_table", ("sql", "SELECT * FROM gone"), rules=["step.table_missing"]),
    _build_sample("endless", ("sql", _ENDLESS_QUERY), rules=["sandbox.timeout"]),
    _build_sample("bad_schema", ("sql", "SELECT 1"), database=_BROKEN_SCHEMA, rules=["database.schema"]),
)
