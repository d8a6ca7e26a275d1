"""Permissions: scopes, tenants, nodes, and attempts to bypass tokens."""

import asyncio
from typing import Any

import pytest
import structlog
from fastapi import Request
from sqlalchemy import update
from starlette.routing import Route

from assayd.errors import RequestError
from assayd_cluster import gate as gate_module
from assayd_cluster import tables
from assayd_cluster.gate import build_rate_limit_key, pop_token, require_node_token
from assayd_cluster.gateway.broker_accounts import build_account_name
from assayd_cluster.tokens import FIRST_TENANT, Scope, generate_secret

GOOD = {"kind": "extractor", "payload": {"code": "x = 1"}}


def code(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_without_a_token_only_the_liveness_is_told(gateway) -> None:
    assert (await gateway.ask("GET", "/healthz")).status_code == 200
    for path in (
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/v1/attempts",
        "/nowhere",
        "/v1/nodes/n1",
        "//healthz",
    ):
        refused = await gateway.ask("GET", path)
        assert code(refused) == (401, "token.missing")
        assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_tenant_stands_where_a_user_does(gateway) -> None:
    token = await gateway.token(Scope.SUBMIT)
    made = await gateway.ask("POST", "/v1/attempts", token, json=GOOD)
    assert made.status_code == 202
    assert made.json()["peer"] == {"uid": FIRST_TENANT, "gid": FIRST_TENANT, "pid": 0}


async def test_other_tenant_sees_nothing_and_an_operator_all(gateway) -> None:
    one, two = await gateway.token(Scope.SUBMIT), await gateway.token(Scope.SUBMIT, tenant="two")
    operator = await gateway.token(Scope.OPERATE, tenant="staff")
    made = (await gateway.ask("POST", "/v1/attempts", one, json=GOOD)).json()["id"]
    assert code(await gateway.ask("GET", f"/v1/attempts/{made}", two)) == (404, "not_found")
    for allowed in (one, operator):
        assert (await gateway.ask("GET", f"/v1/attempts/{made}", allowed)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/attempts"),
        ("PUT", "/v1/attempts/01JTC8ZK5V7777777777777777"),
        ("POST", "/v1/attempts/01JTC8ZK5V7777777777777777/cancel"),
        ("DELETE", "/v1/tokens/x"),
        ("PATCH", "/v1/attempts"),
        ("POST", "/nowhere"),
    ],
)
async def test_token_that_reads_writes_nothing(gateway, method: str, path: str) -> None:
    token = await gateway.token(Scope.READ)
    assert code(await gateway.ask(method, path, token, json=GOOD)) == (403, "token.scope")
    assert (await gateway.ask("GET", "/v1/attempts", token)).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/v1/doctor", "/readyz", "/healthz"])
async def test_token_for_metrics_reads_metrics_and_health(gateway, path: str) -> None:
    token = await gateway.token(Scope.METRICS)
    assert (await gateway.ask("GET", path, token)).status_code == 200
    assert code(await gateway.ask("POST", path, token)) == (403, "token.scope")


@pytest.mark.parametrize(
    "path", ["/v1/attempts", "/v1/nodes", "/v1/tokens", "/v1/events", "/v1/audit", "/v1/policies"]
)
async def test_token_for_metrics_reads_nothing_else(gateway, path: str) -> None:
    token = await gateway.token(Scope.METRICS)
    assert code(await gateway.ask("GET", path, token)) == (403, "token.scope")


@pytest.mark.parametrize("path", ["/metrics", "/v1/doctor"])
async def test_token_without_that_scope_reads_no_metrics(gateway, path: str) -> None:
    token = await gateway.token(Scope.SUBMIT)
    assert code(await gateway.ask("GET", path, token)) == (403, "peer.not_operator")


async def test_scope_of_a_newer_gateway_is_left_out(gateway, database) -> None:
    token = await gateway.token(Scope.READ)
    await database.write(
        lambda connection: connection.execute(update(tables.tokens).values(scopes="juggle,read")).close()
    )
    assert (await gateway.ask("GET", "/v1/attempts", token)).status_code == 200


