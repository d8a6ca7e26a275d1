"""Defines which HTTP status each error code has, and the common format of all errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from assayd.documents import build_error_document, serialize_compact
from assayd.documents.base import message_of
from assayd.errors import AssaydError, EngineError, RequestError, StoreError

STATUS: Mapping[str, int] = {
    "malformed": 400,
    "token.missing": 401,
    "token.refused": 401,
    "token.revoked": 401,
    "token.scope": 403,
    "peer.not_allowed": 403,
    "peer.not_operator": 403,
    "not_found": 404,
    "artifact.missing": 404,
    "attestation.off": 404,
    "method_not_allowed": 405,
    "too_slow": 408,
    "conflict": 409,
    "attempt.finished": 409,
    "attempt.unfinished": 409,
    "batch.cancelled": 409,
    "batch.finished": 409,
    "batch.unfinished": 409,
    "batch.removed": 409,
    "too_large": 413,
    "invalid": 422,
    "kind.unknown": 422,
    "policy.unknown": 422,
    "policy.image": 422,
    "policy.unenforceable": 422,
    "override.wider": 422,
    "webhook.invalid": 422,
    "webhook.not_allowed": 422,
    "repair.provider_unknown": 422,
    "repair.not_failed": 409,
    "repair.running": 409,
    "repair.budget_spent": 409,
    "generation.unsupported": 422,
    "generation.provider": 422,
    "generation.running": 409,
    "generation.finished": 409,
    "library.not_validated": 409,
    "pipeline.no_baseline": 409,
    "library.partly_checked": 409,
    "library.report_only": 409,
    "library.distrusted": 409,
    "policy.busy": 429,
    "policy.elsewhere": 409,
    "repair.hint_unread": 422,
    "repair.finished": 409,
    "repair.no_fallback": 409,
    "workflow.running": 409,
    "workflow.finished": 409,
    "workflow.no_outputs": 409,
    "run.held": 409,
    "broker.accounts": 503,
    "node.alive": 409,
    "run.over": 410,
    "node.idle": 410,
    "run.foreign": 403,
    "ticket.wrong": 403,
    "queue.full": 429,
    "quota.full": 429,
    "quota.disk": 429,
    "quota.library": 429,
    "quota.webhooks": 429,
    "token.failures": 429,
    "doctor.busy": 429,
    "not_ready": 503,
}
"""The HTTP statuses of codes. Other RequestErrors have status 422, other retryable errors 503, and all others
500.
"""
RETRY_AFTER_S_BY_STATUS: Mapping[int, str] = {429: "1", 503: "5"}


def get_http_status(error: AssaydError) -> int:
    """Return the HTTP status for an error, according to its code or, for unlisted codes, its class."""
    if error.code in STATUS:
        return STATUS[error.code]
    if isinstance(error, RequestError):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    return HTTPStatus.SERVICE_UNAVAILABLE if error.retryable else HTTPStatus.INTERNAL_SERVER_ERROR


def build_error_response(error: AssaydError, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return the JSON response for an error, with `Retry-After` if its status is 429 or 503."""
    status = get_http_status(error)
    retry = {"Retry-After": RETRY_AFTER_S_BY_STATUS[status]} if status in RETRY_AFTER_S_BY_STATUS else {}
    return Response(
        serialize_compact(build_error_document(_redact_error(error))),
        status_code=status,
        headers={**(headers or {}), **retry},
        media_type="application/json",
    )


def install_error_handlers(app: FastAPI) -> None:
    """Make an application return all errors, including the framework's, in one format."""
    app.add_exception_handler(AssaydError, _on_assayd_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_parameters)
    app.add_exception_handler(Exception, _on_unexpected)


def _redact_error(error: AssaydError) -> AssaydError:
    """Return an error without engine and disk details, since they may contain paths, images and hosts."""
    if isinstance(error, RequestError) or error.code in STATUS:
        return error
    part = {EngineError: "the container engine", StoreError: "the store"}.get(type(error), "the daemon")
    return RequestError(
        error.code, f"{part} fails; run `assay doctor` for details", retryable=error.retryable
    )


async def _on_assayd_error(_: Request, error: Exception) -> Response:
    if isinstance(error, AssaydError):
        return build_error_response(error)
    raise error


async def _on_http_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    known = {
        404: ("not_found", "there is nothing here"),
        405: ("method_not_allowed", "this path doesn't support the method"),
    }
    code, message = known.get(error.status_code, ("malformed", "the request can't be read"))
    return build_error_response(RequestError(code, message), headers=error.headers)


async def _on_invalid_parameters(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    faults: Sequence[Mapping[str, object]] = error.errors()
    place = faults[0]["loc"]
    field = str(place[1]) if isinstance(place, tuple) and len(place) > 1 else None
    return build_error_response(RequestError("invalid", f"{field}: {message_of(faults[0])}", field=field))


async def _on_unexpected(_: Request, error: Exception) -> Response:
    # The server raises it again after this answer, so that it reaches the log.
    return build_error_response(AssaydError("internal", str(type(error))))
