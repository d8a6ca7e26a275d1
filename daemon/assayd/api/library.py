"""Routes of the library: approve an attempt, list names and versions, read and remove entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, build_raw_json_response, json_response, read_model
from assayd.documents.library import (
    ApproveBody,
    LibraryPageDocument,
    build_library_entry_document,
    serialize_library_entry,
)
from assayd.errors import RequestError
from assayd.model.records import LibraryEntry

router = APIRouter(prefix="/v1", tags=["library"], responses=answers.ERRORS)

AttemptId = Annotated[str, Path(alias="id", description="The attempt's ULID.")]
Name = Annotated[str, Path(max_length=64, description="Name of the entry.")]
Version = Annotated[int, Path(ge=1, le=2**31 - 1, description="The version, from 1.")]
Owner = Annotated[
    int | None,
    Query(
        ge=0,
        le=2**53 - 1,
        description=(
            "User id of the library's owner; others' libraries for operators only. Default: the caller."
        ),
    ),
]


@router.post("/attempts/{id}/approve", responses=answers.APPROVED, openapi_extra=answers.APPROVE_BODY)
async def approve_attempt(request: Request, call: CallDep, attempt_id: AttemptId) -> Response:
    """Add a validated attempt to the library under a name. Repeating the request changes nothing."""
    attempt = await call.attempt(attempt_id)
    wanted = await read_model(request, call, ApproveBody)
    entry = await call.library.approve(attempt, wanted.name, call.caller.peer.uid)
    return build_raw_json_response(serialize_library_entry(entry))


@router.get("/library", responses=answers.LIBRARY_LIST_RESPONSES)
async def list_library(
    call: CallDep,
    cursor: Annotated[str | None, Query(max_length=64, description="`next_cursor` of a page.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of entries on a page.")] = 100,
    uid: Owner = None,
) -> Response:
    """List the names in a user's library, each with its newest version."""
    owner = call.caller.peer.uid if uid is None else call.resolve_listed_uid(uid)
    found = await call.library.list(uid=owner, after=cursor, limit=limit)
    more = found[-1].name if len(found) == limit else None
    return _build_page_response(found, more)


@router.get("/library/{name}", responses=answers.LIBRARY_LIST_RESPONSES)
async def get_library_history(call: CallDep, name: Name, uid: Owner = None) -> Response:
    """Return all versions of a name, the newest first."""
    found = await call.library.list_versions(_resolve_owner(call, uid, name), name)
    if not found:
        raise _build_not_found_error(name)
    return _build_page_response(found)


@router.delete("/library/{name}", responses=answers.LIBRARY_REMOVED_RESPONSES)
async def remove_library_name(call: CallDep, name: Name, uid: Owner = None) -> Response:
    """Remove a name with all of its versions. Only the retention limits remove the attempts."""
    removed = await call.library.remove(_resolve_owner(call, uid, name), name)
    if not removed:
        raise _build_not_found_error(name)
    return _build_page_response(removed)


@router.get("/library/{name}/{version}", responses=answers.LIBRARY_ENTRY_RESPONSES)
async def get_library_entry(call: CallDep, name: Name, version: Version, uid: Owner = None) -> Response:
    """Return one version of a name, with its submission."""
    owner = _resolve_owner(call, uid, name, version)

    async def make() -> bytes:
        entry = await call.library.entry(owner, name, version)
        if entry is None:
            raise _build_not_found_error(name, version)
        return serialize_library_entry(entry)

    return call.build_large_json_response(make)


@router.delete("/library/{name}/{version}", responses=answers.LIBRARY_REMOVED_RESPONSES)
async def remove_library_entry(call: CallDep, name: Name, version: Version, uid: Owner = None) -> Response:
    """Remove one version of a name. Only the retention limits remove its attempt."""
    removed = await call.library.remove(_resolve_owner(call, uid, name, version), name, version)
    if not removed:
        raise _build_not_found_error(name, version)
    return _build_page_response(removed)


def _resolve_owner(call: Call, uid: int | None, name: str, version: int | None = None) -> int:
    """Return the owner of the entries: by default, the caller.

    Raises: RequestError ``not_found``, if another user's entries are requested and the caller isn't an
    operator.
    """
    own = call.caller.peer.uid
    if uid in {None, own}:
        return own
    if uid is None or not call.is_operator:
        raise _build_not_found_error(name, version)
    return uid


def _build_not_found_error(name: str, version: int | None = None) -> RequestError:
    what = "nothing called" if version is None else f"no version {version} of"
    return RequestError("not_found", f"there is {what} {name[:64]!r} in this library")


def _build_page_response(found: Sequence[LibraryEntry], more: str | None = None) -> Response:
    entries = [build_library_entry_document(entry) for entry in found]
    return json_response(LibraryPageDocument.model_construct(entries=entries, next_cursor=more))