async def test_method_in_a_header_is_not_believed(gateway) -> None:
    token = await gateway.token(Scope.READ)
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        answer = await gateway.ask("GET", "/v1/attempts", token, headers=[(name, "POST")])
        assert answer.status_code == 200
        refused = await gateway.ask("POST", "/v1/attempts", token, json=GOOD, headers=[(name, "GET")])
        assert code(refused) == (403, "token.scope")


async def test_only_operators_make_list_and_revoke_tokens(gateway) -> None:
    for scope in (Scope.READ, Scope.SUBMIT):
        token = await gateway.token(scope)
        assert (await gateway.ask("GET", "/v1/tokens", token)).status_code == 403
        assert (await gateway.ask("POST", "/v1/tokens", token, json={"name": "x"})).status_code == 403
        assert (await gateway.ask("DELETE", "/v1/tokens/x", token)).status_code == 403
    node = await gateway.token(Scope.NODE, node="n1")
    assert code(await gateway.ask("GET", "/v1/tokens", node)) == (403, "token.scope")


async def test_operator_makes_a_token_that_is_shown_once(gateway) -> None:
    operator = await gateway.token(Scope.OPERATE)
    wanted = {"name": "ci", "tenant": "two", "scopes": ["submit"]}
    made = await gateway.ask("POST", "/v1/tokens", operator, json=wanted)
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    secret, token_id = made.json()["token"], made.json()["id"]
    assert (await gateway.ask("GET", "/v1/attempts", secret)).status_code == 200
    listed = await gateway.ask("GET", "/v1/tokens", operator)
    assert secret not in listed.text
    assert listed.json()["tokens"][0]["id"] == token_id
    gone = await gateway.ask("DELETE", f"/v1/tokens/{token_id}", operator)
    assert gone.json()["revoked_at"]
    assert code(await gateway.ask("GET", "/v1/attempts", secret)) == (401, "token.revoked")
    assert code(await gateway.ask("DELETE", "/v1/tokens/nothing", operator)) == (404, "not_found")


class Accounts:
    """Accounts of a broker whose management API can be unavailable."""

    def __init__(self) -> None:
        self.away = False
        self.names: set[str] = set()

    async def create(self, node: str, token_id: str) -> str:
        self._require()
        self.names.add(build_account_name(node, token_id))
        return f"amqps://{build_account_name(node, token_id)}:x@broker/assayd"

    async def remove(self, node: str, token_id: str) -> None:
        self._require()
        self.names.discard(build_account_name(node, token_id))

    def _require(self) -> None:
        if self.away:
            raise RequestError("broker.accounts", "it is away", retryable=True)


NODE_TOKEN = {"name": "n1", "tenant": "nodes", "scopes": ["node"], "node": "n1"}


async def test_account_of_the_broker_comes_and_goes_with_a_nodes_token(gateway) -> None:
    accounts = gateway.app.state.broker_accounts = Accounts()
    operator = await gateway.token(Scope.OPERATE)
    made = (await gateway.ask("POST", "/v1/tokens", operator, json=NODE_TOKEN)).json()
    assert made["broker_url"].startswith(f"amqps://n1-{made['id']}:")
    await gateway.ask("POST", "/v1/tokens", operator, json={"name": "x"})
    assert accounts.names == {f"n1-{made['id']}"}
    accounts.away = True
    path = f"/v1/tokens/{made['id']}"
    assert code(await gateway.ask("DELETE", path, operator)) == (503, "broker.accounts")
    assert code(await gateway.ask("PUT", "/v1/nodes/n1", made["token"])) == (401, "token.revoked")
    accounts.away = False
    assert (await gateway.ask("DELETE", path, operator)).status_code == 200
    assert accounts.names == set()


async def test_token_whose_account_cannot_be_made_is_none(gateway, tokens) -> None:
    accounts = gateway.app.state.broker_accounts = Accounts()
    accounts.away = True
    operator = await gateway.token(Scope.OPERATE)
    assert code(await gateway.ask("POST", "/v1/tokens", operator, json=NODE_TOKEN)) == (
        503,
        "broker.accounts",
    )
    assert [token.revoked_at is None for token in await tokens.list() if token.node] == [False]


