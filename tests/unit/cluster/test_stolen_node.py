"""What a thief of a node's token, or a reader of the queue, can do at a real gateway: nothing more."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from assayd import __version__
from assayd.byte_budget import ByteBudget
from assayd.documents import parse_json
from assayd.errors import RequestError
from assayd_cluster.documents import MOST_EVENTS
from assayd_cluster.gateway.outbox import BrokerMessage
from assayd_cluster.gateway.program import configure_gateway
from assayd_cluster.gateway.routes import _reserve_bytes
from assayd_cluster.settings import ClusterSettings, GatewaySettings
from assayd_cluster.tokens import NODES_TENANT, Scope, TokenTerms
from support.cluster.gateways import OneGateway, one_gateway
from support.cluster.stub_node import AT, STAMP, verdict_of
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres
OTHER_ATTEMPT = "01JTC8ZK5V7777777777777777"


@dataclass
class Attacked:
    """A gateway with two live nodes, of which `mine` is stolen; requests pass the gate and the API."""

    gateway: OneGateway
    app: Any
    tokens: dict[str, str]
    bundles: Path

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

    async def message(self) -> BrokerMessage:
        """Accept an attempt; return the message that the broker would deliver."""
        await self.gateway.submit()
        return await self.gateway.messages.next()

    async def claim(self, node: str, message: BrokerMessage, **changes: str) -> httpx.Response:
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
        yield Attacked(gateway, app, tokens, folder / "bundles")


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


@pytest.mark.parametrize(
    "name",
    [
        "files/../../x",
        "files//x",
        "files/a\0b",
        f"files/{'n' * 300}",
        f"stdout_{STAMP}./../x",
        f"execution_{STAMP}.json",  # there is one already
        "/etc/passwd",
    ],
)
async def test_bad_name_of_a_file_is_refused(target: Attacked, name: str) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    said = verdict_of(message.attempt, claimed)
    files: Any = said["files"]
    files[-1]["name"] = name
    path = f"/v1/nodes/mine/runs/{message.attempt}/{claimed['run']}/verdict"
    assert code(await target.ask("mine", "PUT", path, said)) == (422, "invalid")
    files[-1]["name"] = "files/weekly report/ä.csv"
    assert (await target.ask("mine", "PUT", path, said)).json() == {"counted": True}


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


def unit_event(seq: int, **changes: object) -> dict[str, object]:
    body = {"name": "u", "index": 1, "total": 1, "status": "ok", "duration_ms": 1.5}
    return {"run": 1, "seq": seq, "kind": "unit", "at": AT, "body": body, **changes}


def with_file(said: dict[str, object], prefix: str, content: bytes) -> dict[str, object]:
    """Return a verdict in which a file has other content."""
    files: Any = said["files"]
    (file,) = [file for file in files if file["name"].startswith(prefix)]
    file.update(
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        base64=base64.b64encode(content).decode(),
    )
    return said


async def test_event_at_a_time_that_no_clock_shows_is_refused(target: Attacked) -> None:
    message = await target.message()
    await target.claim("mine", message)
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/events"
    for at in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"):
        answer = await target.ask("mine", "POST", path, {"events": [unit_event(2, at=at)]})
        assert code(answer) == (422, "invalid")
    assert (await target.ask("mine", "POST", path, {"events": [unit_event(2)]})).status_code == 204


async def test_report_and_execution_are_written_anew(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/verdict"
    forged = b'null}}\n{"line":2,"attempt":{"id":"x"}}'
    said = with_file(verdict_of(message.attempt, claimed), "execution_", forged)
    assert code(await target.ask("mine", "PUT", path, said)) == (422, "invalid")
    said = with_file(said, "execution_", b'{"a": 1,\n "b": 2}\n')
    assert (await target.ask("mine", "PUT", path, said)).json() == {"counted": True}
    found = await target.gateway.jobs.get(message.attempt)
    assert found is not None
    report, execution = await target.gateway.service.documents(found)
    assert (execution, report.count(b"\n")) == (b'{"a":1,"b":2}', 0)


async def test_number_that_json_does_not_have_is_refused(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    for number in (float("inf"), float("nan"), -1, 1e300):
        forged = await target.bring("mine", message.attempt, claimed, timings_ms={"static": number})
        assert code(forged) == (422, "invalid")
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/events"
    body = {"name": "u", "index": 1, "total": 1, "status": "ok", "duration_ms": float("inf")}
    answer = await target.ask("mine", "POST", path, {"events": [unit_event(2, body=body)]})
    assert code(answer) == (422, "invalid")
    assert (await target.bring("mine", message.attempt, claimed)).json() == {"counted": True}


async def test_words_of_an_error_and_names_of_rules_are_cut(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/verdict"
    error = {"code": "x.y", "message": "m\0" * 5000}
    said = verdict_of(message.attempt, claimed, verdict="error", error=error, rules=["r" * 5000])
    report = parse_json(base64.b64decode(said["files"][0]["base64"]))  # type: ignore[index]
    said = with_file(said, "validation_", json.dumps({**report, "status": "ERROR"}).encode())  # type: ignore[dict-item]
    assert (await target.ask("mine", "PUT", path, said)).json() == {"counted": True}
    found = await target.gateway.jobs.get(message.attempt)
    assert found is not None
    assert found.error is not None
    assert (len(found.error.message), len(found.rules[0])) == (2000, 128)


async def test_bad_case_is_refused_before_a_bundle_is_written(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    said = verdict_of(message.attempt, claimed)
    report = parse_json(base64.b64decode(said["files"][0]["base64"]))  # type: ignore[index]
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/verdict"
    for cases in ([1], [{"name": 1}], [{str(key): 1 for key in range(1000)}]):
        bad = json.dumps({**report, "runtime_results": {"cases": cases}}).encode()  # type: ignore[dict-item]
        answer = await target.ask("mine", "PUT", path, with_file(said, "validation_", bad))
        assert code(answer) == (422, "invalid")
    assert not [path for path in target.bundles.rglob("*") if path.is_file()]


async def test_events_that_are_repeated_are_shown_once(target: Attacked) -> None:
    message = await target.message()
    await target.claim("mine", message)
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/events"
    for _ in range(3):
        events = {"events": [unit_event(seq) for seq in (2, 3, 3)]}
        assert (await target.ask("mine", "POST", path, events)).status_code == 204
    hub = target.gateway.cluster.basics.hub
    assert [each.seq for each in hub.list_durable_events(message.attempt) if each.kind == "unit"] == [2, 3]


async def test_events_of_a_run_are_bounded(target: Attacked) -> None:
    message = await target.message()
    await target.claim("mine", message)
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/events"
    most = {"events": [unit_event(seq) for seq in range(2, 2 + MOST_EVENTS)]}
    assert (await target.ask("mine", "POST", path, most)).status_code == 204
    answer = await target.ask("mine", "POST", path, {"events": [unit_event(MOST_EVENTS + 2)]})
    assert code(answer) == (413, "too_large")


async def test_node_without_the_run_is_refused_before_its_body_is_read(target: Attacked) -> None:
    message = await target.message()
    await target.claim("theirs", message)
    path = f"/v1/nodes/mine/runs/{message.attempt}/1"
    for method, below in (("PUT", "/verdict"), ("POST", "/events"), ("PUT", f"/files/{'0' * 64}")):
        assert code(await target.ask("mine", method, path + below, "no such body")) == (403, "run.foreign")


async def test_body_of_unknown_keys_costs_next_to_nothing(target: Attacked) -> None:
    message = await target.message()
    claimed = (await target.claim("mine", message)).json()
    path = f"/v1/nodes/mine/runs/{message.attempt}/1/verdict"
    unknown = {str(key): 1 for key in range(50_000)}
    started = time.process_time()
    answer = await target.ask("mine", "PUT", path, {"lost": True, "attempt": unknown})
    assert code(answer) == (422, "invalid")
    assert time.process_time() - started < 1  # with an error for each key: more than two
    beat = {"capacity": 4, "ready": True, "version": __version__, "images": unknown}
    assert code(await target.ask("mine", "PUT", "/v1/nodes/mine", beat)) == (422, "invalid")
    assert (await target.bring("mine", message.attempt, claimed)).json() == {"counted": True}


async def test_slow_bodies_of_one_node_leave_the_others_room() -> None:
    budget = ByteBudget(100, operators=frozenset())
    call: Any = SimpleNamespace(budget=budget)
    with _reserve_bytes(call, "mine") as mine, _reserve_bytes(call, "theirs") as theirs:
        mine.resize(40)
        with pytest.raises(RequestError, match="no room"):
            mine.resize(80)
        theirs.resize(40)
        assert budget.held == 80
