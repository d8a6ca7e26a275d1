"""Defines the HTTP routes of repairs and generations, which check the caller and make one call each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.answers import Responses, describe_event_stream, describe_json_response, describe_request_body
from assayd.api.call import Call, CallDep, build_raw_json_response, json_response, read_model
from assayd.api.events import Documents, EventStream
from assayd.documents import to_plain
from assayd.documents.base import ErrorDocument
from assayd.documents.chains import (
    AnswersDocument,
    GenerationBody,
    GenerationDocument,
    GenerationPageDocument,
    HintBody,
    RepairBody,
    RepairDocument,
    RepairPageDocument,
    StepDocument,
)
from assayd.documents.library import ApproveBody, serialize_library_entry
from assayd.errors import RequestError
from assayd.store.recorder import GroupFinder
from assayd_chains.answer_counts import get_first_week_start
from assayd_chains.chains import Chains
from assayd_chains.documents import (
    to_answers_document,
    to_generation_document,
    to_generation_event,
    to_repair_document,
    to_repair_event,
    to_step_document,
)
from assayd_chains.model import Chain, ChainView, GenerationTerms, Repair, RepairTerms

MAX_REPAIR_BODY_BYTES = 2**21


def _get_chains(request: Request) -> Chains:
    chains: Chains = request.app.state.chains
    return chains


ChainsDep = Annotated[Chains, Depends(_get_chains)]
AttemptId = Annotated[str, Path(alias="id", description="The attempt's ULID.")]
RepairId = Annotated[str, Path(alias="id", description="The repair's ULID.")]
GenerationId = Annotated[str, Path(alias="id", description="The generation's ULID.")]
Cursor = Annotated[str | None, Query(max_length=26, description="`next_cursor` of a page.")]
Limit = Annotated[int, Query(ge=1, le=100, description="Maximum number of entries on a page.")]
Number = Annotated[int, Path(ge=1, le=1000, description="Number of the answer, from 1.")]

_LOCATION_HEADER = {
    "headers": {"Location": {"description": "Path of the created object.", "schema": {"type": "string"}}}
}
_REPAIR_RESPONSES: Responses = {200: describe_json_response(RepairDocument, "The repair")}
_REPAIR_STARTED_RESPONSES: Responses = {
    202: {**describe_json_response(RepairDocument, "The repair started"), **_LOCATION_HEADER},
    409: describe_json_response(ErrorDocument, "The attempt didn't fail, or a repair of it is still running"),
}
_REPAIR_LIST_RESPONSES: Responses = {200: describe_json_response(RepairPageDocument, "Repairs")}
_REPAIR_CANCELLED_RESPONSES: Responses = {
    202: describe_json_response(RepairDocument, "The repair is being cancelled"),
    409: describe_json_response(ErrorDocument, "The repair has ended"),
}
_REPAIR_EVENTS = describe_event_stream("Events `repair`, each with the current repair, and `finished`")
_REPAIR_BODY: dict[str, Any] = {
    "requestBody": {**describe_request_body(RepairBody)["requestBody"], "required": False}
}
_FALLBACK_ACCEPTED_RESPONSES: Responses = {
    200: describe_json_response(RepairDocument, "The repair, with the time at which its rules were accepted"),
    409: describe_json_response(ErrorDocument, "The repair offers no rules"),
}
_RULES_RESPONSES: Responses = {200: answers.describe_raw_response("application/yaml", "The rules")}
_ANSWERS_RESPONSES: Responses = {200: describe_json_response(AnswersDocument, "Counts of answers")}
_STEP_RESPONSES: Responses = {200: describe_json_response(StepDocument, "Prompt and answer")}
_GENERATION_RESPONSES: Responses = {200: describe_json_response(GenerationDocument, "The generation")}
_GENERATION_STARTED_RESPONSES: Responses = {
    202: {**describe_json_response(GenerationDocument, "The generation started"), **_LOCATION_HEADER},
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    413: describe_json_response(ErrorDocument, "Body too large"),
    429: describe_json_response(ErrorDocument, "Too many of this user's generations are running"),
}
_GENERATION_LIST_RESPONSES: Responses = {200: describe_json_response(GenerationPageDocument, "Generations")}
_GENERATION_CANCELLED_RESPONSES: Responses = {
    202: describe_json_response(GenerationDocument, "The generation is being cancelled, or continues"),
    409: describe_json_response(ErrorDocument, "The generation has ended, or is still running"),
}
_GENERATION_EVENTS = describe_event_stream(
    "Events `state`, `attempt`, `fix` and `finished`, each with the whole generation, `stage` and `answer`"
)

repairs = APIRouter(prefix="/v1", tags=["repairs"], responses=answers.ERRORS)
generations = APIRouter(prefix="/v1/generations", tags=["generations"], responses=answers.ERRORS)
answered = APIRouter(prefix="/v1", tags=["repairs"], responses=answers.ERRORS)
ROUTERS = (repairs, generations, answered)


@repairs.post(
    "/attempts/{id}/repair", status_code=202, responses=_REPAIR_STARTED_RESPONSES, openapi_extra=_REPAIR_BODY
)
async def start_repair(request: Request, call: CallDep, chains: ChainsDep, attempt_id: AttemptId) -> Response:
    """Repair a failed attempt: with a provider, with a hint, with one's own code, or from the beginning."""
    attempt = await call.attempt(attempt_id)
    wanted = await read_model(request, call, RepairBody, max_bytes=MAX_REPAIR_BODY_BYTES)
    repair = await chains.repair(attempt, RepairTerms(**wanted.model_dump(), uid=call.caller.peer.uid))
    headers = {"Location": f"/v1/repairs/{repair.id}"}
    return json_response(await _build_repair_document(call, repair), status=202, headers=headers)


