"""One tenant sees nothing of another, on any route of a gateway: every operation of its reference is tried.

A route that is new is tried, too. One with a parameter or a body that is not known here fails, until it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from assayd.api import SocketAccess, create_app
from assayd.kinds.registry import load_own_validators
from assayd.model.submission import Peer
from assayd.wiring.wings import load_routers
from assayd_chains.model import Chain, ChainRound, Failure, GenerationRequest, Outcome, Repair
from assayd_chains.routes import ROUTERS as CHAIN_ROUTERS
from assayd_chains.store import DatabaseChainStore
from assayd_cluster.gateway import routes
from assayd_cluster.tokens import FIRST_TENANT, Scope
from assayd_workflows.routes import ROUTERS as WORKFLOW_ROUTERS
from support.cluster.small_gateway import NODE, SmallGateway, serving_gateway
from support.daemons.fake_service import FakeService
from support.daemons.small_daemon import submission
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

MARK = "ofthefirst"
"""Is in everything that the first tenant has."""
NOW = datetime.now(UTC)
UNKNOWN = {
    "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "attempt": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "name": "nonesuch",
    "kind": "nonesuch",
    "version": "1",
    "number": "1",
    "run": "1",
    "sha256": "0" * 64,
}
ENDLESS = "follow_all_attempts"
ROUTERS = (
    *CHAIN_ROUTERS,
    *WORKFLOW_ROUTERS,
    *load_routers(load_own_validators()),
    routes.operator_router,
    routes.router,
)
REFERENCE = create_app(FakeService(), None, access=SocketAccess(), routers=ROUTERS).openapi()
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in REFERENCE["paths"].items()
    for method, operation in methods.items()
    if method in {"get", "post", "put", "delete", "patch"}
}


@dataclass
class Tenant:
    """A tenant's connection to the gateway."""

    http: httpx.Client
    number: int

    def ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return self.http.request(method, path, **sent)


@dataclass
class Place:
    """A gateway with two tenants; `known` are the first one's objects, by parameter name."""

    gateway: SmallGateway
    first: Tenant
    second: Tenant
    known: dict[str, list[str]]

    def snapshot(self) -> list[object]:
        """Return everything that the first tenant sees of its objects."""
        lists = ("attempts", "batches", "repairs", "generations", "workflows", "library", "summary")
        paths = [f"/v1/{each}" for each in lists]
        paths += [f"/v1/attempts/{each}" for each in self.known["attempt"]]
        return [self.first.ask("GET", path).json() for path in paths]


@pytest.fixture(scope="module")
def place(postgres: PostgresServer) -> Iterator[Place]:
    with (
        TemporaryDirectory() as folder,
        postgres.database() as url,
        serving_gateway(Path(folder), url) as gateway,
        tenant(gateway, "first") as first,
        tenant(gateway, "second") as second,
    ):
        yield Place(gateway, first, second, filled(gateway, first))


@contextmanager
def tenant(gateway: SmallGateway, name: str) -> Iterator[Tenant]:
    """Return a tenant with an attempt."""
    transport = httpx.HTTPTransport(uds=str(gateway.path), verify=False)
    headers = {"Authorization": f"Bearer {gateway.token(name, Scope.SUBMIT)}"}
    with httpx.Client(transport=transport, base_url="http://gateway", headers=headers, timeout=30) as http:
        answer = http.post("/v1/attempts?wait_s=20", json=submission("x")).json()
        assert answer["verdict"] == "validated"
        assert answer["peer"]["uid"] >= FIRST_TENANT
        yield Tenant(http, answer["peer"]["uid"])


