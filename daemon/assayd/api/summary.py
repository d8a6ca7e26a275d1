"""Routes that summarise many attempts by the counts of their outcomes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import CallDep, json_response
from assayd.documents.attempts import summary_document
from assayd.model.records import Query as AttemptQuery

router = APIRouter(prefix="/v1", tags=["attempts"], responses=answers.ERRORS)


@router.get("/summary", responses=answers.SUMMARY)
async def summarise_attempts(
    call: CallDep,
    *,
    kind: Annotated[str | None, Query(description="Only attempts of this kind.")] = None,
    batch: Annotated[str | None, Query(description="Only attempts of this batch, by its id.")] = None,
    since: Annotated[
        AwareDatetime | None, Query(description="Only attempts created at or after this time.")
    ] = None,
    bucket_s: Annotated[int, Query(ge=1, le=10**9, description="Length of each time span.")] = 3600,
) -> Response:
    """Count finished attempts by verdict, cause, kind, rule and time, and list the slowest ones."""
    query = AttemptQuery(kind=kind, batch_id=batch, since=since, uid=call.visible_uid)
    return json_response(summary_document(await call.service.summary(query, bucket_s), bucket_s))
