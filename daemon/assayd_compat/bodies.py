"""What the interfaces share: reading a body within its cap, and answering in JSON."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from assayd_compat.executor import Executor

BODY_BYTES = 16 * 2**20
"""The cap of a request's body, which is the daemon's own."""

M = TypeVar("M", bound=BaseModel)


class BadRequest(Exception):
    """A request that can't be understood. `field` is a dotted path."""

    def __init__(self, field: str, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.status = status


def executor_of(request: Request) -> Executor:
    """Return what runs programs."""
    found: Executor = request.app.state.executor
    return found


async def read_bytes(request: Request) -> bytes:
    """Read a body. Raises: BadRequest with 413, if it is over the cap."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise BadRequest("body", f"the body is larger than {BODY_BYTES} bytes", 413)
    return bytes(body)


async def read_body(request: Request, model: type[M]) -> M:
    """Read a body as a model. Raises: BadRequest."""
    return parsed(await read_bytes(request), model)


def parsed(body: bytes, model: type[M]) -> M:
    """Return a body as a model. Raises: BadRequest."""
    try:
        return model.model_validate_json(body)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"]))[:200] or "body"
        raise BadRequest(field, str(first["msg"])[:300]) from problem


def answer(document: object, status: int = 200) -> Response:
    """Return a JSON answer."""
    return JSONResponse(document, status)