@repairs.get("/attempts/{id}/repairs", responses=_REPAIR_LIST_RESPONSES)
async def list_repairs_of_attempt(call: CallDep, chains: ChainsDep, attempt_id: AttemptId) -> Response:
    """List the repairs that began with an attempt or contain it."""
    attempt = await call.attempt(attempt_id)
    return await _build_repair_page(call, await chains.repairs_of(attempt.id), None)


@repairs.get("/repairs", responses=_REPAIR_LIST_RESPONSES)
async def list_repairs(
    call: CallDep, chains: ChainsDep, cursor: Cursor = None, limit: Limit = 20
) -> Response:
    """List repairs, newest first."""
    found = await chains.list_repairs(uid=call.visible_uid, before=cursor, limit=limit)
    return await _build_repair_page(call, found, found[-1].id if len(found) == limit else None)


@repairs.get("/repairs/{id}", responses=_REPAIR_RESPONSES)
async def get_repair(call: CallDep, chains: ChainsDep, repair_id: RepairId) -> Response:
    """Return one repair with its fixes."""
    repair = await _get_visible_repair(call, chains, repair_id)
    return json_response(await _build_repair_document(call, repair, await chains.list_repair_diffs(repair)))


@repairs.post("/repairs/{id}/cancel", status_code=202, responses=_REPAIR_CANCELLED_RESPONSES)
async def cancel_repair(call: CallDep, chains: ChainsDep, repair_id: RepairId) -> Response:
    """Cancel a repair and its running attempt."""
    repair = await _get_visible_repair(call, chains, repair_id)
    await chains.cancel_repair(repair)
    return json_response(await _build_repair_document(call, repair), status=202)


@repairs.post("/repairs/{id}/accept-fallback", responses=_FALLBACK_ACCEPTED_RESPONSES)
async def accept_fallback(call: CallDep, chains: ChainsDep, repair_id: RepairId) -> Response:
    """Accept and submit the rules that a repair offers instead of code.

    Repeating the request changes nothing.
    """
    repair = await _get_visible_repair(call, chains, repair_id)
    return json_response(await _build_repair_document(call, await chains.accept_fallback(repair)))


