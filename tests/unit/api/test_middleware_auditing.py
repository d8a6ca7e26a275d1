"""The list of audited routes; end-to-end tests cover the rest."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

from assayd.api import batches, discovery, library, routes
from assayd.api.middleware import CHANGING_METHODS, describe_actor, is_audited
from assayd.api.peer import Caller
from assayd.model.submission import Peer
from assayd_chains.routes import generations, repairs
from assayd_cluster.gateway import routes as node_routes
from assayd_pipeline.routes import router as pipelines


def changing(*routers: APIRouter) -> set[str]:
    """Return the paths of routes that change something."""
    found = [each for router in routers for each in router.routes if isinstance(each, APIRoute)]
    return {route.path for route in found if route.methods & CHANGING_METHODS}


def test_every_route_that_changes_something_is_audited_but_checks_of_policies() -> None:
    paths = changing(
        routes.router,
        batches.router,
        discovery.router,
        library.router,
        repairs,
        generations,
        pipelines,
        node_routes.operator_router,
    )

    assert {path for path in paths if not is_audited(path)} == {"/v1/policies/{name}/check"}
    assert "/v1/tokens" in paths


def test_what_nodes_report_all_the_time_is_not_audited() -> None:
    assert not any(is_audited(path) for path in changing(node_routes.router))


def test_actor_is_a_user_with_its_process_or_a_token() -> None:
    peer = Peer(uid=7, gid=7, pid=42)

    assert describe_actor(Caller(peer=peer, groups=frozenset())) == {"uid": 7, "pid": 42}
    remote = Caller(peer=peer, groups=frozenset(), remote=True, token="01T")
    assert describe_actor(remote) == {"tenant": 7, "token": "01T"}