def filled(gateway: SmallGateway, first: Tenant) -> dict[str, list[str]]:
    """Create one of everything for a tenant; return the ids."""
    ids = []
    for code in ("run", "bad"):
        sent = submission(f"{code} {MARK}", labels={"category": MARK}, intent=MARK)
        ids.append(first.ask("POST", "/v1/attempts?wait_s=20", json=sent).json()["id"])
    line = json.dumps(submission(f"x {MARK}")).encode()
    batch = first.ask(
        "POST", f"/v1/batches?name={MARK}", content=line, headers={"Content-Type": "application/x-ndjson"}
    )
    assert "finished" in first.ask("GET", f"/v1/batches/{MARK}/events").text
    assert first.ask("POST", f"/v1/attempts/{ids[0]}/approve", json={"name": MARK}).status_code < 300
    # A document with errors is on record too, and runs nothing.
    workflow = first.ask("POST", "/v1/workflows", json={"document": f"name: {MARK}\nnodes: []\n"})
    assert workflow.json()["verdict"] == "failed"
    artifact = first.ask("GET", f"/v1/attempts/{ids[0]}").json()["artifacts"][0]
    common = {
        "kind": "small",
        "provider": "rules",
        "uid": first.number,
        "max_attempts": 1,
        "ends_at": NOW,
    }
    ended = {"outcome": Outcome.EXHAUSTED, "finished_at": NOW}
    failure = Failure(attempt_id=ids[1], at=NOW)
    repair = Repair(id=UNKNOWN["id"][:-1] + "1", failure=failure, hint=MARK, **common, **ended)
    peer = Peer(uid=first.number, gid=first.number, pid=0)
    generation = Chain(
        id=UNKNOWN["id"][:-1] + "2",
        started_at=NOW,
        words=GenerationRequest(peer=peer, policy="extractor", intent=MARK),
        rounds=(ChainRound(follows=ids[0], **ended),),
        **common,
    )
    store = DatabaseChainStore(gateway.basics.access)
    gateway.ask(store.save(repair.chain()))
    gateway.ask(store.save(generation))
    assert first.ask("GET", f"/v1/generations/{generation.id}").status_code == 200
    assert first.ask("GET", f"/v1/repairs/{repair.id}").status_code == 200
    return {
        "id": [*ids, batch.json()["id"], MARK, repair.id, generation.id, workflow.json()["id"]],
        "attempt": ids,
        "name": [MARK, artifact["name"], NODE],
        "kind": ["small"],
        "version": ["1"],
        "number": ["1"],
        "run": ["1"],
        "sha256": [artifact["sha256"]],
    }


def bodies(attempt: str) -> dict[str, Any]:
    """Return the request bodies of operations that have one."""
    follows = {**submission("x"), "parent_id": attempt}
    return {
        "submit_attempt": {"json": follows},
        "put_attempt": {"json": submission("x")},
        "check_submission": {"json": follows},
        "submit_batch": {"content": json.dumps(follows), "headers": {"Content-Type": "application/x-ndjson"}},
        "start_repair": {"json": {"provider": "rules"}},
        "start_generation": {"json": {"kind": "small", "intent": "words", "provider": "p"}},
        "hint_generation": {"json": {"hint": "better"}},
        "approve_generation": {"json": {"name": "mine"}},
        "approve_attempt": {"json": {"name": "mine"}},
        "run_pipeline": {"json": {"name": "mine"}},
        "check_workflow": {"json": {"document": "nodes: []"}},
        "start_workflow": {"json": {"document": "nodes: []"}},
        "resume_workflow": {"json": {}},
        "try_policy": {"json": {"policy": "default"}},
        "suggest_policy": {"json": {"policy": "default"}},
        "explain_policy": {"json": {"policy": "default", "language": "python", "code": "x = 1"}},
        "check_policy": {"content": "[policy]", "headers": {"Content-Type": "text/plain"}},
        "create_token": {"json": {"name": "t", "tenant": "first", "scopes": ["submit"]}},
        "put_node": {"json": {"capacity": 1, "ready": True, "version": "0", "profiles": {}}},
        "claim_run": {"json": {"attempt": attempt, "ticket": "t"}},
        "put_run_events": {"json": []},
        "put_run_file": {"content": b"x"},
        "put_run_verdict": {"json": {"lost": True, "reason": "r"}},
    }


def queries(place: Place) -> dict[str, str]:
    """Return query parameters that match only the first tenant's objects."""
    attempt = place.known["attempt"][0]
    return {
        "id_prefix": attempt[:8],
        "batch": place.known["id"][2],
        "label": f"category={MARK}",
        "uid": str(place.first.number),
        "attempt": attempt,
        "kind": "small",
        "after": "0",
    }