@repairs.get("/repairs/{id}/rules", responses=_RULES_RESPONSES, response_class=Response)
async def get_repair_rules(call: CallDep, chains: ChainsDep, repair_id: RepairId) -> Response:
    """Return the accepted rules as YAML."""
    fallback = (await _get_visible_repair(call, chains, repair_id)).fallback or {}
    if fallback.get("accepted_at") is None:
        raise RequestError(
            "not_found", "this repair's rules aren't accepted yet; POST to accept-fallback first"
        )
    return Response(str(fallback["rules"]), media_type="application/yaml")


@repairs.get("/repairs/{id}/steps/{number}", responses=_STEP_RESPONSES)
async def get_repair_step(call: CallDep, chains: ChainsDep, repair_id: RepairId, number: Number) -> Response:
    """Return the prompt of one fix and its raw answer."""
    step = await chains.get_repair_step(await _get_visible_repair(call, chains, repair_id), number)
    if step is None:
        message = f"this repair has no provider answer {number} (edited code has no prompt)"
        raise RequestError("not_found", message)
    return json_response(to_step_document(step))


@repairs.get("/repairs/{id}/events", responses=_REPAIR_EVENTS, response_class=Response)
async def follow_repair(call: CallDep, chains: ChainsDep, repair_id: RepairId) -> Response:
    """Follow a repair as server-sent events `repair`, each with the whole repair.

    The last event is `finished`.
    """
    repair = await _get_visible_repair(call, chains, repair_id)
    changes = _stream_repair_changes(
        chains.follow(repair.chain_id), repair.id, await _fetch_record_ids(call, repair)
    )
    return EventStream(changes, heartbeat_s=call.limits.heartbeat_s)


async def _stream_repair_changes(
    views: AsyncGenerator[ChainView, None], repair_id: str, record: Mapping[str, str]
) -> Documents:
    """Yield an event for each change of a repair until the repair ends."""
    number, shown = 0, None
    async with aclosing(views):
        async for view in views:
            repair = next((one for one in view.chain.repairs if one.id == repair_id), None)
            if repair is None or repair == shown:
                continue
            number, shown = number + 1, repair
            yield to_repair_event(number, repair, record)
            if repair.outcome is not None:  # a generation can continue with a hint
                return


@answered.get("/answers", responses=_ANSWERS_RESPONSES)
async def count_answers(
    call: CallDep,
    chains: ChainsDep,
    *,
    weeks: Annotated[int, Query(ge=1, le=53, description="This week and how many before it, in all.")] = 8,
    kind: Annotated[str | None, Query(max_length=64, description="Only answers of this kind.")] = None,
) -> Response:
    """Count providers' answers and their results by kind, provider and week; all users' for operators."""
    since = get_first_week_start(datetime.now(UTC), weeks)
    counts = await chains.count_answers(uid=call.visible_uid, since=since, kind=kind)
    return json_response(to_answers_document(counts, since))


@generations.post(
    "",
    status_code=202,
    responses=_GENERATION_STARTED_RESPONSES,
    openapi_extra=describe_request_body(GenerationBody),
)
async def start_generation(request: Request, call: CallDep, chains: ChainsDep) -> Response:
    """Generate a submission from a natural-language request, validate it, and repair failures."""
    wanted = await read_model(request, call, GenerationBody)
    chain = await chains.start_generation(GenerationTerms(**wanted.model_dump()), call.caller.peer)
    headers = {"Location": f"/v1/generations/{chain.id}"}
    return json_response(await _build_generation_document(call, chains, chain), status=202, headers=headers)


@generations.get("", responses=_GENERATION_LIST_RESPONSES)
async def list_generations(
    call: CallDep, chains: ChainsDep, cursor: Cursor = None, limit: Limit = 20
) -> Response:
    """List generations without contexts, newest first."""
    found = await chains.list_generations(uid=call.visible_uid, before=cursor, limit=limit)
    more = found[-1].id if len(found) == limit else None
    page = [await _build_generation_document(call, chains, chain, listed=True) for chain in found]
    return json_response(GenerationPageDocument.model_construct(generations=page, next_cursor=more))


