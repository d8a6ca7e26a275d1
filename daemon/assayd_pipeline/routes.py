"""Routes for stored pipelines and for runs of approved pipelines: their documents and submissions.

Builds the submissions of an approved pipeline's runs, and the facts with which runs are compared.

Columns and types are compared with the approved attempt. Numbers of rows are compared with the last run
whose data had no finding, so that data can grow. A run is an attempt with the labels `pipeline` and
`pipeline_version`; its report contains the facts about its data, so no separate record is needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, json_response, read_model
from assayd.api.routes import WaitS, read_submission_body, respond_to_submission
from assayd.documents import canonical
from assayd.documents.base import BaseDocument, Timestamp, format_optional_time
from assayd.documents.library import LibraryName
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.model.records import AttemptQuery, LibraryEntry
from assayd.model.report import Verdict
from assayd.ports.service import AttemptFix
from assayd.static.work_paths import FileContent
from assayd_pipeline.facts import DataFacts, Expected, Facts, RowRange
from assayd_pipeline.payload import Database, Step, compute_steps_digest
from assayd_pipeline.stored import (
    PipelineAttempt,
    PipelineQuery,
    PipelineStatus,
    PipelineStore,
    StoredPipeline,
)


class PipelineDocument(BaseDocument):
    """A pipeline in a listing."""

    id: str = Field(description="Id: that of the attempt that created it.")
    status: PipelineStatus = Field(description="State after its last attempt.")
    uid: int = Field(description="User id of the owner.")
    created_at: Timestamp = Field(description="When it was submitted.")
    updated_at: Timestamp = Field(description="When its last attempt was submitted.")


class PipelinePageDocument(BaseDocument):
    """A page of pipelines."""

    pipelines: list[PipelineDocument] = Field(description="The pipelines, newest first.")
    next_cursor: str | None = Field(description="Start of the next page; null on the last page.")


class StoredStepDocument(BaseDocument):
    """A stored step."""

    step_id: int = Field(description="Id of the step; a repair keeps it.")
    position: int = Field(description="Number of the step, from 1.")
    name: str = Field(description="Name of the step.")
    type: Literal["bash", "sql"] = Field(description="Type of the step.")
    content: str = Field(description="Text of the step.")


class StepRunDocument(BaseDocument):
    """One run of one step."""

    step_id: int | None = Field(description="The stored step; null if it was deleted.")
    pipeline_id: str = Field(description="The pipeline.")
    position: int = Field(description="Number of the step, from 1.")
    name: str = Field(description="Its name at that time.")
    run_time: Timestamp | None = Field(description="When it was started.")
    is_successful: bool = Field(description="Whether it ended with exit code 0 and without errors.")
    stdout: str = Field(description="Standard output, head and tail.")
    stderr: str = Field(description="Standard error, head and tail.")
    exit_code: int | None = Field(description="Exit code; null if it was killed, or refused before it ran.")
    execution_time_ms: int = Field(description="Duration of the step.")


class PipelineFixDocument(BaseDocument):
    """The fix that an attempt tries, as recorded by the repair."""

    repair_id: str = Field(description="The repair.")
    number: int = Field(description="Number of the fix in the repair, from 1.")
    provider: str = Field(description="Its provider.")
    passage: str = Field(description="The replaced part: the number of a step, or `all steps`.")
    reason: str = Field(description="The provider's reason.")
    hint: str | None = Field(description="Hint of the user.")


class PipelineAttemptDocument(BaseDocument):
    """One attempt of a pipeline."""

    attempt_id: str = Field(description="The attempt.")
    verdict: str | None = Field(description="Its verdict; null until then.")
    created_at: Timestamp = Field(description="When it was accepted.")
    parent_id: str | None = Field(description="The attempt that it follows.")
    fix: PipelineFixDocument | None = Field(
        description="The fix that it tries; null if it isn't part of a repair."
    )
    steps: list[StepRunDocument] = Field(description="The steps that it ran, in order, or that were refused.")


class PipelineDetailDocument(PipelineDocument):
    """A pipeline with its steps and attempts."""

    steps: list[StoredStepDocument] = Field(description="Its steps, in order.")
    attempts: list[PipelineAttemptDocument] = Field(description="Its attempts, newest first.")


def to_pipeline_document(
    pipeline: StoredPipeline, fixes: Mapping[str, AttemptFix | None] = MappingProxyType({})
) -> PipelineDetailDocument:
    """Return the document of a pipeline with its steps and attempts. `fixes` is keyed by attempt."""
    return PipelineDetailDocument.from_value(
        pipeline,
        steps=[StoredStepDocument.from_value(step, step_id=step.id) for step in pipeline.steps],
        attempts=[
            _to_attempt_document(attempt, fixes.get(attempt.attempt_id)) for attempt in pipeline.attempts
        ],
    )


def _to_attempt_document(attempt: PipelineAttempt, fix: AttemptFix | None) -> PipelineAttemptDocument:
    steps = [StepRunDocument.from_value(step) for step in attempt.steps]
    shown = None if fix is None else PipelineFixDocument.from_value(fix)
    return PipelineAttemptDocument.from_value(attempt, fix=shown, steps=steps)


NAME_LABEL, VERSION_LABEL = "pipeline", "pipeline_version"
MAX_RUN_FINDINGS = 10
"""Maximum number of a run's findings in the history."""


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
    """The facts and findings in an attempt's report with which runs are compared.

    `facts` and `steps` (the steps' digest) are None if the report doesn't contain them.
    """

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
        """Return the errors and the findings about data for the history, at most `MOST_FINDINGS`."""
        about_data = list(self._iter_data_findings())
        found = [each for each in self.findings if each["severity"] == "error" or each in about_data]
        return [
            RunFindingDocument(rule=each["rule"], severity=each["severity"], message=each["message"])
            for each in found[:MAX_RUN_FINDINGS]
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
    """Return whether later runs can be compared with this validated, approvable run."""
    return attempt.verdict is Verdict.VALIDATED and attempt.approvable


def _map_row_counts(group: Mapping[str, Facts]) -> dict[str, int | None]:
    return {name: facts.rows for name, facts in group.items()}


NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
MAX_SEARCHED_RUNS = 20
"""Number of recent runs in which to search for the last one without a finding about its data."""
RUN_BODY = answers.describe_request_body(PipelineRunBody)


def _get_pipelines(call: Call) -> PipelineStore:
    return cast("PipelineStore", call.service.records["pipeline"])


router = APIRouter(prefix="/v1/pipelines", tags=["pipelines"], responses=answers.ERRORS)


@router.get("", responses=answers.describe_json_responses(PipelinePageDocument, "A page of pipelines"))
async def list_pipelines(
    call: CallDep,
    status: Annotated[PipelineStatus | None, Query(description="Only pipelines in this state.")] = None,
    attempt: Annotated[
        str | None, Query(max_length=64, description="Only the pipeline of this attempt.")
    ] = None,
    cursor: Annotated[str | None, Query(max_length=64, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of pipelines on a page.")] = 50,
) -> Response:
    """List pipelines, newest first."""
    query = PipelineQuery(
        uid=None if call.access.is_operator(call.caller) else call.caller.peer.uid,
        status=status,
        attempt_id=attempt,
        before=cursor,
        limit=limit,
    )
    found = await _get_pipelines(call).list(query)
    more = found[-1].id if len(found) == limit else None
    return json_response(
        PipelinePageDocument.model_construct(
            pipelines=[PipelineDocument.from_value(one) for one in found], next_cursor=more
        )
    )


@router.post("/runs", responses=answers.SUBMITTED, openapi_extra=RUN_BODY)
async def run_pipeline(request: Request, call: CallDep, wait_s: WaitS = 0) -> Response:
    """Run an approved pipeline on new data, and compare the data with earlier runs."""
    wanted = await read_model(request, call, PipelineRunBody)
    entry = await _get_entry(call, wanted.name, wanted.version)
    approved = await call.service.get(entry.attempt_id)
    judged = (
        await _load_judged_report(call, approved)
        if approved is not None and is_comparable(approved)
        else None
    )
    last = await _find_last_clean_facts(call, entry)
    async with call.budget.wait_to_parse(call.caller.peer.uid):
        body = await asyncio.to_thread(
            _build_submission, entry, wanted, None if judged is None else judged.facts, last
        )
    async with call.budget.reading(len(body), call.caller.peer.uid):
        submission = await read_submission_body(body, call)
    accepted = await call.service.submit(submission, peer=call.caller.peer)
    return await respond_to_submission(call, accepted.attempt, wait_s, pending=202)


def _build_submission(
    entry: LibraryEntry, wanted: PipelineRunBody, approved: DataFacts | None, last: DataFacts | None
) -> bytes:
    return canonical(build_submission(entry, wanted, build_expected_facts(approved, last, wanted)))


@router.get("/runs", responses=answers.describe_json_responses(PipelineRunPageDocument, "A page of runs"))
async def list_pipeline_runs(
    call: CallDep,
    name: Annotated[str, Query(pattern=NAME, description="Name of the library entry.")],
    version: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Only runs of this version.")
    ] = None,
    cursor: Annotated[str | None, Query(max_length=256, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of runs on a page.")] = 30,
) -> Response:
    """List the caller's runs of an approved pipeline with their row counts, starting with the newest."""
    page = await call.service.list(_build_runs_query(call, name, version, limit=limit, cursor=cursor))
    runs = [to_run_document(attempt, await _load_judged_report(call, attempt)) for attempt in page.attempts]
    return json_response(PipelineRunPageDocument.model_construct(runs=runs, next_cursor=page.next_cursor))


async def _get_entry(call: Call, name: str, version: int | None) -> LibraryEntry:
    """Return an entry of the caller's library, by default its newest version.

    Raises: RequestError ``not_found``, if it doesn't exist; ``invalid``, if it isn't a pipeline.
    """
    own = call.caller.peer.uid
    if version is None:
        history = await call.library.list_versions(own, name)
        version = history[0].version if history else 0
    entry = await call.library.entry(own, name, version)
    if entry is None:
        missing = f"version {version} of {name!r}" if version else repr(name)
        raise RequestError("not_found", f"{missing} doesn't exist in this library")
    if entry.kind != "pipeline":
        raise RequestError(
            "invalid", f"{name}@{version} is of the kind {entry.kind}, not a pipeline", field="name"
        )
    return entry


def _build_runs_query(
    call: Call, name: str, version: int | None, *, limit: int, cursor: str | None = None
) -> AttemptQuery:
    labels = ((NAME_LABEL, name), *(() if version is None else ((VERSION_LABEL, str(version)),)))
    own = call.caller.peer.uid
    return AttemptQuery(kind="pipeline", labels=labels, uid=own, limit=limit, cursor=cursor)


async def _find_last_clean_facts(call: Call, entry: LibraryEntry) -> DataFacts | None:
    """Return the facts of a version's newest recent run without data findings, or None.

    Any attempt can have the labels of a run, so attempts with other steps are skipped.
    """
    async with call.budget.wait_to_parse(call.caller.peer.uid):
        steps = await asyncio.to_thread(get_approved_steps_digest, entry)
    runs = _build_runs_query(call, entry.name, entry.version, limit=MAX_SEARCHED_RUNS)
    # An entry of this name and version may have been removed, with runs of other steps.
    page = await call.service.list(replace(runs, since=entry.approved_at))
    for attempt in page.attempts:
        judged = await _load_judged_report(call, attempt) if is_comparable(attempt) else None
        if judged is not None and judged.is_clean and judged.steps == steps:
            return judged.facts
    return None


async def _load_judged_report(call: Call, attempt: Attempt) -> JudgedReport | None:
    """Return the report of an attempt, or None if the attempt doesn't have a verdict yet."""
    if attempt.state is not State.FINISHED:
        return None
    report, _ = await call.service.documents(attempt)
    return await call.budget.parse_in_turn(report, call.caller.peer.uid, JudgedReport)


@router.get("/{id}", responses=answers.describe_json_responses(PipelineDetailDocument, "The pipeline"))
async def get_pipeline(
    call: CallDep, pipeline_id: Annotated[str, Path(alias="id", description="The pipeline's id.")]
) -> Response:
    """Return one pipeline with its steps, and the result of each step in each attempt."""
    found = await _get_pipelines(call).get(pipeline_id)
    own = found is not None and found.uid == call.caller.peer.uid
    if found is None or not (own or call.access.is_operator(call.caller)):
        raise RequestError("not_found", f"pipeline {pipeline_id[:40]} doesn't exist")
    ids = [attempt.attempt_id for attempt in found.attempts]
    fixes = {attempt_id: await call.chains.get_fix(attempt_id) for attempt_id in ids}
    return json_response(to_pipeline_document(found, fixes))
