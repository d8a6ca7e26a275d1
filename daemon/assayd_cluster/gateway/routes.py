"""Defines the routes that a gateway has in addition to a daemon's: for nodes, and for operators."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import AwareDatetime, TypeAdapter, ValidationError
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import LARGE_BODY_BYTES, Call, CallDep, json_response, read_body, read_model
from assayd.byte_budget import GrowingReservation
from assayd.documents import build_error_document, reject_excess_values, serialize_compact, to_plain
from assayd.documents.base import format_error_path, message_of
from assayd.documents.cluster import (
    DistrustDocument,
    ForgottenNodeDocument,
    NewTokenDocument,
    NodeDocument,
    NodeListDocument,
    TokenBody,
    TokenDocument,
    TokenListDocument,
)
from assayd.errors import RequestError
from assayd.store.tables import to_micros
from assayd_cluster.documents import (
    MAX_NODE_VALUES,
    NODE_NAME_PATTERN,
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
from assayd_cluster.gateway.broker_accounts import BrokerAccounts
from assayd_cluster.gateway.live import RunUpdateRecorder
from assayd_cluster.gateway.metrics import ClusterMetrics
from assayd_cluster.gateway.runs import RunHeldElsewhere
from assayd_cluster.nodes import DatabaseNodes, NodeTable
from assayd_cluster.tokens import DatabaseTokens, TokenRecord, TokenTerms, TokenVerifier, parse_scopes

router = APIRouter(prefix="/v1/nodes/{name}", tags=["nodes"], responses=answers.ERRORS)

T = TypeVar("T")

SMALL_BYTES = 2**20
MAX_EVENTS_BYTES = 8 * 2**20
MAX_VERDICT_BYTES = 48 * 2**20
FILE_BYTES = 40 * 2**20
MAX_WAIT_S = 30.0
_BEAT_ADAPTER = TypeAdapter(NodeHeartbeat)
_CLAIM_ADAPTER = TypeAdapter(Claim)
_EVENTS_ADAPTER = TypeAdapter(LiveEvents)
_VERDICT_ADAPTER: TypeAdapter[RunLost | RunVerdict] = TypeAdapter(RunLost | RunVerdict)

Name = Annotated[str, Path(pattern=NODE_NAME_PATTERN, description="The node.")]
AttemptId = Annotated[str, Path(pattern=ULID, description="The attempt.")]
Number = Annotated[int, Path(ge=1, le=2, description="Number of the run.")]
Sha256 = Annotated[str, Path(pattern=SHA256, description="The digest of the content.")]
_OK = {"description": "Done."}

operator_router = APIRouter(prefix="/v1", tags=["cluster"], responses=answers.ERRORS)

TokenId = Annotated[str, Path(alias="id", max_length=26, description="The token's id.")]
NodeName = Annotated[str, Path(max_length=64, description="The node's name.")]


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
    reject_excess_values(body, most_values=MAX_NODE_VALUES)
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = format_error_path(first["loc"]) or "the body"
        raise RequestError("invalid", f"{field}: {message_of(first)}", field=field) from error


@router.put("", responses={200: {"model": HeartbeatAnswer}})
async def put_node(request: Request, call: CallDep, name: Name) -> Response:
    """Record a node's heartbeat; the response states whether the node should accept work."""
    require_node_token(request, name)
    with _reserve_bytes(call, name) as held:
        beat = await _read_model(request, call, held, _BEAT_ADAPTER)
    return json_response(await _get_node_services(request).nodes.beat(name, beat))


@router.post("/runs", responses={200: {"model": ClaimedRun}})
async def claim_run(request: Request, call: CallDep, name: Name) -> Response:
    """Claim the run to which a broker message refers."""
    require_node_token(request, name)
    with _reserve_bytes(call, name) as holding:
        claim = await _read_model(request, call, holding, _CLAIM_ADAPTER)
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
        brought = await _read_model(request, call, held, _EVENTS_ADAPTER, MAX_EVENTS_BYTES)
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
        brought = await _read_model(request, call, held, _VERDICT_ADAPTER, MAX_VERDICT_BYTES)
        if isinstance(brought, RunLost):
            await door.runs.record_lost_run(name, attempt, run, brought)
            door.metrics.verdicts.labels("lost").inc()
            return json_response(VerdictAnswer(counted=False))
        counted = await door.runs.record_verdict(name, attempt, run, brought)
        door.metrics.verdicts.labels("counted" if counted else "late").inc()
        return json_response(VerdictAnswer(counted=counted))


def _describe_json_response(model: type[Any], description: str) -> dict[str, Any]:
    return {"model": model, "description": description}


@operator_router.post(
    "/tokens",
    status_code=201,
    responses={201: _describe_json_response(NewTokenDocument, "The token, shown only once.")},
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": TokenBody.model_json_schema()}}}
    },
)
async def create_token(request: Request, call: CallDep) -> Response:
    """Create a token, and if it is for a node, also a broker account; for operators."""
    call.require_operator()
    wanted = await read_model(request, call, TokenBody)
    terms = TokenTerms(
        name=wanted.name, tenant=wanted.tenant, scopes=parse_scopes(wanted.scopes), node=wanted.node
    )
    record, secret = await _get_tokens(request).create(terms)
    try:
        broker_url = await _get_accounts(request).create(record.node, record.id) if record.node else None
    except RequestError:
        await _get_tokens(request).revoke(record.id)
        raise
    document = NewTokenDocument.from_value(
        record, scopes=_sort_scopes(record), token=secret, broker_url=broker_url
    )
    return json_response(document, status=201, headers={"Cache-Control": "no-store"})