def answers(place: Place, name: str, chosen: dict[str, str], query: dict[str, str]) -> tuple[int, str]:
    """Return status and text of the second tenant's answer, without its own input."""
    method, path, _ = OPERATIONS[name]
    sent = bodies(chosen.get("id", place.known["attempt"][0])).get(name, {})
    answer = place.second.ask(method, path.format(**chosen), params=query, **sent)
    text = answer.text
    for value in (*chosen.values(), *query.values()):
        text = text.replace(json.dumps(value)[1:-1], "…") if len(value) > 3 else text
    return answer.status_code, re.sub(r'"[0-9A-HJKMNP-TV-Z]{26}"', '"ULID"', text)


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {ENDLESS}))
def test_second_tenant_is_told_what_it_would_be_if_there_was_no_first(place: Place, name: str) -> None:
    _, path, operation = OPERATIONS[name]
    inside = re.findall(r"{(\w+)}", path)
    before = place.snapshot()
    asked = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
    query = {key: value for key, value in queries(place).items() if key in asked}
    assert set(inside) <= UNKNOWN.keys(), f"say what {inside} of {name} may be, in `UNKNOWN` and `filled`"
    assert "requestBody" not in operation or name in bodies(""), f"say in `bodies` what {name} is sent"

    is_alike = bool(inside) and "kind" not in inside and name not in OWN_ANSWERS
    unknown = answers(place, name, {each: UNKNOWN[each] for each in inside}, {}) if is_alike else None
    # What is nobody's attempt yet would become the second's.
    known = place.known if name not in OWN_ANSWERS else {**place.known, "id": place.known["attempt"]}
    for turn in range(max((len(known[each]) for each in inside), default=1)):
        chosen = {each: known[each][turn % len(known[each])] for each in inside}
        for narrowed in ({}, *({key: value} for key, value in query.items())):
            status, text = answers(place, name, chosen, narrowed)
            assert MARK not in text
            assert not any(known in text for known in place.known["id"])
            assert unknown in {None, (status, text)}
    assert place.snapshot() == before


OWN_ANSWERS = {"put_attempt"}
"""A new id makes an attempt; that of another tenant is answered as a GET of it."""


def test_id_of_another_tenant_is_answered_as_a_get_of_it(place: Place) -> None:
    path = f"/v1/attempts/{place.known['attempt'][0]}"
    read, put = place.second.ask("GET", path), place.second.ask("PUT", path, json=submission("x"))
    assert (put.status_code, put.json()["error"]["code"]) == (404, "not_found")
    assert put.json() == read.json()


def test_lists_of_a_tenant_have_its_own_alone(place: Place) -> None:
    own = place.second.ask("POST", "/v1/attempts?wait_s=20", json=submission("y")).json()["id"]
    for query in ({}, {"limit": "500"}, {"kind": "small"}):
        listed = place.second.ask("GET", "/v1/attempts", params=query).json()["attempts"]
        assert {each["peer"]["uid"] for each in listed} == {place.second.number}
        assert own in {each["id"] for each in listed}
    refused = place.second.ask("GET", "/v1/attempts", params={"uid": str(place.first.number)})
    assert refused.status_code == 403 or refused.json()["attempts"] == []


def test_stream_of_all_attempts_has_a_tenants_own_alone(place: Place) -> None:
    with place.second.http.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        theirs = place.first.ask("POST", "/v1/attempts?wait_s=20", json=submission(f"z {MARK}")).json()["id"]
        own = place.second.ask("POST", "/v1/attempts?wait_s=20", json=submission("z")).json()["id"]
        seen = []
        for line in lines:
            seen.append(line)
            if own in line and "finished" in line:
                break
    assert not any(theirs in line or MARK in line for line in seen)


def test_same_idempotency_key_and_names_of_two_tenants_are_two(place: Place) -> None:
    headers = {"Idempotency-Key": "same"}
    asked = [
        each.ask("POST", "/v1/attempts", json=submission("k"), headers=headers).json()["id"]
        for each in (place.first, place.second)
    ]
    assert len(set(asked)) == 2
    own = place.second.ask("POST", "/v1/attempts?wait_s=20", json=submission("run")).json()["id"]
    approved = place.second.ask("POST", f"/v1/attempts/{own}/approve", json={"name": MARK})
    assert approved.json()["version"] == 1
