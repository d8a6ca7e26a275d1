"""Verdicts of a distrusted node: marked and listed; its runs go to other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from assayd.clock import UlidGenerator
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.records import AttemptQuery
from assayd_cluster.gateway.program import configure_gateway
from assayd_cluster.settings import ClusterSettings, GatewaySettings
from assayd_cluster.tokens import Scope, TokenTerms
from support.cluster.gateways import OneGateway, one_gateway, silence
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres


class Operator:
    """An operator of a gateway with two nodes."""

    def __init__(self, gateway: OneGateway, app: Any, token: str) -> None:
        self.gateway = gateway
        self._app = app
        self._token = token
        number = UlidGenerator().new().lower()
        self.stolen, self.honest = f"stolen-{number}", f"honest-{number}"

    async def ask(self, method: str, path: str, **content: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._with_state)
        headers = {"Authorization": f"Bearer {self._token}"}
        async with httpx.AsyncClient(transport=transport, base_url="https://g", headers=headers) as client:
            return await client.request(method, path, **content)

    async def _with_state(self, scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {"caller": None}
        await self._app(scope, receive, send)

    async def judged_by(self, node: str, code: str) -> Attempt:
        """Have a node judge an attempt; return the attempt."""
        attempt = await self.gateway.submit(code)
        message = await self.gateway.messages.next()
        await self.gateway.bring(node, attempt.id, await self.gateway.claim(node, message))
        return await self.gateway.service.wait(attempt.id, 30)

    async def listed(self, **filters: object) -> list[str]:
        found = await self.ask("GET", "/v1/attempts", params=filters)
        return [attempt["id"] for attempt in found.json()["attempts"]]


@asynccontextmanager
async def operated(tmp_path: Path, url: str) -> AsyncIterator[Operator]:
    async with one_gateway(tmp_path, url) as gateway:
        cluster = ClusterSettings(database_url_file=tmp_path / "url")
        settings = GatewaySettings(state_dir=tmp_path / "gateway", policy_folders=(), cluster=cluster)
        app: Any = configure_gateway(settings, gateway.gateway)().app
        terms = TokenTerms(name="o", tenant="o", scopes=frozenset({Scope.OPERATE}))
        token = (await app._app.state.cluster_tokens.create(terms))[1]
        found = Operator(gateway, app, token)
        for node in (found.stolen, found.honest):
            await gateway.beat(node)
        yield found


@pytest.fixture
async def operator(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[Operator]:
    with postgres.database() as url:
        async with operated(tmp_path, url) as found:
            yield found


@pytest.fixture
async def two(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[tuple[Operator, OneGateway, str]]:
    """Return an operator of one gateway, another gateway, and their database's URL."""
    with postgres.database() as url:
        async with operated(tmp_path, url) as operator, one_gateway(tmp_path, url, "other") as other:
            await other.beat(operator.stolen)
            yield operator, other, url


async def test_attempt_names_the_node_that_judged_it(operator: Operator) -> None:
    attempt = await operator.judged_by(operator.stolen, "# 1\n")
    assert attempt.node == operator.stolen
    shown = (await operator.ask("GET", f"/v1/attempts/{attempt.id}")).json()
    assert (shown["node"], shown["distrusted_at"]) == (operator.stolen, None)
    other = await operator.judged_by(operator.honest, "# 2\n")
    assert attempt.id in await operator.listed(node=operator.stolen)
    assert other.id not in await operator.listed(node=operator.stolen)


async def test_verdicts_of_a_distrusted_node_are_marked_and_listed(operator: Operator) -> None:
    before = await operator.judged_by(operator.stolen, "# before\n")
    await asyncio.sleep(0.01)
    bad = await operator.judged_by(operator.stolen, "# bad\n")
    good = await operator.judged_by(operator.honest, "# good\n")
    assert bad.started_at is not None
    since = {"since": bad.started_at.isoformat()}
    answer = (await operator.ask("POST", f"/v1/nodes/{operator.stolen}/distrust", params=since)).json()
    assert (answer["marked"], answer["taken_back"], answer["node"]["state"]) == (1, 0, "draining")
    assert await operator.listed(distrusted=True, node=operator.stolen) == [bad.id]
    assert before.id in await operator.listed(distrusted=False)
    assert good.id in await operator.listed(distrusted=False)
    shown = (await operator.ask("GET", f"/v1/attempts/{bad.id}")).json()
    assert shown["distrusted_at"] is not None
    assert shown["approvable"] is False
    refused = await operator.ask("POST", f"/v1/attempts/{bad.id}/approve", json={"name": "x"})
    assert refused.json()["error"]["code"] == "library.distrusted"
    again = (await operator.ask("POST", f"/v1/nodes/{operator.stolen}/distrust")).json()
    assert again["marked"] >= 1  # what was before; what is marked keeps its time
    assert (await operator.ask("GET", f"/v1/attempts/{bad.id}")).json()["distrusted_at"] == shown[
        "distrusted_at"
    ]


async def test_run_in_the_hands_of_a_distrusted_node_is_another_nodes(operator: Operator) -> None:
    gateway = operator.gateway
    attempt = await gateway.submit()
    claimed = await gateway.claim(operator.stolen, await gateway.messages.next())
    answer = (await operator.ask("POST", f"/v1/nodes/{operator.stolen}/distrust")).json()
    assert answer["taken_back"] == 1
    with pytest.raises(RequestError):
        await gateway.bring(operator.stolen, attempt.id, claimed)
    again = await gateway.claim(operator.honest, await gateway.messages.next())
    assert again.run == 2
    assert await gateway.bring(operator.honest, attempt.id, again)
    assert (await gateway.service.wait(attempt.id, 30)).node == operator.honest


