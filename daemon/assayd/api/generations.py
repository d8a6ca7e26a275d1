"""What can be asked about generations. Each route: who may see it, one call, one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import LARGE_BODY_BYTES, Call, CallDep, json_response, raw_json, read_body
from assayd.api.events import Documents, EventStream
from assayd.documents import plain, read_json
from assayd.documents.base import written_time
from assayd.documents.generations import (
    ApproveBody,
    GenerationBody,
    GenerationDocument,
    GenerationEventDocument,
    GenerationPageDocument,
    HintBody,
    generation_document,
    library_entry_body,
)
from assayd.documents.misfits import place_of, refuse_misfits
from assayd.documents.repairs import step_document
from assayd.errors import RequestError
from assayd.ports.generations import GenerationRequest, GenerationView

B = TypeVar("B", bound=BaseModel)

router = APIRouter(prefix="/v1/generations", tags=["generations"], responses=answers.ERRORS)

Id = Annotated[str, Path(alias="id", description="The generation's ULID.")]


@router.post("", status_code=202, responses=answers.GENERATION_STARTED, openapi_extra=answers.GENERATION_BODY)
async def start_generation(request: Request, call: CallDep) -> Response:
    """Have a submission written from words, validated, and repaired until it is right or given up."""
    wanted = await read_model(request, call, GenerationBody)
    started = GenerationRequest(**wanted.model_dump())
    view = await call.generations.start(started, call.caller.peer)
    headers = {"Location": f"/v1/generations/{view.generation.id}"}
    return json_response(await _document(call, view), status=202, headers=headers)


@router.get("", responses=answers.GENERATION_LIST)
async def list_generations(
    call: CallDep,
    cursor: Annotated[str | None, Query(max_length=26, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="How many a page has.")] = 20,
) -> Response:
    """List generations, newest first; their contexts are left out."""
    found = await call.generations.list(uid=call.shown_uid, before=cursor, limit=limit)
    more = found[-1].generation.id if len(found) == limit else None
    page = [await _document(call, view, listed=True) for view in found]
    return json_response(GenerationPageDocument.model_construct(generations=page, next_cursor=more))


@router.get("/{id}", responses=answers.GENERATION)
async def get_generation(call: CallDep, generation_id: Id) -> Response:
    """Return one generation with its attempts."""
    return json_response(await _document(call, await call.generation(generation_id)))


@router.get("/{id}/steps/{number}", responses=answers.STEP)
async def get_generation_step(
    call: CallDep,
    generation_id: Id,
    number: Annotated[int, Path(ge=1, le=1000, description="Which of its attempts, from 1.")],
) -> Response:
    """Return the prompt of one attempt and the answer to it, whole."""
    step = await call.generations.step(await call.generation(generation_id), number)
    if step is None:
        raise RequestError("not_found", f"there is no answer {number} in this generation")
    return json_response(step_document(step))


@router.post("/{id}/cancel", status_code=202, responses=answers.GENERATION_CANCELLED)
async def cancel_generation(call: CallDep, generation_id: Id) -> Response:
    """End a generation, and what it has under way."""
    view = await call.generation(generation_id)
    await call.generations.cancel(view)
    return json_response(await _document(call, view), status=202)


@router.post(
    "/{id}/hint", status_code=202, responses=answers.GENERATION_CANCELLED, openapi_extra=answers.HINT_BODY
)
async def hint_generation(request: Request, call: CallDep, generation_id: Id) -> Response:
    """Go on with a finished generation: with a person's hint, and a full budget."""
    view = await call.generation(generation_id)
    wanted = await read_model(request, call, HintBody)
    attempt = await call.attempt(wanted.attempt_id) if wanted.attempt_id is not None else None
    whose = view.generation.uid, view.generation.kind
    if attempt is not None and (attempt.peer.uid, attempt.kind) != whose:
        message = "the attempt is of another user or another kind than the generation"
        raise RequestError("invalid", message, field="attempt_id")
    view = await call.generations.hint(view, wanted.hint, call.caller.peer.uid, attempt=attempt)
    return json_response(await _document(call, view), status=202)


