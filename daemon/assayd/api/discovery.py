"""What can be asked about the daemon itself: kinds, policies, health, metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import CallDep, json_response
from assayd.api.events import EventStream, of_all
from assayd.errors import RequestError
from assayd.metrics import CONTENT_TYPE
from assayd.ports.validator import Validator

router = APIRouter(responses=answers.ERRORS)


@router.get("/v1/kinds", tags=["discovery"], responses=answers.KIND_LIST)
async def list_kinds(call: CallDep) -> Response:
    """List the kinds that can be submitted."""
    kinds = [describe_kind(validator) for _, validator in sorted(call.service.kinds.items())]
    return json_response({"kinds": kinds})


@router.get("/v1/kinds/{kind}", tags=["discovery"], responses=answers.KIND)
async def get_kind(call: CallDep, kind: str) -> Response:
    """Describe one kind: the JSON Schema of its payload, its stages, its rules."""
    if kind not in call.service.kinds:
        raise RequestError("not_found", f"there is no kind {kind[:64]!r}")
    return json_response(describe_kind(call.service.kinds[kind]))


@router.get("/v1/policies", tags=["discovery"], responses=answers.POLICY_LIST)
async def list_policies(call: CallDep) -> Response:
    """List the profiles with their effective values."""
    return json_response({"policies": [dict(policy) for policy in call.service.policies().values()]})


@router.get("/v1/policies/{name}", tags=["discovery"], responses=answers.POLICY)
async def get_policy(call: CallDep, name: str) -> Response:
    """Return one profile with its effective values."""
    policies = call.service.policies()
    if name not in policies:
        known = ", ".join(sorted(policies))
        raise RequestError("not_found", f"there is no policy {name[:64]!r}; known are {known}")
    return json_response(dict(policies[name]))


@router.get("/v1/doctor", tags=["operations"], responses=answers.EXAMINATION)
async def examine(request: Request, call: CallDep) -> Response:
    """Examine engine, images, canary, limits and permissions; one caller at a time."""
    state = request.app.state
    if state.examining:
        # It takes containers, past the queue: many at once would leave none to attempts.
        raise RequestError("doctor.busy", "an examination is under way; try again later", retryable=True)
    state.examining = True
    try:
        rows = await call.service.health()
    finally:
        state.examining = False
    return json_response(
        {
            "checks": [
                {"check": row.check, "status": row.status, "detail": row.detail, "remedy": row.remedy}
                for row in rows
            ]
        }
    )


@router.get("/v1/events", tags=["operations"], responses=answers.ALL_EVENTS)
async def follow_all(
    call: CallDep,
    last_event_id: Annotated[str | None, Header(description="Go on after the event with this id.")] = None,
) -> Response:
    """Follow all attempts that the caller may see, as server-sent events without end."""
    events = call.service.all_events(call.shown_uid, after=last_event_id)
    return EventStream(of_all(events), heartbeat_s=call.limits.heartbeat_s)


@router.post("/v1/gc", tags=["operations"], responses=answers.GARBAGE)
async def collect_garbage(
    call: CallDep,
    dry_run: Annotated[bool, Query(description="Only tell what would be removed.")] = False,
) -> Response:
    """Remove finished attempts and bundles that are too old or too many; for operators."""
    call.require_operator()
    swept = await call.service.collect_garbage(dry_run=dry_run)
    return json_response(
        {
            "dry_run": dry_run,
            "attempts": swept.attempts,
            "bundles": swept.bundles,
            "disk_bytes": swept.disk_bytes,
        }
    )


@router.get("/healthz", tags=["operations"], responses=answers.ALIVE)
async def tell_alive(call: CallDep) -> Response:
    """Tell that the daemon answers."""
    return json_response({"status": "ok"})


@router.get("/readyz", tags=["operations"], responses=answers.READY)
async def tell_ready(call: CallDep) -> Response:
    """Return whether attempts can be run, and why not."""
    await call.service.require_ready()
    return json_response({"status": "ready"})


@router.get("/metrics", tags=["operations"], responses=answers.METRICS)
async def give_metrics(call: CallDep) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(call.service.metrics(), media_type=CONTENT_TYPE)


def describe_kind(validator: Validator) -> dict[str, object]:
    """Describe a kind, for people and programs that prepare submissions."""
    return {
        "kind": validator.kind,
        "default_policy": validator.default_policy,
        "image": validator.image,
        "stages": [*(stage.name for stage in validator.stages), *validator.runtime_stages],
        "payload_schema": validator.payload.model_json_schema(),
        "rules": [
            {"id": rule.id, "title": rule.title, "severity": rule.severity, "help": rule.help}
            for rule in validator.rules
        ],
    }
