"""Routes for batches. Each route checks the caller, calls the service once, and responds."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import CallDep, iter_body_chunks, json_response
from assayd.api.events import EventStream, stream_batch_progress
from assayd.api.middleware import ThrottledStream
from assayd.api.routes import ULID
from assayd.documents import build_batch_document
from assayd.documents.batches import BatchPageDocument, ItemDocument, ItemPageDocument
from assayd.errors import RequestError
from assayd.model.batch import BatchRequest
from assayd.model.hosts import MOST_CHARS

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
MAX_LINE_NUMBER = 2**31 - 1

router = APIRouter(prefix="/v1/batches", tags=["batches"], responses=answers.ERRORS)

Id = Annotated[str, Path(alias="id", description="The batch's ULID, or the caller's name for it.")]


@router.post(
    "", status_code=202, responses=answers.BATCH_RECEIVED_RESPONSES, openapi_extra=answers.BATCH_BODY
)
async def submit_batch(
    request: Request,
    call: CallDep,
    name: Annotated[
        str | None, Query(pattern=NAME, description="Unique among the caller's batches; default: the id.")
    ] = None,
    concurrency: Annotated[
        int | None, Query(ge=1, description="Unfinished attempts of this batch at once.")
    ] = None,
    dedupe: Annotated[
        bool | None, Query(description="Run lines with the same input, policy and image once.")
    ] = None,
    webhook: Annotated[
        str | None,
        Query(
            max_length=MOST_CHARS,
            description="URL to notify at the end; the operator must have listed it.",
        ),
    ] = None,
) -> Response:
    """Submit a batch, one submission per line. Sending the same batch again adds the missing lines."""
    if name is not None and re.fullmatch(ULID, name):
        raise RequestError("invalid", "a name must not look like an id", field="name")
    wanted = BatchRequest(name=name, concurrency=concurrency, dedupe=dedupe, webhook=webhook)
    batch = await call.batches.open(wanted, peer=call.caller.peer)
    pieces = iter_body_chunks(request, silence_s=call.limits.silence_s, total_s=call.limits.batch_body_s)
    received = await call.batches.receive(batch, pieces, sees=call.sees)
    document = build_batch_document(await call.batches.progress(batch.id), received)
    return json_response(document, status=202, headers={"Location": f"/v1/batches/{batch.id}"})


@router.get("", responses=answers.BATCH_PAGE_RESPONSES)
async def list_batches(
    call: CallDep,
    cursor: Annotated[str | None, Query(max_length=256, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of batches on a page.")] = 20,
) -> Response:
    """List batches, the newest first."""
    page = await call.batches.list(uid=call.visible_uid, cursor=cursor, limit=limit)
    batches = [build_batch_document(await call.batches.progress(batch.id)) for batch in page.batches]
    return json_response(BatchPageDocument.model_construct(batches=batches, next_cursor=page.next_cursor))


@router.get("/{id}", responses=answers.BATCH)
async def get_batch(call: CallDep, batch_id: Id) -> Response:
    """Return a batch, with the number of its items by result."""
    batch = await call.batch(batch_id)
    return json_response(build_batch_document(await call.batches.progress(batch.id)))


@router.get("/{id}/items", responses=answers.ITEM_PAGE_RESPONSES)
async def list_batch_items(
    call: CallDep,
    batch_id: Id,
    after: Annotated[int, Query(ge=0, le=MAX_LINE_NUMBER, description="Only lines after this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of items on a page.")] = 100,
) -> Response:
    """List the items of a batch without reports, in line order."""
    batch = await call.batch(batch_id)
    items = await call.batches.items(batch.id, after=after, limit=limit)
    more = items[-1].line if len(items) == limit else None
    return json_response(
        ItemPageDocument.model_construct(
            items=[ItemDocument.from_value(item) for item in items], next_after=more
        )
    )


@router.get("/{id}/results", responses=answers.RESULTS, response_class=Response)
async def get_batch_results(call: CallDep, batch_id: Id) -> Response:
    """Return all items with their attempts and current reports, in line order."""
    batch = await call.batch(batch_id)
    return ThrottledStream(call.batches.results(batch.id), media_type="application/x-ndjson")


@router.get("/{id}/attestation", responses=answers.ATTESTATION, response_class=Response)
async def get_batch_attestation(call: CallDep, batch_id: Id) -> Response:
    """Return a finished batch's signed statement: a DSSE envelope with the verdicts of all items."""
    batch = await call.batch(batch_id)
    return call.build_large_json_response(lambda: call.batches.attestation(batch))


@router.post("/{id}/retry-errors", status_code=202, responses=answers.BATCH_RETRIED_RESPONSES)
async def retry_batch_errors(call: CallDep, batch_id: Id) -> Response:
    """Run the items with the verdict `error` again as new attempts. Malformed lines stay unchanged."""
    batch = await call.batch(batch_id)
    await call.batches.retry_errors(batch)
    return json_response(build_batch_document(await call.batches.progress(batch.id)), status=202)


@router.post("/{id}/cancel", status_code=202, responses=answers.BATCH_CANCELLED_RESPONSES)
async def cancel_batch(call: CallDep, batch_id: Id) -> Response:
    """Cancel a batch: start no more attempts, and end the running ones."""
    batch = await call.batch(batch_id)
    await call.batches.cancel(batch)
    return json_response(build_batch_document(await call.batches.progress(batch.id)), status=202)


@router.get("/{id}/events", responses=answers.BATCH_EVENTS_RESPONSES, response_class=Response)
async def follow_batch(
    call: CallDep,
    batch_id: Id,
    last_event_id: Annotated[
        str | None, Header(description="Accepted and ignored: every event has the full state.")
    ] = None,
) -> Response:
    """Stream a batch's progress as server-sent events until the event `finished`."""
    batch = await call.batch(batch_id)
    told = stream_batch_progress(call.batches.follow(batch.id))
    return EventStream(told, heartbeat_s=call.limits.heartbeat_s)