async def test_forgotten_node_can_be_distrusted(operator: Operator) -> None:
    bad = await operator.judged_by(operator.stolen, "# bad\n")
    await silence(operator.gateway, "nodes", "name", operator.stolen)
    assert (await operator.ask("POST", f"/v1/nodes/{operator.stolen}/forget")).status_code == 200
    answer = await operator.ask("POST", f"/v1/nodes/{operator.stolen}/distrust")
    assert (answer.json()["node"], answer.json()["marked"]) == (None, 1)
    assert await operator.listed(distrusted=True, node=operator.stolen) == [bad.id]
    unknown = await operator.ask("POST", "/v1/nodes/never-there/distrust")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")


@dataclass
class Other:
    """A database session of another gateway."""

    connection: psycopg.AsyncConnection

    async def waiting(self, statement: str) -> None:
        """Wait until a session waits for a lock in a statement with this beginning."""
        await self.connection.set_autocommit(True)  # a transaction would see the same again and again
        wanted = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        async with asyncio.timeout(20):
            while True:
                found = await (await self.connection.execute(wanted, (f"{statement}%",))).fetchone()
                if found is not None and found[0]:
                    return
                await asyncio.sleep(0.01)


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Other]:
    address = url.replace("+psycopg", "")
    async with await psycopg.AsyncConnection.connect(address) as connection:
        yield Other(connection)


async def test_claim_under_way_when_its_node_is_distrusted_is_taken_back(
    two: tuple[Operator, OneGateway, str],
) -> None:
    operator, other, url = two
    attempt = await operator.gateway.submit()
    message = await operator.gateway.messages.next()
    async with session(url) as holding, session(url) as looking:
        # The claim has seen that its node takes work, and waits for the row of the attempt.
        await holding.connection.execute(
            "SELECT 1 FROM dispatches WHERE attempt_id = %s FOR UPDATE", (attempt.id,)
        )
        claiming = asyncio.create_task(other.claim(operator.stolen, message))
        await looking.waiting("WITH found AS")
        distrusting = asyncio.create_task(operator.ask("POST", f"/v1/nodes/{operator.stolen}/distrust"))
        await looking.waiting("LOCK TABLE runs")
        await holding.connection.rollback()
    claimed, answer = await claiming, (await distrusting).json()
    assert answer["taken_back"] == 1
    with pytest.raises(RequestError):
        await other.bring(operator.stolen, attempt.id, claimed)


async def test_claim_that_comes_while_its_node_is_distrusted_is_refused(
    two: tuple[Operator, OneGateway, str],
) -> None:
    operator, other, url = two
    attempt = await operator.gateway.submit()
    message = await operator.gateway.messages.next()
    async with session(url) as distrusting, session(url) as looking:
        await distrusting.connection.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        claiming = asyncio.create_task(other.claim(operator.stolen, message))
        await looking.waiting("WITH found AS")
        await distrusting.connection.execute(
            "UPDATE nodes SET drained = 1 WHERE name = %s", (operator.stolen,)
        )
        await distrusting.connection.commit()
    with pytest.raises(RequestError) as refused:
        await claiming
    assert refused.value.code == "node.idle"
    again = await operator.gateway.messages.next()
    assert await operator.gateway.bring(
        operator.honest, attempt.id, await operator.gateway.claim(operator.honest, again)
    )


async def test_marked_attempt_is_replayed_once_for_a_key(operator: Operator) -> None:
    gateway = operator.gateway
    attempt = await operator.judged_by(operator.stolen, "# 1\n")
    await operator.ask("POST", f"/v1/nodes/{operator.stolen}/distrust")
    path, headers = f"/v1/attempts/{attempt.id}/replay", {"Idempotency-Key": "distrust-1"}
    operator_ask = [await operator.ask("POST", path, headers=headers) for _ in range(2)]
    first, second = [answer.json()["id"] for answer in operator_ask]
    assert first == second
    message = await gateway.messages.next()
    with pytest.raises(RequestError) as refused:  # it is drained
        await gateway.claim(operator.stolen, message)
    assert refused.value.code == "node.idle"
    message = await gateway.messages.next()
    await gateway.bring(operator.honest, first, await gateway.claim(operator.honest, message))
    shown = (await operator.ask("GET", f"/v1/attempts/{first}?wait_s=20")).json()
    assert (shown["node"], shown["replay_of"]) == (operator.honest, attempt.id)
    assert shown["replay_diff"]["same"] is True


async def test_only_operators_distrust_and_forget(operator: Operator) -> None:
    terms = TokenTerms(name="t", tenant="t", scopes=frozenset({Scope.SUBMIT}))
    operator._token = (await operator._app._app.state.cluster_tokens.create(terms))[1]
    for verb in ("distrust", "forget"):
        answer = await operator.ask("POST", f"/v1/nodes/{operator.stolen}/{verb}")
        assert answer.status_code == 403
    assert (
        await operator.gateway.jobs.list(AttemptQuery(distrusted=True, node=operator.stolen))
    ).attempts == ()