@operator_router.get("/tokens", responses={200: _describe_json_response(TokenListDocument, "All tokens.")})
async def list_tokens(request: Request, call: CallDep) -> Response:
    """List all tokens, without their secrets; for operators."""
    call.require_operator()
    found = [_to_token_document(record) for record in await _get_tokens(request).list()]
    return json_response(TokenListDocument.model_construct(tokens=found))


@operator_router.delete(
    "/tokens/{id}", responses={200: _describe_json_response(TokenDocument, "The token, revoked.")}
)
async def revoke_token(request: Request, call: CallDep, token_id: TokenId) -> Response:
    """Revoke a token at every gateway within seconds, and remove a node's broker account; for operators.

    A repeated call changes nothing, except that it removes an account that could not be removed before.
    """
    call.require_operator()
    record = await _get_tokens(request).revoke(token_id)
    if record is None:
        raise RequestError("not_found", f"token {token_id} doesn't exist")
    verifier: TokenVerifier = request.app.state.verifier
    verifier.forget()
    if record.node is not None:
        await _get_accounts(request).remove(record.node, record.id)
    return json_response(_to_token_document(record))


@operator_router.get("/nodes", responses={200: _describe_json_response(NodeListDocument, "All nodes.")})
async def list_nodes(request: Request, call: CallDep) -> Response:
    """List the nodes with their last reported states; for operators."""
    call.require_operator()
    found = [NodeDocument.from_value(node) for node in await _get_nodes(request).list()]
    return json_response(NodeListDocument.model_construct(nodes=found))


@operator_router.post(
    "/nodes/{name}/drain", responses={200: _describe_json_response(NodeDocument, "The node.")}
)
async def drain_node(request: Request, call: CallDep, name: NodeName) -> Response:
    """Stop a node from claiming work; its running attempts continue. For operators."""
    return await _set_drained(request, call, name, drained=True)


@operator_router.post(
    "/nodes/{name}/resume", responses={200: _describe_json_response(NodeDocument, "The node.")}
)
async def resume_node(request: Request, call: CallDep, name: NodeName) -> Response:
    """Let a drained node accept work again; for operators."""
    resumed = await _set_drained(request, call, name, drained=False)
    await _get_accounts(request).restore(name)
    return resumed


@operator_router.post(
    "/nodes/{name}/distrust",
    responses={200: _describe_json_response(DistrustDocument, "The number of marked verdicts.")},
)
async def distrust_node(
    request: Request,
    call: CallDep,
    name: NodeName,
    since: Annotated[
        AwareDatetime | None, Query(description="Only verdicts of runs that began then or later.")
    ] = None,
) -> Response:
    """Mark a node's verdicts as distrusted, drain the node, and take back its runs; for operators.

    The node can already be forgotten, if attempts that it ran are still stored.
    """
    call.require_operator()
    node = await _get_nodes(request).set_drained(name, drained=True)
    door: NodeServices = request.app.state.node_door
    if node is None and not await door.runs.is_known(name):
        raise _build_unknown_node_error(name)
    marked, taken_back = await door.runs.distrust(name, to_micros(since) if since else 0)
    await _get_accounts(request).suspend(name)
    document = None if node is None else NodeDocument.from_value(node)
    return json_response(DistrustDocument(node=document, marked=marked, taken_back=taken_back))


@operator_router.post(
    "/nodes/{name}/forget",
    responses={200: _describe_json_response(ForgottenNodeDocument, "The node is not listed any more.")},
)
async def forget_node(request: Request, call: CallDep, name: NodeName) -> Response:
    """Delete the record of a node that has stopped or is lost, and revoke its tokens; for operators.

    A repeated call changes nothing, except that it removes broker accounts that could not be removed
    before.
    """
    call.require_operator()
    forgotten = await _get_nodes(request).forget(name)
    if forgotten is None:
        raise _build_unknown_node_error(name)
    verifier: TokenVerifier = request.app.state.verifier
    verifier.forget()
    for token_id in forgotten.ended:
        await _get_accounts(request).remove(name, token_id)
    return json_response(ForgottenNodeDocument(name=name, revoked=list(forgotten.revoked)))


def _build_unknown_node_error(name: str) -> RequestError:
    return RequestError("not_found", f"node {name!r} doesn't exist; `assay nodes` lists all nodes")


async def _set_drained(request: Request, call: CallDep, name: str, *, drained: bool) -> Response:
    call.require_operator()
    node = await _get_nodes(request).set_drained(name, drained=drained)
    if node is None:
        raise _build_unknown_node_error(name)
    return json_response(NodeDocument.from_value(node))


def _to_token_document(record: TokenRecord) -> TokenDocument:
    return TokenDocument.from_value(record, scopes=_sort_scopes(record))


def _sort_scopes(record: TokenRecord) -> list[str]:
    return sorted(scope.value for scope in record.scopes)


def _get_accounts(request: Request) -> BrokerAccounts:
    accounts: BrokerAccounts = request.app.state.broker_accounts
    return accounts


def _get_tokens(request: Request) -> DatabaseTokens:
    tokens: DatabaseTokens = request.app.state.cluster_tokens
    return tokens


def _get_nodes(request: Request) -> DatabaseNodes:
    nodes: DatabaseNodes = request.app.state.cluster_nodes
    return nodes
