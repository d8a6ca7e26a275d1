"""Routes about the daemon itself: kinds, policies, health and metrics, and counts of its attempts."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import AwareDatetime
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import Call, CallDep, build_raw_json_response, json_response, read_body
from assayd.api.events import EventStream, stream_all_events
from assayd.api.middleware import ThrottledStream
from assayd.audit import AuditLog
from assayd.documents import serialize_compact
from assayd.documents.attempts import build_summary_document
from assayd.documents.base import format_optional_time
from assayd.documents.discovery import (
    DaemonDocument,
    ExaminationDocument,
    GarbageDocument,
    KindDocument,
    KindListDocument,
    PolicyCheckDocument,
    PolicyListDocument,
    PolicyProblemDocument,
    ReadinessDocument,
    StatusDocument,
    build_examination_document,
    build_kind_document,
)
from assayd.errors import RequestError
from assayd.kind import Kind
from assayd.kinds.registry import load_command_line
from assayd.metrics import CONTENT_TYPE
from assayd.model.attempt import MAX_RUNS
from assayd.model.records import AttemptQuery
from assayd.ports.service import Service

MAX_POLICY_BYTES = 256 * 2**10
"""The maximum size of a profile that is checked."""

router = APIRouter(responses=answers.ERRORS)


@router.get("/v1/kinds", tags=["discovery"], responses=answers.KIND_LIST_RESPONSES)
async def list_kinds(call: CallDep) -> Response:
    """List the kinds that can be submitted."""
    return build_raw_json_response(call.kept.get("kinds", lambda: _render_kinds(call), changes=False))


@router.get("/v1/kinds/{kind}", tags=["discovery"], responses=answers.KIND)
async def get_kind(call: CallDep, kind: str) -> Response:
    """Describe one kind: the JSON Schema of its payload, its stages and its rules."""
    if kind not in call.service.kinds:
        raise RequestError("not_found", f"unknown kind {kind[:64]!r}")
    validator = call.service.kinds[kind]
    return build_raw_json_response(
        call.kept.get(
            f"kind {kind}", lambda: serialize_compact(_describe_kind(call, validator)), changes=False
        )
    )


@router.get("/v1/policies", tags=["discovery"], responses=answers.POLICY_LIST_RESPONSES)
async def list_policies(call: CallDep) -> Response:
    """List the profiles with their effective values."""
    return build_raw_json_response(call.kept.get("policies", lambda: _render_policies(call.service)))


@router.post(
    "/v1/policies/{name}/check",
    tags=["discovery"],
    responses=answers.POLICY_CHECK_RESPONSES,
    openapi_extra=answers.TOML_BODY,
)
async def check_policy(request: Request, call: CallDep, name: str) -> Response:
    """Check a profile, given as TOML text, as if it were loaded under this name, for operators only."""
    call.require_operator()
    with call.reserve_bytes() as held:
        content = await read_body(request, call, held, max_bytes=MAX_POLICY_BYTES)
        policy, problems = await asyncio.to_thread(call.service.check_policy, name, content)
    told = [PolicyProblemDocument.from_value(problem) for problem in problems]
    document = PolicyCheckDocument.model_construct(
        problems=told, policy=None if policy is None else dict(policy)
    )
    return json_response(document)


@router.get("/v1/policies/{name}", tags=["discovery"], responses=answers.POLICY)
async def get_policy(call: CallDep, name: str) -> Response:
    """Return one profile with its effective values."""
    policies = call.kept.get("policies by name", call.service.policies)
    if name not in policies:
        known = ", ".join(sorted(policies))
        raise RequestError("not_found", f"unknown policy {name[:64]!r}; use one of {known}")
    return json_response(dict(policies[name]))


@router.get("/v1/doctor", tags=["operations"], responses=answers.EXAMINATION_RESPONSES)
async def examine_daemon(request: Request, call: CallDep) -> Response:
    """Examine engine, images, canary, limits and permissions, for operators. Others get the last result.

    Only one examination runs at a time. `age_ms` is the age of the result. Remote callers need the scope
    `metrics` or `operate`.
    """
    state = request.app.state
    call.require_remote_monitor()
    if not call.can_read_health_checks:
        return _build_cached_health_response(state.examined)
    if state.examining:
        # It uses containers without the queue: many at a time would leave none for attempts.
        raise RequestError(
            "doctor.busy", "an examination is already running; try again later", retryable=True
        )
    state.examining = True
    try:
        rows = await call.service.health()
    finally:
        state.examining = False
    document = build_examination_document(rows)
    state.examined = (time.monotonic(), document)
    return json_response(document)


@router.get("/v1/daemon", tags=["operations"], responses=answers.DAEMON)
async def get_daemon(call: CallDep) -> Response:
    """Return the daemon's identity and the location of its state, for operators only."""
    call.require_operator()
    return json_response(DaemonDocument.from_value(call.service.facts()))


