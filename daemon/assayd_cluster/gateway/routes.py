"""Defines the routes for nodes, under ``/v1/nodes/{name}``. Only the node with this name can use them."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import LARGE_BODY_BYTES, Call, CallDep, json_response, read_body
from assayd.byte_budget import GrowingReservation
from assayd.documents import build_error_document, reject_excess_values, serialize_compact, to_plain
from assayd.documents.base import error_path, message_of
from assayd.errors import RequestError
from assayd_cluster.documents import (
    NODE_NAME,
    NODES_VALUES,
    SHA256,
    ULID,
    CancelledRuns,
    Claim,
    ClaimedRun,
    HeartbeatAnswer,
    LiveEvents,
    NodeHeartbeat,
    RunLost,
    RunVerdict,
    VerdictAnswer,
)
from assayd_cluster.gate import require_node_token
from assayd_cluster.gateway.live import RunUpdateRecorder
from assayd_cluster.gateway.metrics import ClusterMetrics
from assayd_cluster.gateway.nodes import NodeTable
from assayd_cluster.gateway.runs import RunHeldElsewhere

router = APIRouter(prefix="/v1/nodes/{name}", tags=["nodes"], responses=answers.ERRORS)

T = TypeVar("T")

SMALL_BYTES = 2**20
EVENTS_BYTES = 8 * 2**20
VERDICT_BYTES = 48 * 2**20
FILE_BYTES = 40 * 2**20
MAX_WAIT_S = 30.0
_BEAT = TypeAdapter(NodeHeartbeat)
_CLAIM = TypeAdapter(Claim)
_EVENTS = TypeAdapter(LiveEvents)
_BROUGHT: TypeAdapter[RunLost | RunVerdict] = TypeAdapter(RunLost | RunVerdict)

Name = Annotated[str, Path(pattern=NODE_NAME, description="The node.")]
AttemptId = Annotated[str, Path(pattern=ULID, description="The attempt.")]
Number = Annotated[int, Path(ge=1, le=2, description="Number of the run.")]
Sha256 = Annotated[str, Path(pattern=SHA256, description="The digest of the content.")]
_OK = {"description": "Done."}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """The services that the routes for nodes use."""

    nodes: NodeTable
    runs: RunUpdateRecorder
    metrics: ClusterMetrics


def _get_node_services(request: Request) -> NodeServices:
    door = request.app.state.node_door
    if not isinstance(door, NodeServices):
        raise TypeError("the application has no node routes")
    return door


def _reserve_bytes(call: Call, name: str) -> AbstractContextManager[GrowingReservation]:
    """Reserve bytes from a node's own budget, because all nodes belong to the same tenant."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    return call.budget.reserve_growing(-1 - number)


async def _read_model(
    request: Request,
    call: Call,
    held: GrowingReservation,
    adapter: TypeAdapter[T],
    max_bytes: int = SMALL_BYTES,
) -> T:
    """Read and parse a body as a model. Raises: RequestError ``invalid``, ``too_large``, ``too_slow``."""
    body = await read_body(request, call, held, max_bytes=max_bytes)
    if len(body) <= LARGE_BODY_BYTES:
        return _parse_model(adapter, body)
    async with call.budget.reading(len(body), call.caller.peer.uid):
        return await asyncio.to_thread(_parse_model, adapter, body)


def _parse_model(adapter: TypeAdapter[T], body: bytes) -> T:
    reject_excess_values(body, most_values=NODES_VALUES)
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = error_path(first["loc"]) or "the body"
        raise RequestError("invalid", f"{field}: {message_of(first)}", field=field) from error


@router.put("", responses={200: {"model": HeartbeatAnswer}})
async def put_node(request: Request, call: CallDep, name: Name) -> Response:
    """Record a node's heartbeat; the response states whether the node should accept work."""
    require_node_token(request, name)
    with _reserve_bytes(call, name) as held:
        beat = await _read_model(request, call, held, _BEAT)
    return json_response(await _get_node_services(request).nodes.beat(name, beat))


