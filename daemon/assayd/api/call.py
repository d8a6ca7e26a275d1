"""What a route gets of a request: who calls, what they may see, and the body under its cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from assayd.api.peer import Access, Caller
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.ports.service import Service
from assayd.wire import MAX_INPUTS_BYTES, MAX_SOURCE_BYTES, attempt_document, compact


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    """How much a request may bring, and how long an event stream may be silent."""

    body_bytes: int = 16 * 2**20
    source_bytes: int = MAX_SOURCE_BYTES
    inputs_bytes: int = MAX_INPUTS_BYTES
    heartbeat_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: the daemon that it is for, and the caller that it comes from."""

    service: Service
    access: Access
    limits: ApiLimits
    caller: Caller

    async def attempt(self, attempt_id: str) -> Attempt:
        """Give an attempt that the caller may see.

        Raises: RequestError ``not_found``, also for one that is somebody else's.
        """
        attempt = await self.service.get(attempt_id)
        if attempt is None or not self.access.sees(self.caller, attempt):
            raise RequestError("not_found", f"there is no attempt {attempt_id[:40]}")
        return attempt

    async def attempt_response(
        self, attempt: Attempt, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Answer with an attempt, and with report and execution once it is finished."""
        report, execution = None, None
        if attempt.state is State.FINISHED:
            report, execution = await self.service.documents(attempt)
        document = attempt_document(attempt, report=report, execution=execution)
        return json_response(document, status=status, headers=headers)


async def get_call(request: Request) -> Call:
    """Collect what the application and the connection know; refuse query parameters nobody asked for."""
    _refuse_unknown_query(request)
    state = request.app.state
    return Call(service=state.service, access=state.access, limits=state.limits, caller=request.state.caller)


CallDep = Annotated[Call, Depends(get_call)]


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Read a body, and no more than may be.

    Raises: RequestError ``too_large``, as soon as it is known.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def json_response(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a document."""
    return Response(compact(document), status_code=status, headers=headers, media_type="application/json")


def _too_large(max_bytes: int) -> RequestError:
    return RequestError("too_large", f"the body is larger than {max_bytes} bytes")


def _refuse_unknown_query(request: Request) -> None:
    given = [name for name, _ in request.query_params.multi_items()]
    if not given:
        return
    known = {field.alias for field in cast("APIRoute", request.scope["route"]).dependant.query_params}
    for name in given:
        if name not in known:
            raise RequestError("invalid", f"there is no query parameter {name[:64]!r}", field=name[:64])
        if name != "label" and given.count(name) > 1:
            raise RequestError("invalid", f"the query parameter {name!r} is given twice", field=name)
