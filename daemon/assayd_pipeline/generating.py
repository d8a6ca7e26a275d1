"""Defines the request for writing a pipeline: text, data files, and a database or its schema."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.briefing import describe_file_head
from assayd.model.prompting import Document, Example, PromptContext, Proposal
from assayd.static.work_paths import FileContent, decode_content
from assayd_pipeline.payload import Database

_HEAD_BYTES = 2048
TASK = "Write a pipeline: steps of bash or SQL, each with a name, a type and a content."
EXAMPLE = Example(
    request="Total data/sales.csv by region into the table totals and data/totals.csv.",
    context={
        "files": {"data/sales.csv": 'region,amount\n"central, upper",10\nnorth,2.5\nnorth,\n'},
        "database": {"schema_sql": "CREATE TABLE totals (region TEXT PRIMARY KEY, total REAL NOT NULL);"},
    },
    answer=Proposal(
        steps=(
            {
                "name": "total by region",
                "type": "sql",
                "content": (
                    "INSERT INTO totals\n"
                    "SELECT region, sum(CAST(amount AS REAL))\n"
                    "FROM \"data/sales.csv\" WHERE amount <> '' GROUP BY region\n"
                    "ON CONFLICT (region) DO UPDATE SET total = excluded.total;\n"
                    "SELECT region, total FROM totals ORDER BY region;\n"
                ),
            },
            {
                "name": "write totals.csv",
                "type": "bash",
                "content": (
                    "set -euo pipefail\n"
                    "jq -R -r 'split(\"\\t\") | @csv' logs/01_total_by_region.out > data/totals.csv\n"
                ),
            },
        )
    ),
    reason="SQL skips empty amounts and upserts totals; jq writes the selected rows as CSV.",
)


class PipelineContext(BaseModel):
    """The context for generating a pipeline: data files by path, and the database or its schema."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Mapping[str, FileContent] = Field(default_factory=dict)
    database: Database | None = None


def around(context: PipelineContext, tables: str | None) -> list[PromptContext]:
    """Return the context that the generated steps must fit; `tables` describes the database."""
    found = [PromptContext(title="tables and columns", text=tables)] if tables else []
    for path, given in sorted(context.files.items()):
        found.append(describe_file_head(path, decode_content(given), _HEAD_BYTES))
    return found


def answered(base: Document, proposal: Proposal) -> Document:
    """Return a payload with the proposed steps, or with new texts for the steps with these numbers.

    Raises: ValueError, if a step number doesn't exist.
    """
    if proposal.form == "files":
        return {**base, "steps": _replace_steps(base.get("steps"), proposal.files)}
    return {**base, "steps": [dict(step) for step in proposal.steps]}


def _replace_steps(steps: object, texts: Mapping[str, str]) -> list[dict[str, object]]:
    found = [dict(step) for step in steps] if isinstance(steps, list) else []
    for number, text in texts.items():
        if number not in {str(place) for place in range(1, len(found) + 1)}:
            raise ValueError(f"step {number[:20]} doesn't exist; the pipeline has {len(found)} steps")
        found[int(number) - 1]["content"] = text
    return found
