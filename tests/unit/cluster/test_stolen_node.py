"""What whoever has a node's token, or reads the queue, can do at a real gateway: nothing more."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from assayd_cluster.gateway.dispatches import Message
from assayd_cluster.gateway.program import configure_gateway
from assayd_cluster.settings import ClusterSettings, GatewaySettings
from assayd_cluster.tokens import NODES_TENANT, Scope, TokenTerms
from support.cluster.gateways import OneGateway, one_gateway
from support.cluster.stub_node import verdict_of
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres
OTHER_ATTEMPT = "01JTC8ZK5V7777777777777777"


@dataclass
class Attacked:
    """A gateway with two nodes that live, `mine` being stolen; requests go through gate and API."""

    gateway: OneGateway
    app: Any
    tokens: dict[str, str]

    async def ask(self, node: str, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[node]}"}
        transport = httpx.ASGITransport(self._with_state)
        async with httpx.AsyncClient(
            transport=transport, base_url="https://gateway", headers=headers
        ) as client:
            return await client.request(method, path, content=json.dumps(body).encode())

    async def _with_state(self, scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {"caller": None}
        await self.app(scope, receive, send)

    async def message(self) -> Message:
        """Accept an attempt, and return the message that the broker would hand out."""
        await self.gateway.submit()
        return await self.gateway.messages.next()

    async def claim(self, node: str, message: Message, **changes: str) -> httpx.Response:
        body = {"attempt": message.attempt, "ticket": message.ticket, **changes}
        return await self.ask(node, "POST", f"/v1/nodes/{node}/runs", body)

    async def bring(
        self, node: str, attempt: str, claimed: dict[str, Any], **changes: object
    ) -> httpx.Response:
        path = f"/v1/nodes/{node}/runs/{attempt}/{claimed['run']}/verdict"
        return await self.ask(node, "PUT", path, verdict_of(attempt, claimed, **changes))

    async def verdict(self, attempt: str) -> str | None:
        found = await self.gateway.jobs.get(attempt)
        assert found is not None
        return found.verdict.value if found.verdict else None


@asynccontextmanager
async def attacked(folder: Path, database_url: str) -> AsyncIterator[Attacked]:
    async with one_gateway(folder, database_url) as gateway:
        cluster = ClusterSettings(database_url_file=folder / "url")
        settings = GatewaySettings(state_dir=folder / "gateway", policy_folders=(), cluster=cluster)
        app = configure_gateway(settings, gateway.gateway)().app
        tokens = {}
        for node in ("mine", "theirs"):
            await gateway.beat(node)
            terms = TokenTerms(name=node, tenant=NODES_TENANT, scopes=frozenset({Scope.NODE}), node=node)
            tokens[node] = (await tokens_of(app).create(terms))[1]
        yield Attacked(gateway, app, tokens)


def tokens_of(gate: Any) -> Any:
    return gate._app.state.cluster_tokens


@pytest.fixture
async def target(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[Attacked]:
    with postgres.database() as url:
        async with attacked(tmp_path, url) as found:
            yield found


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_node_with_its_own_message_is_served(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    assert (await target.bring("mine", message.attempt, claimed)).json() == {"counted": True}
    assert await target.verdict(message.attempt) == "validated"


async def test_run_cannot_be_claimed_without_its_ticket(target: Attacked) -> None:
    message = await target.message()
    guess = base64.urlsafe_b64encode(bytes(32)).decode()
    assert (await target.claim("mine", message, ticket=guess)).status_code == 403
    other = await target.message()
    assert (await target.claim("mine", message, ticket=other.ticket)).status_code == 403
    assert (await target.claim("mine", message, attempt=OTHER_ATTEMPT)).status_code == 410


async def test_message_that_is_repeated_to_another_node_is_refused(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("theirs", message)).json()
    assert code(await target.claim("mine", message)) == (409, "run.held")
    again = (await target.claim("theirs", message)).json()
    assert again["run"] == claimed["run"]  # the same node gets the same run
    assert (await target.bring("theirs", message.attempt, claimed)).status_code == 200
    for node in ("mine", "theirs"):
        assert code(await target.claim(node, message)) == (410, "run.over")


async def test_verdict_of_a_run_that_another_node_holds_is_refused(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("theirs", message)).json()
    forged = await target.bring("mine", message.attempt, claimed)
    assert (forged.status_code, await target.verdict(message.attempt)) == (403, None)
    for run in (1, 2):
        lost = {"lost": True, "reason": "x"}
        path = f"/v1/nodes/mine/runs/{message.attempt}/{run}/verdict"
        assert (await target.ask("mine", "PUT", path, lost)).status_code == 403
    assert (await target.bring("theirs", message.attempt, claimed)).json() == {"counted": True}


async def test_path_of_another_node_is_closed_to_a_node(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("theirs", message)).json()
    path = f"/v1/nodes/theirs/runs/{message.attempt}/{claimed['run']}"
    said = verdict_of(message.attempt, claimed)
    for method, below, body in (
        ("PUT", "/verdict", said),
        ("POST", "/events", {"events": []}),
        ("PUT", f"/files/{hashlib.sha256(b'null').hexdigest()}", None),
    ):
        assert code(await target.ask("mine", method, path + below, body)) == (403, "token.scope")
    assert code(await target.ask("mine", "PUT", "/v1/nodes/theirs", {})) == (403, "token.scope")
    assert code(await target.ask("mine", "GET", "/v1/nodes/theirs/cancelled")) == (403, "token.scope")


async def test_events_and_files_of_a_run_that_another_node_holds_are_refused(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("theirs", message)).json()
    path = f"/v1/nodes/mine/runs/{message.attempt}/{claimed['run']}"
    events = verdict_of(message.attempt, claimed)["events"]
    answer = await target.ask("mine", "POST", f"{path}/events", {"events": events})
    assert code(answer) == (403, "run.foreign")
    digest = hashlib.sha256(b"null").hexdigest()
    assert (await target.ask("mine", "PUT", f"{path}/files/{digest}")).status_code == 403


FORGED: tuple[dict[str, object], ...] = (
    {"id": OTHER_ATTEMPT},
    {"input_digest": "0" * 64},
    {"kind": "code"},
    {"policy": "another"},
    {"verdict": None},
    {"state": "running"},
    {"cause": "invented"},
    {"error": {"code": "x", "message": "x"}},
)


async def test_verdict_on_something_else_is_refused(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    for changes in FORGED:
        forged = await target.bring("mine", message.attempt, claimed, **changes)
        assert (changes, forged.status_code) == (changes, 422)
    assert await target.verdict(message.attempt) is None
    assert (await target.bring("mine", message.attempt, claimed)).json() == {"counted": True}


async def test_altered_file_is_refused(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    said = verdict_of(message.attempt, claimed)
    files: Any = said["files"]
    files[0]["base64"] = base64.b64encode(b"{}").decode()
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/verdict"
    assert code(await target.ask("mine", "PUT", path, said)) == (422, "invalid")
    for name in ("../../etc/passwd", "/etc/passwd", "files/../../x", "manifest.json/.."):
        files[0]["name"] = name
        assert (await target.ask("mine", "PUT", path, said)).status_code == 422
    assert await target.verdict(message.attempt) is None


async def test_verdict_on_record_is_not_changed_by_a_second_one(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    await target.bring("mine", message.attempt, claimed)
    failure = {"verdict": "error", "error": {"code": "x", "message": "x"}}
    second = await target.bring("mine", message.attempt, claimed, **failure)
    assert second.json() == {"counted": False}
    assert await target.verdict(message.attempt) == "validated"


async def test_node_reads_nothing_of_the_cluster(target: Attacked) -> None:
    paths = ("attempts", "nodes", "tokens", "events", "doctor", "batches", "library")
    for path in (*(f"/v1/{each}" for each in paths), "/metrics", "/openapi.json"):
        assert code(await target.ask("mine", "GET", path)) == (403, "token.scope")