@generations.get("/{id}", responses=_GENERATION_RESPONSES)
async def get_generation(call: CallDep, chains: ChainsDep, generation_id: GenerationId) -> Response:
    """Return one generation with its attempts."""
    chain = await _get_visible_generation(call, chains, generation_id)
    return json_response(await _build_generation_document(call, chains, chain))


@generations.get("/{id}/steps/{number}", responses=_STEP_RESPONSES)
async def get_generation_step(
    call: CallDep, chains: ChainsDep, generation_id: GenerationId, number: Number
) -> Response:
    """Return the prompt of one attempt and its raw answer."""
    step = await chains.step(await _get_visible_generation(call, chains, generation_id), number)
    if step is None:
        raise RequestError("not_found", f"this generation has no answer {number}")
    return json_response(to_step_document(step))


@generations.post("/{id}/cancel", status_code=202, responses=_GENERATION_CANCELLED_RESPONSES)
async def cancel_generation(call: CallDep, chains: ChainsDep, generation_id: GenerationId) -> Response:
    """Cancel a generation and its running attempt."""
    chain = await _get_visible_generation(call, chains, generation_id)
    await chains.cancel(chain)
    return json_response(await _build_generation_document(call, chains, chain), status=202)


@generations.post(
    "/{id}/hint",
    status_code=202,
    responses=_GENERATION_CANCELLED_RESPONSES,
    openapi_extra=describe_request_body(HintBody),
)
async def hint_generation(
    request: Request, call: CallDep, chains: ChainsDep, generation_id: GenerationId
) -> Response:
    """Continue a finished generation with a user's hint and a full budget."""
    chain = await _get_visible_generation(call, chains, generation_id)
    wanted = await read_model(request, call, HintBody)
    attempt = await call.attempt(wanted.attempt_id) if wanted.attempt_id is not None else None
    if attempt is not None and (attempt.peer.uid, attempt.kind) != (chain.uid, chain.kind):
        message = "the attempt's user or kind differs from the generation's"
        raise RequestError("invalid", message, field="attempt_id")
    chain = await chains.hint(chain, wanted.hint, call.caller.peer.uid, attempt=attempt)
    return json_response(await _build_generation_document(call, chains, chain), status=202)


@generations.post(
    "/{id}/approve", responses=answers.APPROVED, openapi_extra=describe_request_body(ApproveBody)
)
async def approve_generation(
    request: Request, call: CallDep, chains: ChainsDep, generation_id: GenerationId
) -> Response:
    """Add the result of a generation to the library under a name."""
    chain = await _get_visible_generation(call, chains, generation_id)
    wanted = await read_model(request, call, ApproveBody)
    if chain.last_attempt_id is None or chain.outcome is None:
        raise RequestError("library.not_validated", "the generation has no validated attempt")
    attempt = await call.attempt(chain.last_attempt_id)
    entry = await call.library.approve(attempt, wanted.name, call.caller.peer.uid)
    return build_raw_json_response(serialize_library_entry(entry))


@generations.get("/{id}/events", responses=_GENERATION_EVENTS, response_class=Response)
async def follow_generation(call: CallDep, chains: ChainsDep, generation_id: GenerationId) -> Response:
    """Follow a generation as server-sent events; the last is `finished`."""
    chain = await _get_visible_generation(call, chains, generation_id)
    changes = _stream_generation_changes(call, chains, chain.id)
    return EventStream(changes, heartbeat_s=call.limits.heartbeat_s)