@pytest.mark.parametrize(
    "wanted",
    [
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": []},
        {"name": "x\n", "scopes": ["read"]},
        {"name": "x", "scopes": ["node"]},
        {"name": "x", "scopes": ["read"], "tenant": "nodes"},
        {"name": "x", "sha256": "0" * 64},
    ],
)
async def test_token_that_makes_no_sense_is_not_made(gateway, wanted: dict[str, object]) -> None:
    operator = await gateway.token(Scope.OPERATE)
    assert code(await gateway.ask("POST", "/v1/tokens", operator, json=wanted)) == (422, "invalid")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/nodes/n1", True),
        ("/v1/nodes/n1/runs", True),
        ("/v1/nodes/n2", False),
        ("/v1/nodes/n10", False),
        ("/v1/nodes/n2/runs", False),
        ("/v1/nodes", False),
        ("/v1/nodes/", False),
        ("/v1/nodes/N1/runs", False),
        ("/v1/nodes/n1%2F..%2Fn2/runs", True),  # is below it, and there is nothing
        ("/v1/nodes//n1/runs", False),
        ("/v1/attempts", False),
        ("/v1/tokens", False),
        ("/metrics", False),
        ("/openapi.json", False),
    ],
)
async def test_token_of_a_node_asks_below_its_node_alone(gateway, path: str, allowed: bool) -> None:
    token = await gateway.token(Scope.NODE, node="n1")
    answer = await gateway.ask("PUT", path, token, json={})
    assert (code(answer) == (403, "token.scope")) is not allowed
    if allowed:
        assert answer.status_code == 404  # no such route in this application


@pytest.mark.parametrize("scope", [Scope.READ, Scope.SUBMIT])
async def test_other_tokens_do_not_reach_nodes(gateway, scope: Scope) -> None:
    token = await gateway.token(scope)
    for path in ("/v1/nodes", "/v1/nodes/n1", "/v1/nodes/n1/runs"):
        assert code(await gateway.ask("GET", path, token)) == (403, "token.scope")


@pytest.mark.parametrize(("holder", "refused"), [("n1", False), ("n2", True), (None, True)])
async def test_route_of_a_node_is_for_its_own_token(gateway, holder: str | None, refused: bool) -> None:
    scope: dict[str, Any] = {"type": "http", "headers": [], "state": {}}
    if holder is not None:
        secret = await gateway.token(Scope.NODE, node=holder)
        scope["state"]["token"] = await gateway.verifier.verify(secret, "a")
    request = Request(scope)
    if not refused:
        require_node_token(request, "n1")
        return
    with pytest.raises(RequestError, match="with its own token"):
        require_node_token(request, "n1")


async def test_operators_token_is_no_nodes(gateway) -> None:
    record = await gateway.verifier.verify(await gateway.token(Scope.OPERATE), "a")
    with pytest.raises(RequestError):
        require_node_token(Request({"type": "http", "headers": [], "state": {"token": record}}), "n1")


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Basic {token}")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "{token}")],
        [("Authorization", "Bearer {token} {token}")],
        [("Authorization", "Bearer {token}"), ("Authorization", "Bearer {token}")],
        [("Authorization", "Bearer {token}"), ("AUTHORIZATION", "Bearer other")],
        [("Authorization", "Bearer {token}x")],
        [("Authorization", "Bearer  {token}")],
    ],
)
async def test_token_in_another_form_is_refused(gateway, headers: list[tuple[str, str]]) -> None:
    token = await gateway.token(Scope.OPERATE)
    given = [(name, value.format(token=token)) for name, value in headers]
    answer = await gateway.ask("GET", "/v1/attempts", headers=given)
    assert code(answer) == (401, "token.refused")
    assert token not in answer.text


@pytest.mark.parametrize("place", ["/v1/attempts?token={token}", "/v1/attempts?access_token={token}"])
async def test_token_in_the_path_is_none(gateway, place: str) -> None:
    token = await gateway.token(Scope.OPERATE)
    assert code(await gateway.ask("GET", place.format(token=token))) == (401, "token.missing")


async def test_headers_of_proxies_are_not_believed(gateway) -> None:
    for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded"):
        for _ in range(12):
            answer = await gateway.ask(
                "GET", "/v1/attempts", generate_secret(), headers=[(name, "127.0.0.1")]
            )
    assert code(answer) == (429, "token.failures")
    assert answer.headers["retry-after"]


