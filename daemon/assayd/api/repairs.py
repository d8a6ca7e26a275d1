"""What can be asked about repairs. Each route: who may see it, one call, one answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, json_response, read_body
from assayd.api.events import Documents, EventStream
from assayd.documents import read_json, repair_document
from assayd.documents.misfits import place_of, refuse_misfits
from assayd.documents.repairs import (
    RepairBody,
    RepairDocument,
    RepairPageDocument,
    repair_event_document,
    step_document,
)
from assayd.errors import RequestError
from assayd.model.repair import Repair
from assayd.ports.repairs import RepairTerms
from assayd.store.recorder import Naming

MAX_BODY_BYTES = 2**21

router = APIRouter(prefix="/v1", tags=["repairs"], responses=answers.ERRORS)

Id = Annotated[str, Path(alias="id", description="The repair's ULID.")]
AttemptId = Annotated[str, Path(alias="id", description="The attempt's ULID.")]


@router.post(
    "/attempts/{id}/repair",
    status_code=202,
    responses=answers.REPAIR_STARTED,
    openapi_extra=answers.REPAIR_BODY,
)
async def start_repair(request: Request, call: CallDep, attempt_id: AttemptId) -> Response:
    """Repair an attempt that failed: with a provider, with a hint, with one's own code, or afresh."""
    attempt = await call.attempt(attempt_id)
    with call.holding() as held:
        body = await read_body(request, call, held, max_bytes=MAX_BODY_BYTES)
    wanted = _read(body)
    request_of = RepairTerms(**wanted.model_dump(), uid=call.caller.peer.uid)
    repair = await call.repairs.start(attempt, request_of)
    headers = {"Location": f"/v1/repairs/{repair.id}"}
    return json_response(await _document(call, repair), status=202, headers=headers)


@router.get("/attempts/{id}/repairs", responses=answers.REPAIR_LIST)
async def list_repairs_of_attempt(call: CallDep, attempt_id: AttemptId) -> Response:
    """List the repairs that an attempt began or belongs to."""
    attempt = await call.attempt(attempt_id)
    found = await call.repairs.of_attempt(attempt.id)
    return await _page(call, found, None)


@router.get("/repairs", responses=answers.REPAIR_LIST)
async def list_repairs(
    call: CallDep,
    cursor: Annotated[str | None, Query(max_length=26, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="How many repairs a page has.")] = 20,
) -> Response:
    """List repairs, newest first."""
    found = await call.repairs.list(uid=call.shown_uid, before=cursor, limit=limit)
    more = found[-1].id if len(found) == limit else None
    return await _page(call, found, more)


@router.get("/repairs/{id}", responses=answers.REPAIR)
async def get_repair(call: CallDep, repair_id: Id) -> Response:
    """Return one repair with its fixes."""
    repair = await call.repair(repair_id)
    return json_response(await _document(call, repair, await call.repairs.diffs(repair)))


@router.post("/repairs/{id}/cancel", status_code=202, responses=answers.REPAIR_CANCELLED)
async def cancel_repair(call: CallDep, repair_id: Id) -> Response:
    """End a repair, and the attempt that it has under way."""
    repair = await call.repair(repair_id)
    await call.repairs.cancel(repair)
    return json_response(await _document(call, repair), status=202)


@router.post("/repairs/{id}/accept-fallback", responses=answers.FALLBACK_ACCEPTED)
async def accept_fallback(call: CallDep, repair_id: Id) -> Response:
    """Take the rules that a repair offers where no code came about. Taking them again changes nothing."""
    repair = await call.repair(repair_id)
    return json_response(await _document(call, await call.repairs.accept_fallback(repair)))


@router.get("/repairs/{id}/rules", responses=answers.RULES, response_class=Response)
async def get_repair_rules(call: CallDep, repair_id: Id) -> Response:
    """Return the rules that were taken, as YAML."""
    fallback = (await call.repair(repair_id)).fallback or {}
    if fallback.get("accepted_at") is None:
        raise RequestError("not_found", "no rules were taken from this repair; accept-fallback takes them")
    return Response(str(fallback["rules"]), media_type="application/yaml")


@router.get("/repairs/{id}/steps/{number}", responses=answers.STEP)
async def get_repair_step(
    call: CallDep,
    repair_id: Id,
    number: Annotated[int, Path(ge=1, le=1000, description="Number of the fix, from 1.")],
) -> Response:
    """Return the prompt of one fix and the answer to it, whole."""
    step = await call.repairs.step(await call.repair(repair_id), number)
    if step is None:
        message = f"there is no answer {number} of a provider in this repair; a person's code is none"
        raise RequestError("not_found", message)
    return json_response(step_document(step))


@router.get("/repairs/{id}/events", responses=answers.REPAIR_EVENTS, response_class=Response)
async def follow_repair(call: CallDep, repair_id: Id) -> Response:
    """Follow a repair as server-sent events `repair`; each has all of it. The last is `finished`."""
    repair = await call.repair(repair_id)
    told = _told(call.repairs.follow(repair.id), await _record(call, repair))
    return EventStream(told, heartbeat_s=call.limits.heartbeat_s)


async def _told(repairs: AsyncGenerator[Repair, None], record: Mapping[str, str]) -> Documents:
    number = 0
    async with aclosing(repairs):
        async for repair in repairs:
            number += 1
            yield repair_event_document(number, repair, record)


async def _record(call: Call, repair: Repair) -> Mapping[str, str]:
    """Return what the repair's kind keeps it under."""
    records = call.service.records.get(repair.kind)
    return await records.belongs_to(repair.attempt_id) if isinstance(records, Naming) else {}


async def _document(call: Call, repair: Repair, diffs: Sequence[str | None] = ()) -> RepairDocument:
    return repair_document(repair, diffs, await _record(call, repair))


async def _page(call: Call, repairs: Sequence[Repair], next_cursor: str | None) -> Response:
    found = [await _document(call, repair) for repair in repairs]
    return json_response(RepairPageDocument.model_construct(repairs=found, next_cursor=next_cursor))


def _read(body: bytes) -> RepairBody:
    raw = read_json(body) if body else {}
    refuse_misfits(RepairBody, raw)
    try:
        return RepairBody.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = place_of(first["loc"]) or None
        raise RequestError("invalid", f"{field or 'the body'}: {first['msg']}", field=field) from error
