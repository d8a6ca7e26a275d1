"""What can be asked about the library: approve, list, look at the versions of a name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import CallDep, json_response, raw_json
from assayd.api.generations import read_model
from assayd.documents.generations import (
    ApproveBody,
    LibraryPageDocument,
    library_entry_body,
    library_entry_document,
)
from assayd.errors import RequestError

router = APIRouter(prefix="/v1", tags=["library"], responses=answers.ERRORS)

AttemptId = Annotated[str, Path(alias="id", description="The attempt's ULID.")]
Name = Annotated[str, Path(max_length=64, description="The name of an entry.")]


@router.post("/attempts/{id}/approve", responses=answers.APPROVED, openapi_extra=answers.APPROVE_BODY)
async def approve_attempt(request: Request, call: CallDep, attempt_id: AttemptId) -> Response:
    """Put a validated attempt into the library, under a name; the same again changes nothing."""
    attempt = await call.attempt(attempt_id)
    wanted = await read_model(request, call, ApproveBody)
    entry = await call.library.approve(attempt, wanted.name, call.caller.peer.uid)
    return raw_json(library_entry_body(entry))


@router.get("/library", responses=answers.LIBRARY_LIST)
async def list_library(
    call: CallDep,
    cursor: Annotated[str | None, Query(max_length=64, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="How many a page has.")] = 100,
) -> Response:
    """List the caller's library: the newest version of each name."""
    found = await call.library.list(uid=call.caller.peer.uid, after=cursor, limit=limit)
    more = found[-1].name if len(found) == limit else None
    entries = [library_entry_document(entry) for entry in found]
    return json_response(LibraryPageDocument.model_construct(entries=entries, next_cursor=more))


@router.get("/library/{name}", responses=answers.LIBRARY_LIST)
async def get_library_history(call: CallDep, name: Name) -> Response:
    """Return all versions of a name, newest first."""
    found = await call.library.history(call.caller.peer.uid, name)
    if not found:
        raise RequestError("not_found", f"there is nothing called {name[:64]!r} in your library")
    entries = [library_entry_document(entry) for entry in found]
    return json_response(LibraryPageDocument.model_construct(entries=entries, next_cursor=None))


@router.get("/library/{name}/{version}", responses=answers.LIBRARY_ENTRY)
async def get_library_entry(
    call: CallDep,
    name: Name,
    version: Annotated[int, Path(ge=1, le=2**31 - 1, description="The version, from 1.")],
) -> Response:
    """Return one version of a name, with what was submitted."""

    async def make() -> bytes:
        entry = await call.library.entry(call.caller.peer.uid, name, version)
        if entry is None:
            message = f"there is no version {version} of {name[:64]!r} in your library"
            raise RequestError("not_found", message)
        return library_entry_body(entry)

    return call.answer_large(make)