async def test_nothing_behind_the_gate_sees_the_token(gateway) -> None:
    token, seen = await gateway.token(Scope.SUBMIT), []

    async def look(request: Request) -> Any:
        seen.append(str(request.scope))
        raise RequestError("not_found", "x")

    gateway.app.router.routes.insert(0, Route("/look", look))
    await gateway.ask("GET", "/look", token)
    assert [token in each for each in seen] == [False]


async def test_tokens_are_not_logged(gateway) -> None:
    good, guess = await gateway.token(Scope.SUBMIT), generate_secret()
    with structlog.testing.capture_logs() as lines:
        await gateway.ask("GET", "/v1/attempts", good)
        await gateway.ask("GET", "/v1/attempts", guess)
        await gateway.tokens.revoke(gateway.made[good])
        gateway.verifier.forget()
        await gateway.ask("GET", "/v1/attempts", good)
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["token.refused"] * 2
    assert not any(secret in str(line) for line in lines for secret in (good, guess))


async def test_revocation_ends_what_is_under_way(gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "FRESH_S", 0.01)
    token, begun = await gateway.token(Scope.SUBMIT), asyncio.Event()

    async def wait(_: Request) -> Any:
        begun.set()
        await asyncio.Event().wait()

    gateway.app.router.routes.insert(0, Route("/wait", wait))
    asked = asyncio.create_task(gateway.ask("GET", "/wait", token))
    await begun.wait()
    await gateway.tokens.revoke(gateway.made[token])
    gateway.clock.seconds += 5
    async with asyncio.timeout(10):
        assert code(await asked) == (401, "token.revoked")


async def test_guesses_keep_no_request_of_a_revoked_token_alive(
    gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "FRESH_S", 0.01)
    token, begun = await gateway.token(Scope.SUBMIT), asyncio.Semaphore(0)

    async def wait(_: Request) -> Any:
        begun.release()
        await asyncio.Event().wait()

    gateway.app.router.routes.insert(0, Route("/wait", wait))
    asked = [asyncio.create_task(gateway.ask("GET", "/wait", token)) for _ in range(3)]
    for _ in asked:
        await begun.acquire()
    for _ in range(30):
        await gateway.ask("GET", "/v1/attempts", generate_secret())
    await gateway.tokens.revoke(gateway.made[token])
    gateway.clock.seconds += 5
    async with asyncio.timeout(10):
        answers = await asyncio.gather(*asked)
    assert [code(answer) for answer in answers] == [(401, "token.revoked")] * 3


async def test_one_tenant_cannot_hold_all_requests(gateway) -> None:
    one, two = await gateway.token(Scope.SUBMIT), await gateway.token(Scope.SUBMIT, tenant="two")
    begun, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(_: Request) -> Any:
        begun.release()
        await go.wait()
        raise RequestError("not_found", "x")

    gateway.app.router.routes.insert(0, Route("/wait", wait))
    held = [asyncio.create_task(gateway.ask("GET", "/wait", one)) for _ in range(8)]
    for _ in held:
        await begun.acquire()
    assert code(await gateway.ask("GET", "/v1/attempts", one)) == (429, "quota.full")
    assert (await gateway.ask("GET", "/v1/attempts", two)).status_code == 200
    go.set()
    await asyncio.gather(*held)
    assert (await gateway.ask("GET", "/v1/attempts", one)).status_code == 200


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("/run/socket", "unknown"),
    ],
)
def test_under_what_an_address_is_counted(address: str, counted: str) -> None:
    assert build_rate_limit_key(address) == counted


def test_token_is_taken_out_whatever_the_case() -> None:
    scope: dict[str, Any] = {"headers": [(b"AuthoriZation", b"bEaReR abc"), (b"host", b"h")]}
    assert pop_token(scope) == "abc"
    assert scope["headers"] == [(b"host", b"h")]


async def test_web_socket_is_not_let_past(gateway) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/v1/events", "headers": [], "state": {"caller": None}}
    await gateway.gate(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("path", ["/metrics", "/v1/doctor"])
async def test_what_tells_of_all_tenants_is_for_operators(gateway, path: str) -> None:
    for scope in (Scope.READ, Scope.SUBMIT):
        refused = await gateway.ask("GET", path, await gateway.token(scope))
        assert code(refused) == (403, "peer.not_operator")
    operator = await gateway.token(Scope.OPERATE, tenant="staff")
    assert (await gateway.ask("GET", path, operator)).status_code == 200
