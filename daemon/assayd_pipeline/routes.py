"""Defines the routes for stored pipelines, and for runs of approved pipelines on new data."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, cast

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, json_response, read_model
from assayd.api.routes import WaitS, read_submission_body, respond_to_submission
from assayd.documents import canonical
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.model.records import AttemptQuery, LibraryEntry
from assayd_pipeline.documents import (
    PipelineDetailDocument,
    PipelinePageDocument,
    to_pipeline_document,
    to_pipeline_row,
)
from assayd_pipeline.facts import DataFacts
from assayd_pipeline.runs import (
    NAME_LABEL,
    VERSION_LABEL,
    JudgedReport,
    PipelineRunBody,
    PipelineRunPageDocument,
    build_expected_facts,
    build_submission,
    get_approved_steps_digest,
    is_comparable,
    to_run_document,
)
from assayd_pipeline.stored import PipelineQuery, PipelineStatus, PipelineStore

NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
LOOKED_BACK = 20
"""Runs to search for the last one without a finding about its data."""
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
            pipelines=[to_pipeline_row(one) for one in found], next_cursor=more
        )
    )


@router.post("/runs", responses=answers.SUBMITTED, openapi_extra=RUN_BODY)
async def run_pipeline(request: Request, call: CallDep, wait_s: WaitS = 0) -> Response:
    """Run an approved pipeline on new data, and compare the data with earlier runs."""
    wanted = await read_model(request, call, PipelineRunBody)
    entry = await _get_entry(call, wanted.name, wanted.version)
    approved = await call.service.get(entry.attempt_id)
    judged = await _load_judged(call, approved) if approved is not None and is_comparable(approved) else None
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
    runs = [to_run_document(attempt, await _load_judged(call, attempt)) for attempt in page.attempts]
    return json_response(PipelineRunPageDocument.model_construct(runs=runs, next_cursor=page.next_cursor))


async def _get_entry(call: Call, name: str, version: int | None) -> LibraryEntry:
    """Return an entry of the caller's library. Raises: RequestError ``not_found``, ``invalid``."""
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
    """Return the facts of a version's newest recent run without data findings; None if there is none.

    Any attempt can have the labels of a run, so attempts with other steps are skipped.
    """
    async with call.budget.wait_to_parse(call.caller.peer.uid):
        steps = await asyncio.to_thread(get_approved_steps_digest, entry)
    runs = _build_runs_query(call, entry.name, entry.version, limit=LOOKED_BACK)
    # An entry of this name and version may have been removed, with runs of other steps.
    page = await call.service.list(replace(runs, since=entry.approved_at))
    for attempt in page.attempts:
        judged = await _load_judged(call, attempt) if is_comparable(attempt) else None
        if judged is not None and judged.is_clean and judged.steps == steps:
            return judged.facts
    return None


async def _load_judged(call: Call, attempt: Attempt) -> JudgedReport | None:
    """Return the report of an attempt; None if the attempt doesn't have a verdict yet."""
    if attempt.state is not State.FINISHED:
        return None
    report, _ = await call.service.documents(attempt)
    return await call.budget.read_in_turn(report, call.caller.peer.uid, JudgedReport)


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
