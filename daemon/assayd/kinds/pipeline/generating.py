"""What a pipeline is written from: words, data files, a database or its schema."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.briefing import answer_schema, example_answer
from assayd.kinds.pipeline.payload import Database
from assayd.model.prompting import Briefing, Document, Proposal, Surrounding
from assayd.static.work_files import FileContent, content_of

_HEAD_BYTES = 2048
_TASK = (
    "Write a pipeline: steps of bash or SQL (SQLite) that run in order in one directory with the files, and "
    "on the database where there is one. Each step has a name, its type and its content."
)
_EXAMPLE = [
    {
        "name": "drop negative amounts",
        "type": "bash",
        "content": "awk -F, 'NR == 1 || $2 >= 0' data/sales.csv > tmp/cleaned.csv\n",
    },
    {
        "name": "total by region",
        "type": "sql",
        "content": (
            "CREATE TABLE IF NOT EXISTS totals (region TEXT PRIMARY KEY, total REAL);\n"
            "INSERT OR REPLACE INTO totals\n"
            'SELECT region, sum(amount) FROM "tmp/cleaned.csv" GROUP BY region;\n'
        ),
    },
]


class PipelineContext(BaseModel):
    """Data files by their paths, and the database or its schema."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Mapping[str, FileContent] = Field(default_factory=dict)
    database: Database | None = None


def brief(context: PipelineContext, rules: tuple[str, ...], tables: str | None) -> Briefing:
    """Return what a model is told; `tables` describes the database."""
    around = [Surrounding(title="tables and columns", text=tables)] if tables else []
    for path, given in sorted(context.files.items()):
        content = content_of(given)
        head = content[:_HEAD_BYTES].decode("utf-8", "replace")
        around.append(Surrounding(title=f"file {path}, {len(content)} bytes, its beginning", text=head))
    return Briefing(
        task=_TASK,
        rules=rules,
        example=example_answer("steps", _EXAMPLE),
        schema=answer_schema("steps"),
        surroundings=tuple(around),
    )


def answered(base: Document, proposal: Proposal) -> Document:
    """Return a payload with the steps that were proposed: all of them, or other texts for some, by number.

    Raises: ValueError, when there is no step of a number.
    """
    if proposal.form == "files":
        return {**base, "steps": _replaced(base.get("steps"), proposal.files)}
    return {**base, "steps": [dict(step) for step in proposal.steps]}


def _replaced(steps: object, texts: Mapping[str, str]) -> list[dict[str, object]]:
    found = [dict(step) for step in steps] if isinstance(steps, list) else []
    for number, text in texts.items():
        if number not in {str(place) for place in range(1, len(found) + 1)}:
            raise ValueError(f"there is no step {number[:20]}; there are {len(found)}")
        found[int(number) - 1]["content"] = text
    return found