async def _stream_generation_changes(call: Call, chains: Chains, chain_id: str) -> Documents:
    """Yield an event for each change, each stage of an attempt, and each piece of a streamed answer."""
    number, known, staged = 0, (0, 0), set[str]()
    heard, shown = "", (-1, -1)
    async with aclosing(chains.follow(chain_id)) as views:
        async for view in views:
            number += 1
            counted = _count_answers(view.chain)
            if view.heard not in {"", heard} and counted == shown:
                yield to_generation_event(number, "answer", _build_answer_progress(heard, view.heard))
                heard = view.heard
                continue
            heard, shown = "", counted
            kind, known = _choose_event_kind(view.chain, counted, known), counted
            yield to_generation_event(
                number, kind, to_plain(await _build_generation_document(call, chains, view.chain))
            )
            attempt_id = view.chain.last_attempt_id
            if view.chain.outcome is None and attempt_id is not None and attempt_id not in staged:
                async for body in _follow_stages(call, attempt_id):
                    staged.add(attempt_id)
                    number += 1
                    yield to_generation_event(number, "stage", body)


def _choose_event_kind(chain: Chain, counted: tuple[int, int], known: tuple[int, int]) -> str:
    """Return the name of the event for a change: `finished`, `attempt`, `fix` or `state`."""
    if chain.outcome is not None:
        return "finished"
    if counted[0] > known[0]:
        return "attempt"
    return "fix" if counted[1] > known[1] else "state"


def _count_answers(chain: Chain) -> tuple[int, int]:
    """Return the number of drafts and the number of fixes in a chain."""
    return len(chain.drafts), sum(len(each.fixes) for each in chain.rounds)


def _build_answer_progress(before: str, now: str) -> dict[str, Any]:
    """Return the answer text received since the last event. If a new answer began, return all of its text."""
    anew = not before or not now.startswith(before)
    return {"text": now if anew else now[len(before) :], "anew": anew}


async def _follow_stages(call: Call, attempt_id: str) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the stages of an attempt as they end, or nothing if the attempt isn't submitted yet."""
    if await call.service.get(attempt_id) is None:
        return
    async with aclosing(call.service.events(attempt_id)) as found:
        async for event in found:
            if event.kind == "stage":
                yield {"attempt_id": attempt_id, **event.body}


async def _get_visible_repair(call: Call, chains: Chains, repair_id: str) -> Repair:
    """Return a repair that the caller is allowed to see.

    Raises: RequestError ``not_found``, also for another user's repair.
    """
    repair = await chains.get_repair(repair_id)
    if repair is None or call.visible_uid not in {None, repair.uid}:
        raise RequestError("not_found", f"repair {repair_id[:40]} doesn't exist")
    return repair


async def _get_visible_generation(call: Call, chains: Chains, generation_id: str) -> Chain:
    """Return a generation that the caller is allowed to see.

    Raises: RequestError ``not_found``, also for another user's generation.
    """
    chain = await chains.get_generation(generation_id)
    if chain is None or call.visible_uid not in {None, chain.uid}:
        raise RequestError("not_found", f"generation {generation_id[:40]} doesn't exist")
    return chain


async def _fetch_record_ids(call: Call, repair: Repair) -> Mapping[str, str]:
    """Return the ids of the records that the repair's kind stores, by field name."""
    records = call.service.records.get(repair.kind)
    return await records.find_groups(repair.attempt_id) if isinstance(records, GroupFinder) else {}


async def _build_repair_document(
    call: Call, repair: Repair, diffs: Sequence[str | None] = ()
) -> RepairDocument:
    return to_repair_document(repair, diffs, await _fetch_record_ids(call, repair))


async def _build_repair_page(call: Call, found: Sequence[Repair], next_cursor: str | None) -> Response:
    page = [await _build_repair_document(call, repair) for repair in found]
    return json_response(RepairPageDocument.model_construct(repairs=page, next_cursor=next_cursor))


async def _build_generation_document(
    call: Call, chains: Chains, chain: Chain, *, listed: bool = False
) -> GenerationDocument:
    ran = [draft.attempt_id for draft in chain.drafts if draft.attempt_id is not None]
    ids = [*ran, *([chain.last_attempt_id] if chain.last_attempt_id else [])]
    approved = await call.library.list_entries_of_attempts(ids) if ids else ()
    diffs = await chains.list_diffs(chain) if chain.outcome is not None and not listed else ()
    return to_generation_document(chain, approved, listed=listed, diffs=diffs)
