"""Routes for stored pipelines: lists, and the results of each step."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, json_response
from assayd.errors import RequestError
from assayd_pipeline.documents import (
    PipelineDetailDocument,
    PipelinePageDocument,
    pipeline_document,
    pipeline_row,
)
from assayd_pipeline.stored import PipelineQuery, Pipelines, PipelineStatus


def _pipelines(call: Call) -> Pipelines:
    return cast("Pipelines", call.service.records["pipeline"])


router = APIRouter(prefix="/v1/pipelines", tags=["pipelines"], responses=answers.ERRORS)


@router.get("", responses=answers.of(PipelinePageDocument, "A page of pipelines"))
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
    found = await _pipelines(call).list(query)
    more = found[-1].id if len(found) == limit else None
    return json_response(
        PipelinePageDocument.model_construct(pipelines=[pipeline_row(one) for one in found], next_cursor=more)
    )


@router.get("/{id}", responses=answers.of(PipelineDetailDocument, "The pipeline"))
async def get_pipeline(
    call: CallDep, pipeline_id: Annotated[str, Path(alias="id", description="The pipeline's id.")]
) -> Response:
    """Return one pipeline: its steps, and what each attempt came to, step by step."""
    found = await _pipelines(call).get(pipeline_id)
    own = found is not None and found.uid == call.caller.peer.uid
    if found is None or not (own or call.access.is_operator(call.caller)):
        raise RequestError("not_found", f"pipeline {pipeline_id[:40]} doesn't exist")
    ids = [attempt.attempt_id for attempt in found.attempts]
    fixes = {attempt_id: await call.chains.fix_of(attempt_id) for attempt_id in ids}
    return json_response(pipeline_document(found, fixes))
