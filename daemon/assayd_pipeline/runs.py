"""Builds the submissions of an approved pipeline's runs, and the facts with which runs are compared.

Columns and types are compared with the approved attempt. Numbers of rows are compared with the last run
whose data had no finding, so that data can grow. A run is an attempt with the labels `pipeline` and
`pipeline_version`; its report contains the facts about its data, so no separate record is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from assayd.documents.base import BaseDocument, Timestamp, format_optional_time
from assayd.documents.library import LibraryName
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.records import LibraryEntry
from assayd.model.report import Verdict
from assayd.static.work_paths import FileContent
from assayd_pipeline.facts import DataFacts, Expected, Facts, RowRange
from assayd_pipeline.payload import Database, Step, compute_steps_digest

NAME_LABEL, VERSION_LABEL = "pipeline", "pipeline_version"
MOST_FINDINGS = 10
"""Of a run, in the history."""


class PipelineRunBody(BaseModel):
    """The request to run an approved pipeline on new data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: LibraryName = Field(description="Name of the library entry.")
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Version of the entry. Default: the newest."
    )
    files: dict[str, FileContent] = Field({}, description="The data files, by path.")
    database: Database | None = Field(None, description="The database. Default: the approved schema.")
    range: RowRange = Field(RowRange(), description="Expected rows, as a multiple of the last run's.")
    strict: bool = Field(False, description="Whether a number of rows out of range is an error.")
    labels: dict[str, str] = Field({}, description="Further labels of the attempt.")
    webhook: str | None = Field(None, description="URL to send the verdict to.")


class RunFindingDocument(BaseDocument):
    """A finding about a run."""

    rule: str = Field(description="Rule of the finding.")
    severity: str = Field(description="`error` or `warning`.")
    message: str = Field(description="The fault.")


class PipelineRunDocument(BaseDocument):
    """One run of an approved pipeline. Row counts are null for files whose rows can't be counted."""

    attempt_id: str = Field(description="The attempt.")
    version: int | None = Field(description="Version of the library entry.")
    created_at: Timestamp = Field(description="When it was accepted.")
    verdict: str | None = Field(description="Its verdict; null until then.")
    inputs: dict[str, int | None] = Field(description="Rows of each submitted file.")
    outputs: dict[str, int | None] = Field(description="Rows of each file that it created or changed.")
    tables: dict[str, int | None] = Field(description="Rows of each table.")
    findings: list[RunFindingDocument] = Field(description="Errors, and warnings about the data.")


class PipelineRunPageDocument(BaseDocument):
    """A page of runs."""

    runs: list[PipelineRunDocument] = Field(description="The runs, newest first.")
    next_cursor: str | None = Field(description="Start of the next page; null on the last page.")


class JudgedReport:
    """The parts of an attempt's report with which runs are compared."""

    def __init__(self, report: bytes) -> None:
        document = json.loads(report) or {}
        feedback: Any = document.get("feedback")
        found = feedback.get("data") if isinstance(feedback, dict) else None
        self.facts = None if found is None else DataFacts.model_validate(found)
        self.steps = feedback.get("steps_sha256") if isinstance(feedback, dict) else None
        self.findings: Sequence[Mapping[str, Any]] = document.get("findings", ())

    @property
    def is_clean(self) -> bool:
        """Return whether the run has facts and no findings about its data."""
        return self.facts is not None and not any(self._iter_data_findings())

    def _iter_data_findings(self) -> Iterator[Mapping[str, Any]]:
        return (finding for finding in self.findings if finding["rule"].startswith("data."))

    def shown(self) -> list[RunFindingDocument]:
        """Return the findings that the history shows."""
        about_data = list(self._iter_data_findings())
        found = [each for each in self.findings if each["severity"] == "error" or each in about_data]
        return [
            RunFindingDocument(rule=each["rule"], severity=each["severity"], message=each["message"])
            for each in found[:MOST_FINDINGS]
        ]


def build_expected_facts(
    approved: DataFacts | None, last: DataFacts | None, wanted: PipelineRunBody
) -> dict[str, Any]:
    """Return the facts with which a run is compared, as they appear in the run's payload.

    Raises: RequestError ``pipeline.no_baseline``, if the facts are missing.
    """
    base = approved or last
    if base is None:
        message = (
            f"{wanted.name} has no baseline: it was approved before runs were compared, its files were "
            "deleted, or its verdict is distrusted; replay its attempt, and approve the replay"
        )
        raise RequestError("pipeline.no_baseline", message)
    rows = last or base
    groups = {
        group: {name: _update_rows(facts, getattr(rows, group).get(name)) for name, facts in members.items()}
        for group, members in (("inputs", base.inputs), ("outputs", base.outputs), ("tables", base.tables))
    }
    return Expected(**groups, range=wanted.range, strict=wanted.strict).model_dump(mode="json")


def _update_rows(facts: Facts, last: Facts | None) -> Facts:
    """Return the facts of the approved attempt with the row counts of the last run, as far as known."""
    return facts if last is None or not last.rows else facts.model_copy(update={"rows": last.rows})


def get_approved_steps_digest(entry: LibraryEntry) -> str:
    """Return the digest of the approved steps, as it appears in the report of a run."""
    payload = json.loads(entry.document)["payload"]
    return compute_steps_digest([Step.model_validate(step) for step in payload.get("steps", [])])


def build_submission(
    entry: LibraryEntry, wanted: PipelineRunBody, expects: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the submission of a run, which consists of the approved steps and policy, and the new data.

    Raises: RequestError ``invalid``, if the approved attempt had a database and the run has none.
    """
    approved = json.loads(entry.document)
    payload = approved["payload"]
    database = payload.get("database")
    if wanted.database is not None:
        database = wanted.database.model_dump(exclude_none=True, exclude_defaults=True)
    elif database is not None and database.get("schema_sql") is None:
        message = f"{entry.name}@{entry.version} was approved with a database file; pass one"
        raise RequestError("invalid", message, field="database")
    files = {
        path: content if isinstance(content, str) else content.model_dump()
        for path, content in wanted.files.items()
    }
    labels = {**wanted.labels, NAME_LABEL: entry.name, VERSION_LABEL: str(entry.version)}
    submission = {
        "kind": "pipeline",
        "policy": approved["policy"],
        "overrides": approved.get("overrides") or {},
        "labels": labels,
        "payload": {
            "steps": payload.get("steps", []),
            "files": files,
            "database": database,
            "expects": expects,
        },
    }
    return submission if wanted.webhook is None else {**submission, "webhook": wanted.webhook}


def to_run_document(attempt: Attempt, judged: JudgedReport | None) -> PipelineRunDocument:
    """Return a run's document for the history. `judged` is None before the run has a verdict."""
    facts = (judged.facts if judged is not None else None) or DataFacts()
    version = attempt.labels.get(VERSION_LABEL, "")
    return PipelineRunDocument(
        attempt_id=attempt.id,
        version=int(version) if version.isascii() and version.isdigit() and len(version) < 10 else None,
        created_at=format_optional_time(attempt.created_at),
        verdict=None if attempt.verdict is None else attempt.verdict.value,
        inputs=_map_row_counts(facts.inputs),
        outputs=_map_row_counts(facts.outputs),
        tables=_map_row_counts(facts.tables),
        findings=[] if judged is None else judged.shown(),
    )


def is_comparable(attempt: Attempt) -> bool:
    """Return whether later runs can be compared with this run."""
    return attempt.verdict is Verdict.VALIDATED and attempt.approvable


def _map_row_counts(group: Mapping[str, Facts]) -> dict[str, int | None]:
    return {name: facts.rows for name, facts in group.items()}
