"""Defines the additional routes for operators of a gateway: tokens, and nodes with their runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import AwareDatetime
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import CallDep, json_response, read_model
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
from assayd_cluster.gateway.broker_accounts import BrokerAccounts
from assayd_cluster.gateway.routes import NodeServices
from assayd_cluster.nodes import DatabaseNodes
from assayd_cluster.tokens import DatabaseTokens, TokenRecord, TokenTerms, parse_scopes
from assayd_cluster.verifying import TokenVerifier

router = APIRouter(prefix="/v1", tags=["cluster"], responses=answers.ERRORS)

TokenId = Annotated[str, Path(alias="id", max_length=26, description="The token's id.")]
Name = Annotated[str, Path(max_length=64, description="The node's name.")]


def _describe_json_response(model: type[Any], description: str) -> dict[str, Any]:
    return {"model": model, "description": description}


@router.post(
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


@router.get("/tokens", responses={200: _describe_json_response(TokenListDocument, "All tokens.")})
async def list_tokens(request: Request, call: CallDep) -> Response:
    """List all tokens, without their secrets; for operators."""
    call.require_operator()
    found = [_to_token_document(record) for record in await _get_tokens(request).list()]
    return json_response(TokenListDocument.model_construct(tokens=found))


@router.delete("/tokens/{id}", responses={200: _describe_json_response(TokenDocument, "The token, revoked.")})
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


@router.get("/nodes", responses={200: _describe_json_response(NodeListDocument, "All nodes.")})
async def list_nodes(request: Request, call: CallDep) -> Response:
    """List the nodes with their last reported states; for operators."""
    call.require_operator()
    found = [NodeDocument.from_value(node) for node in await _get_nodes(request).list()]
    return json_response(NodeListDocument.model_construct(nodes=found))


@router.post("/nodes/{name}/drain", responses={200: _describe_json_response(NodeDocument, "The node.")})
async def drain_node(request: Request, call: CallDep, name: Name) -> Response:
    """Stop a node from claiming work; its running attempts continue. For operators."""
    return await _set_drained(request, call, name, drained=True)


@router.post("/nodes/{name}/resume", responses={200: _describe_json_response(NodeDocument, "The node.")})
async def resume_node(request: Request, call: CallDep, name: Name) -> Response:
    """Let a drained node accept work again; for operators."""
    resumed = await _set_drained(request, call, name, drained=False)
    await _get_accounts(request).restore(name)
    return resumed


@router.post(
    "/nodes/{name}/distrust",
    responses={200: _describe_json_response(DistrustDocument, "The number of marked verdicts.")},
)
async def distrust_node(
    request: Request,
    call: CallDep,
    name: Name,
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
        raise _unknown_node_error(name)
    marked, taken_back = await door.runs.distrust(name, to_micros(since) if since else 0)
    await _get_accounts(request).suspend(name)
    document = None if node is None else NodeDocument.from_value(node)
    return json_response(DistrustDocument(node=document, marked=marked, taken_back=taken_back))


@router.post(
    "/nodes/{name}/forget",
    responses={200: _describe_json_response(ForgottenNodeDocument, "The node is not listed any more.")},
)
async def forget_node(request: Request, call: CallDep, name: Name) -> Response:
    """Delete the record of a node that has stopped or is lost, and revoke its tokens; for operators.

    A repeated call changes nothing, except that it removes broker accounts that could not be removed
    before.
    """
    call.require_operator()
    forgotten = await _get_nodes(request).forget(name)
    if forgotten is None:
        raise _unknown_node_error(name)
    verifier: TokenVerifier = request.app.state.verifier
    verifier.forget()
    for token_id in forgotten.ended:
        await _get_accounts(request).remove(name, token_id)
    return json_response(ForgottenNodeDocument(name=name, revoked=list(forgotten.revoked)))


def _unknown_node_error(name: str) -> RequestError:
    return RequestError("not_found", f"node {name!r} doesn't exist; `assay nodes` lists all nodes")


async def _set_drained(request: Request, call: CallDep, name: str, *, drained: bool) -> Response:
    call.require_operator()
    node = await _get_nodes(request).set_drained(name, drained=drained)
    if node is None:
        raise _unknown_node_error(name)
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