def _build_cached_health_response(examined: tuple[float, ExaminationDocument] | None) -> Response:
    """Return the last health check. Raises: RequestError ``peer.not_operator``, if there is none."""
    if examined is None:
        message = "this daemon wasn't examined since its start; an operator can run `assay doctor`"
        raise RequestError("peer.not_operator", message)
    at, document = examined
    age_ms = round((time.monotonic() - at) * 1000)
    return json_response(document.model_copy(update={"age_ms": age_ms}))


@router.get(
    "/v1/events", tags=["operations"], responses=answers.ALL_EVENTS_RESPONSES, response_class=Response
)
async def follow_all_attempts(
    call: CallDep,
    last_event_id: Annotated[str | None, Header(description="Continue after the event with this id.")] = None,
) -> Response:
    """Follow all attempts that the caller may see, as an endless stream of server-sent events."""
    events = call.service.all_events(call.visible_uid, after=last_event_id)
    return EventStream(stream_all_events(events), heartbeat_s=call.limits.heartbeat_s)


@router.get("/v1/audit", tags=["operations"], responses=answers.AUDIT_RESPONSES, response_class=Response)
async def get_audit_log(
    request: Request,
    call: CallDep,
    since: Annotated[AwareDatetime | None, Query(description="Only changes at or after this time.")] = None,
) -> Response:
    """Return the audit log as lines of JSON, with the oldest line first, for operators only."""
    call.require_operator()
    audit: AuditLog | None = request.app.state.audit
    if audit is None:
        raise RequestError("not_found", "this daemon keeps no audit log")
    lines = audit.read(format_optional_time(since) or "")
    return ThrottledStream(iterate_in_threadpool(lines), media_type="application/x-ndjson")


@router.post("/v1/gc", tags=["operations"], responses=answers.GARBAGE_RESPONSES)
async def collect_garbage(
    call: CallDep,
    dry_run: Annotated[bool, Query(description="Report what would be removed, and remove nothing.")] = False,
) -> Response:
    """Remove finished attempts and bundles that exceed the age or number limits, for operators only."""
    call.require_operator()
    swept = await call.service.collect_garbage(dry_run=dry_run)
    return json_response(GarbageDocument.from_value(swept, dry_run=dry_run))


@router.get("/healthz", tags=["operations"], responses=answers.ALIVE_RESPONSES)
async def get_health(call: CallDep) -> Response:
    """Report that the daemon responds to requests."""
    return json_response(StatusDocument.model_construct(status="ok"))


@router.get("/readyz", tags=["operations"], responses=answers.READY)
async def get_readiness(call: CallDep) -> Response:
    """Return whether attempts can be run, and why not."""
    await call.service.require_ready()
    return json_response(ReadinessDocument.model_construct(status="ready", max_runs=MAX_RUNS))


@router.get("/metrics", tags=["operations"], responses=answers.METRICS, response_class=Response)
async def get_metrics(call: CallDep) -> Response:
    """Return the metrics in Prometheus' text format. Remote callers need scope `metrics` or `operate`."""
    call.require_remote_monitor()
    return Response(call.kept.get("metrics", call.service.metrics), media_type=CONTENT_TYPE)


@router.get("/v1/summary", tags=["attempts"], responses=answers.SUMMARY_RESPONSES)
async def summarise_attempts(
    call: CallDep,
    *,
    kind: Annotated[str | None, Query(description="Only attempts of this kind.")] = None,
    batch: Annotated[str | None, Query(description="Only attempts of this batch, by its id.")] = None,
    since: Annotated[
        AwareDatetime | None, Query(description="Only attempts created at or after this time.")
    ] = None,
    bucket_s: Annotated[int, Query(ge=1, le=10**9, description="Length of each time span.")] = 3600,
) -> Response:
    """Count finished attempts by verdict, cause, kind, rule and time, and list the slowest ones."""
    query = AttemptQuery(kind=kind, batch_id=batch, since=since, uid=call.visible_uid)
    return json_response(build_summary_document(await call.service.summary(query, bucket_s), bucket_s))


def _render_kinds(call: Call) -> bytes:
    kinds = [_describe_kind(call, validator) for _, validator in sorted(call.service.kinds.items())]
    return serialize_compact(KindListDocument.model_construct(kinds=kinds))


def _render_policies(service: Service) -> bytes:
    policies = [dict(each) for each in service.policies().values()]
    return serialize_compact(PolicyListDocument.model_construct(policies=policies))


def _describe_kind(call: Call, validator: Kind) -> KindDocument:
    shown = load_command_line(validator.name, (validator.name,))
    return build_kind_document(validator, shown, call.chains.writers)