@router.post("/runs", responses={200: {"model": ClaimedRun}})
async def claim_run(request: Request, call: CallDep, name: Name) -> Response:
    """Claim the run to which a broker message refers."""
    require_node_token(request, name)
    with _reserve_bytes(call, name) as holding:
        claim = await _read_model(request, call, holding, _CLAIM)
    door = _get_node_services(request)
    try:
        claimed = await door.runs.claim(name, claim)
        door.metrics.claims.labels("granted").inc()
        return json_response(claimed)
    except RunHeldElsewhere as held:
        door.metrics.claims.labels("held").inc()
        refused = to_plain(build_error_document(held))
        refused["error"]["elsewhere"] = held.elsewhere
        return Response(serialize_compact(refused), status_code=409, media_type="application/json")
    except RequestError as refusal:
        outcome = {"run.over": "over", "node.idle": "idle"}.get(refusal.code, "refused")
        door.metrics.claims.labels(outcome).inc()
        raise


@router.get("/cancelled", responses={200: {"model": CancelledRuns}})
async def list_cancelled_runs(
    request: Request,
    call: CallDep,
    name: Name,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S, allow_inf_nan=False)] = 0,
) -> Response:
    """Wait until the node holds attempts that it must end, and return them."""
    require_node_token(request, name)
    found = await _get_node_services(request).runs.wait_for_cancelled(name, wait_s)
    return json_response(CancelledRuns(attempts=list(found)))


@router.post("/runs/{attempt}/{run}/events", status_code=204, responses={204: _OK})
async def put_run_events(
    request: Request, call: CallDep, name: Name, attempt: AttemptId, run: Number
) -> Response:
    """Accept events of a run that is in progress."""
    require_node_token(request, name)
    door = _get_node_services(request)
    await door.runs.require_run_holder(name, attempt, run)
    with _reserve_bytes(call, name) as held:
        brought = await _read_model(request, call, held, _EVENTS, EVENTS_BYTES)
        await door.runs.record_events(name, attempt, run, brought.events)
    return Response(status_code=204)


@router.put("/runs/{attempt}/{run}/files/{sha256}", status_code=204, responses={204: _OK})
async def put_run_file(
    request: Request, call: CallDep, name: Name, attempt: AttemptId, run: Number, sha256: Sha256
) -> Response:
    """Accept a large file of a bundle before the verdict arrives."""
    require_node_token(request, name)
    door = _get_node_services(request)
    await door.runs.require_run_holder(name, attempt, run)
    with _reserve_bytes(call, name) as held:
        content = await read_body(request, call, held, max_bytes=FILE_BYTES)
        if (await asyncio.to_thread(hashlib.sha256, content)).hexdigest() != sha256:
            raise RequestError("invalid", f"the content's digest differs from {sha256}", field="sha256")
        await door.runs.store_file(name, attempt, run, sha256, content)
    return Response(status_code=204)


@router.put("/runs/{attempt}/{run}/verdict", responses={200: {"model": VerdictAnswer}})
async def put_run_verdict(
    request: Request, call: CallDep, name: Name, attempt: AttemptId, run: Number
) -> Response:
    """Accept the verdict of a run, or the report that the run has no verdict."""
    require_node_token(request, name)
    door = _get_node_services(request)
    await door.runs.require_run_holder(name, attempt, run)
    with _reserve_bytes(call, name) as held:
        brought = await _read_model(request, call, held, _BROUGHT, VERDICT_BYTES)
        if isinstance(brought, RunLost):
            await door.runs.record_lost_run(name, attempt, run, brought)
            door.metrics.verdicts.labels("lost").inc()
            return json_response(VerdictAnswer(counted=False))
        counted = await door.runs.record_verdict(name, attempt, run, brought)
        door.metrics.verdicts.labels("counted" if counted else "late").inc()
        return json_response(VerdictAnswer(counted=counted))
