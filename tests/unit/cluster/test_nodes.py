import json
import time

import pytest
from sqlalchemy import insert

from assayd.errors import RequestError
from assayd.store.access import DatabaseAccess
from assayd_cluster.nodes import DRAINED_REASON, STOPPED_REASON, DatabaseNodes
from assayd_cluster.tables import nodes as table
from assayd_cluster.tokens import Scope


async def add(database: DatabaseAccess, name: str, *, ago_s: float = 0, **changes: object) -> None:
    row = {
        "name": name,
        "beat_at": int((time.time() - ago_s) * 1_000_000),
        "capacity": 4,
        "consumes": 1,
        "why": "",
        "version": "0.1.0",
        "engine": "oci",
        "images": "{}",
        "runs": json.dumps(["01JTC8ZK5V7777777777777777"]),
    }
    await database.write(lambda connection: connection.execute(insert(table), {**row, **changes}))


@pytest.fixture
def nodes(database: DatabaseAccess) -> DatabaseNodes:
    return DatabaseNodes(database)


async def test_nodes_are_listed_with_state_and_reason(nodes: DatabaseNodes, database: DatabaseAccess) -> None:
    await add(database, "b", consumes=0, why="canary failed")
    await add(database, "a")
    await add(database, "c", ago_s=60)
    listed = await nodes.list()
    assert [(node.name, node.state) for node in listed] == [("a", "ready"), ("b", "not_ready"), ("c", "lost")]
    assert (listed[0].why, listed[1].why, listed[0].in_hand) == ("", "canary failed", 1)
    assert listed[2].why.startswith("silent for 60 s")


async def test_drained_node_says_so_until_it_is_resumed(
    nodes: DatabaseNodes, database: DatabaseAccess
) -> None:
    await add(database, "a")
    drained = await nodes.set_drained("a", drained=True)
    assert drained is not None
    assert (drained.state, drained.why) == ("draining", DRAINED_REASON)
    resumed = await nodes.set_drained("a", drained=False)
    assert resumed is not None
    assert resumed.state == "ready"
    assert await nodes.set_drained("nobody", drained=True) is None


async def test_node_that_was_stopped_in_order_is_not_lost(
    nodes: DatabaseNodes, database: DatabaseAccess
) -> None:
    await add(database, "a", ago_s=3600, consumes=0, why=STOPPED_REASON)
    [node] = await nodes.list()
    assert (node.state, node.why) == ("stopped", STOPPED_REASON)


async def test_node_that_has_gone_is_forgotten_with_its_tokens(
    gateway, nodes: DatabaseNodes, database: DatabaseAccess
) -> None:
    gateway.app.state.cluster_nodes = nodes
    await add(database, "alive")
    await add(database, "gone", ago_s=60)
    operator = await gateway.token(Scope.OPERATE)
    token, other = [await gateway.token(Scope.NODE, node=node) for node in ("gone", "alive")]
    refused = await gateway.ask("POST", "/v1/nodes/alive/forget", operator)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "node.alive")
    answer = await gateway.ask("POST", "/v1/nodes/gone/forget", operator)
    assert answer.json() == {"name": "gone", "revoked": [gateway.made[token]]}
    assert [node.name for node in await nodes.list()] == ["alive"]
    assert (await gateway.ask("PUT", "/v1/nodes/gone", token, json={})).json()["error"][
        "code"
    ] == "token.revoked"
    assert (await gateway.ask("PUT", "/v1/nodes/alive", other, json={})).status_code != 401
    assert (await gateway.ask("POST", "/v1/nodes/never/forget", operator)).status_code == 404


class AwayOnce:
    """Accounts of a broker whose management API fails the first time."""

    def __init__(self) -> None:
        self.removed: list[tuple[str, str]] = []
        self._fails = True

    async def remove(self, node: str, token_id: str) -> None:
        if self._fails:
            self._fails = False
            raise RequestError("broker.accounts", "the broker's management API failed", retryable=True)
        self.removed.append((node, token_id))


async def test_forgetting_can_be_repeated_after_the_brokers_management_api_failed(
    gateway, nodes: DatabaseNodes, database: DatabaseAccess
) -> None:
    accounts = AwayOnce()
    gateway.app.state.cluster_nodes, gateway.app.state.broker_accounts = nodes, accounts
    await add(database, "gone", ago_s=60)
    operator = await gateway.token(Scope.OPERATE)
    old = gateway.made[await gateway.token(Scope.NODE, node="gone")]
    failed = await gateway.ask("POST", "/v1/nodes/gone/forget", operator)
    assert failed.json()["error"]["code"] == "broker.accounts"
    new = await gateway.token(Scope.NODE, node="gone")  # of a host that is to come back under that name
    again = await gateway.ask("POST", "/v1/nodes/gone/forget", operator)
    assert (again.status_code, again.json()["revoked"]) == (200, [])
    assert accounts.removed == [("gone", old)]
    refused = await gateway.ask("PUT", "/v1/nodes/gone", new, json={})
    assert refused.status_code != 401


async def test_operators_list_and_drain_over_the_api(
    gateway, nodes: DatabaseNodes, database: DatabaseAccess
) -> None:
    gateway.app.state.cluster_nodes = nodes
    await add(database, "a")
    operator = await gateway.token(Scope.OPERATE)
    assert (await gateway.ask("GET", "/v1/nodes", operator)).json()["nodes"][0]["name"] == "a"
    assert (await gateway.ask("POST", "/v1/nodes/a/drain", operator)).json()["state"] == "draining"
    assert (await gateway.ask("POST", "/v1/nodes/a/resume", operator)).json()["state"] == "ready"
    assert (await gateway.ask("POST", "/v1/nodes/b/drain", operator)).status_code == 404


@pytest.mark.parametrize("act", ["drain", "resume"])
async def test_node_drains_and_resumes_nobody(gateway, nodes, database: DatabaseAccess, act: str) -> None:
    gateway.app.state.cluster_nodes = nodes
    await add(database, "a")
    own = await gateway.token(Scope.NODE, node="a")
    assert (await gateway.ask("POST", f"/v1/nodes/a/{act}", own)).status_code == 403
