"""What can be asked about stored pipelines: which there are, and what became of each step of one."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, json_response
from assayd.api.schemas import Described
from assayd.errors import RequestError
from assayd.kinds.pipeline.documents import pipeline_document, pipeline_row
from assayd.kinds.pipeline.stored import PipelineQuery, Pipelines, PipelineStatus


class PipelineRow(Described):
    """A pipeline as a listing has it."""

    id: str = Field(description="Id: that of the attempt that brought it.")
    status: PipelineStatus = Field(description="How it stands by its last attempt.")
    uid: int = Field(description="Whose it is.")
    created_at: str = Field(description="When it was submitted.")
    updated_at: str = Field(description="When an attempt of it was submitted last.")


class PipelinePage(Described):
    """A page of pipelines."""

    pipelines: list[PipelineRow] = Field(description="Newest first.")
    next_cursor: str | None = Field(description="Where the next page begins; null at the end.")


class StoredStep(Described):
    """A step as it is stored."""

    step_id: int = Field(description="Id; stays when the step is repaired.")
    position: int = Field(description="Its place, from 1.")
    name: str = Field(description="Its name.")
    type: Literal["bash", "sql"] = Field(description="What it is.")
    content: str = Field(description="Its text.")


class StepRunRow(Described):
    """One run of one step."""

    step_id: int | None = Field(description="The stored step; null when it is there no more.")
    pipeline_id: str = Field(description="The pipeline.")
    position: int = Field(description="Its place, from 1.")
    name: str = Field(description="Its name then.")
    run_time: str | None = Field(description="When it was started.")
    is_successful: bool = Field(
        description="Whether it ended with exit code 0 and nothing speaks against it."
    )
    stdout: str = Field(description="Standard output, head and tail.")
    stderr: str = Field(description="Standard error, head and tail.")
    exit_code: int | None = Field(description="Exit code; null when it was killed.")
    execution_time_ms: int = Field(description="How long it took.")


class PipelineAttemptRow(Described):
    """One attempt of a pipeline."""

    attempt_id: str = Field(description="The attempt.")
    verdict: str | None = Field(description="Its verdict; null until then.")
    created_at: str = Field(description="When it was accepted.")
    parent_id: str | None = Field(description="The attempt that it follows.")
    steps: list[StepRunRow] = Field(description="The steps that it ran, in order.")


class PipelineDetail(PipelineRow):
    """A pipeline with its steps and attempts."""

    steps: list[StoredStep] = Field(description="Its steps, in order.")
    attempts: list[PipelineAttemptRow] = Field(description="Its attempts, newest first.")


def _answer(model: type[Described], description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "description": description}}


def _pipelines(call: Call) -> Pipelines:
    return cast("Pipelines", call.service.records["pipeline"])


router = APIRouter(prefix="/v1/pipelines", tags=["pipelines"], responses=answers.ERRORS)


@router.get("", responses=_answer(PipelinePage, "A page of pipelines"))
async def list_pipelines(
    call: CallDep,
    status: Annotated[PipelineStatus | None, Query(description="Only those that stand so.")] = None,
    attempt: Annotated[str | None, Query(max_length=64, description="Only that of this attempt.")] = None,
    cursor: Annotated[str | None, Query(max_length=64, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="How many a page has.")] = 50,
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
    return json_response({"pipelines": [pipeline_row(one) for one in found], "next_cursor": more})


@router.get("/{id}", responses=_answer(PipelineDetail, "The pipeline"))
async def get_pipeline(
    call: CallDep, pipeline_id: Annotated[str, Path(alias="id", description="The pipeline's id.")]
) -> Response:
    """Return one pipeline: its steps, and what each attempt came to, step by step."""
    found = await _pipelines(call).get(pipeline_id)
    own = found is not None and found.uid == call.caller.peer.uid
    if found is None or not (own or call.access.is_operator(call.caller)):
        raise RequestError("not_found", f"there is no pipeline {pipeline_id[:40]}")
    return json_response(pipeline_document(found))
