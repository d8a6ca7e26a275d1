"""Code that the interfaces share: limited bodies, callers, disconnections and JSON responses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from assayd.documents.base import reject_excess_values
from assayd.errors import RequestError
from assayd_compat.executor import ProgramExecutor

BODY_BYTES = 16 * 2**20
"""Maximum bytes of a request's body, the daemon's own limit."""
LARGE_BODY_BYTES = 64 * 2**10
BODY_S = 60.0
"""Maximum seconds for receiving a body."""
HELD_BYTES = 128 * 2**20
"""Maximum bytes that requests, returned files and waiting programs hold together."""

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class BadRequest(Exception):
    """An invalid request. `field` is the dotted path of the invalid field."""

    def __init__(self, field: str, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.status = status


class RequestByteBudget:
    """A budget of bytes for all requests. A caller with a token can't hold more bytes than are free."""

    def __init__(self, free: int = HELD_BYTES) -> None:
        self.free = free
        self._held: Counter[str | None] = Counter()

    def reserve(self, size: int, caller: str | None = None) -> None:
        """Reserve bytes. Raises: BadRequest with status 503, if too few bytes are free."""
        own = self._held[caller] if caller is not None else 0
        if size + own > self.free:
            raise BadRequest("error", "the service holds too many requests; try again later", 503)
        self.free -= size
        self._held[caller] += size

    def release(self, size: int, caller: str | None = None) -> None:
        """Return reserved bytes to the budget."""
        self.free += size
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]


class ByteReservation:
    """The bytes reserved by one request."""

    def __init__(self, room: RequestByteBudget, caller: str | None = None) -> None:
        self._room = room
        self._caller = caller
        self._size = 0

    def add(self, size: int) -> None:
        """Reserve bytes until the response is sent.

        Raises: BadRequest with status 503, if too few bytes are free.
        """
        self._room.reserve(size, self._caller)
        self._size += size

    def release(self) -> None:
        """Release all bytes of the request."""
        self._room.release(self._size, self._caller)
        self._size = 0


def get_reservation(request: Request) -> ByteReservation:
    """Return the byte reservation of a request."""
    found: ByteReservation = request.state.held
    return found


def get_executor(request: Request) -> ProgramExecutor:
    """Return the executor that acts for the caller of a request."""
    found: ProgramExecutor = request.app.state.executor
    return found.for_caller(get_token(request))


def get_token(request: Request) -> str | None:
    """Return the token of a request: a bearer token, or the token in Judge0's header.

    Return None if it has none.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return (
        (token.strip() if scheme.lower() == "bearer" else "") or request.headers.get("x-auth-token") or None
    )


async def run_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or cancel `work` if the client disconnects.

    Raises: ClientDisconnect, if the client disconnects; any error of `work`.
    """
    task, gone = asyncio.create_task(work), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def read_bytes(request: Request) -> bytes:
    """Read a body. Raises: BadRequest with status 413 (too large), 408 (too slow) or 503 (no memory)."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                get_reservation(request).add(len(chunk))
                body += chunk
                if len(body) > BODY_BYTES:
                    raise BadRequest("body", f"the body is larger than {BODY_BYTES} bytes", 413)
    except TimeoutError as problem:
        raise BadRequest("body", f"the body took longer than {BODY_S:.0f} s", 408) from problem
    return bytes(body)


async def read_body(request: Request, model: type[M]) -> M:
    """Read a request body and validate it with a model.

    Raises: BadRequest, if the body is invalid or exceeds a limit.
    """
    return await parse_body(await read_bytes(request), model)


async def parse_body(body: bytes, model: type[M]) -> M:
    """Validate a body, using a thread if the body is large. Raises: BadRequest, if the body is invalid."""
    if len(body) > LARGE_BODY_BYTES:
        return await asyncio.to_thread(_parse_body, body, model)
    return _parse_body(body, model)


def _parse_body(body: bytes, model: type[M]) -> M:
    try:
        reject_excess_values(body)
    except RequestError as problem:
        raise BadRequest("body", problem.message, 413) from problem
    try:
        return model.model_validate_json(body)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"]))[:200] or "body"
        raise BadRequest(field, str(first["msg"])[:300]) from problem


def json_response(document: object, status: int = 200) -> Response:
    """Return a document as a JSON response with this status."""
    return JSONResponse(document, status)