@router.post("/{id}/approve", responses=answers.APPROVED, openapi_extra=answers.APPROVE_BODY)
async def approve_generation(request: Request, call: CallDep, generation_id: Id) -> Response:
    """Put what a generation came to into the library, under a name."""
    view = await call.generation(generation_id)
    wanted = await read_model(request, call, ApproveBody)
    if view.generation.attempt_id is None or view.generation.outcome is None:
        raise RequestError("library.not_validated", "the generation has nothing that is validated")
    attempt = await call.attempt(view.generation.attempt_id)
    entry = await call.library.approve(attempt, wanted.name, call.caller.peer.uid)
    return raw_json(library_entry_body(entry))


@router.get("/{id}/events", responses=answers.GENERATION_EVENTS, response_class=Response)
async def follow_generation(call: CallDep, generation_id: Id) -> Response:
    """Follow a generation as server-sent events; the last is `finished`."""
    view = await call.generation(generation_id)
    return EventStream(_told(call, view.generation.id), heartbeat_s=call.limits.heartbeat_s)


async def read_model(request: Request, call: Call, model: type[B]) -> B:
    """Read a body as a model. Raises: RequestError, as for submissions."""
    with call.holding() as held:
        body = await read_body(request, call, held, max_bytes=call.limits.body_bytes)
        async with call.budget.reading(len(body)):
            if len(body) > LARGE_BODY_BYTES:
                async with call.budget.parsing(call.caller.peer.uid):
                    return await asyncio.to_thread(_read_model, body, model)
            return _read_model(body, model)


def _read_model(body: bytes, model: type[B]) -> B:
    raw = read_json(body) if body else {}
    refuse_misfits(model, raw)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = place_of(first["loc"]) or None
        raise RequestError("invalid", f"{field or 'the body'}: {first['msg']}", field=field) from error


async def _document(call: Call, view: GenerationView, *, listed: bool = False) -> GenerationDocument:
    ran = [draft.attempt_id for draft in view.generation.drafts if draft.attempt_id is not None]
    ids = [*ran, *([view.generation.attempt_id] if view.generation.attempt_id else [])]
    approved = await call.library.of_attempts(ids) if ids else ()
    ended = view.generation.outcome is not None and not listed
    diffs = await call.generations.diffs(view) if ended else ()
    return generation_document(view, approved, listed=listed, diffs=diffs)


async def _told(call: Call, generation_id: str) -> Documents:
    """Yield an event for each change: stages of an attempt while it runs, an answer while it comes."""
    number, known, staged = 0, (0, 0), set[str]()
    heard, told = "", (-1, -1)
    async with aclosing(call.generations.follow(generation_id)) as views:
        async for view in views:
            number += 1
            if view.heard not in {"", heard} and _counted(view) == told:
                yield _event(number, "answer", _answer(heard, view.heard))
                heard = view.heard
                continue
            heard, told = "", _counted(view)
            kind, known = _kind_of(view, known)
            yield _event(number, kind, plain(await _document(call, view)))
            attempt_id = view.generation.attempt_id
            if view.generation.outcome is None and attempt_id is not None and attempt_id not in staged:
                async for body in _stages(call, attempt_id):
                    staged.add(attempt_id)
                    number += 1
                    yield _event(number, "stage", body)


def _kind_of(view: GenerationView, known: tuple[int, int]) -> tuple[str, tuple[int, int]]:
    """Return what an event is called by what is new: an attempt, a fix, or neither."""
    now = _counted(view)
    if view.generation.outcome is not None:
        return "finished", now
    if now[0] > known[0]:
        return "attempt", now
    return ("fix" if now[1] > known[1] else "state"), now


def _counted(view: GenerationView) -> tuple[int, int]:
    """Return how many drafts and fixes there are."""
    return len(view.generation.drafts), sum(len(repair.fixes) for repair in view.repairs.values())


def _answer(before: str, now: str) -> dict[str, Any]:
    """Return what came of an answer since it was told last; the beginning of one says that it is."""
    anew = not before or not now.startswith(before)
    return {"text": now if anew else now[len(before) :], "anew": anew}


async def _stages(call: Call, attempt_id: str) -> AsyncGenerator[dict[str, Any], None]:
    """Return the stages of an attempt as they end; none while it is not there yet."""
    if await call.service.get(attempt_id) is None:
        return
    async with aclosing(call.service.events(attempt_id)) as events:
        async for event in events:
            if event.kind == "stage":
                yield {"attempt_id": attempt_id, **event.body}


def _event(number: int, kind: str, body: dict[str, Any]) -> GenerationEventDocument:
    at = written_time(datetime.now(UTC))
    return GenerationEventDocument.model_construct(id=str(number), kind=kind, at=at, body=body)
