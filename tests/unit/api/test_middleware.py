"""The id of a request, and that requests are counted by their route."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import Counter
from starlette.types import Receive, Scope, Send

from assayd.api import Caller, SocketAccess, create_app
from assayd.api.middleware import RequestIdMiddleware
from assayd.log import get_current_request_id
from assayd.metrics import Metrics
from assayd.model.submission import Peer
from support.daemons.fake_service import FakeService

CALLER = Caller(peer=Peer(uid=1000, gid=1000, pid=1), groups=frozenset({1000}))


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture(scope="module")
def app(metrics: Metrics) -> FastAPI:
    return create_app(FakeService(), None, access=SocketAccess(), metrics=metrics)


async def ask(app: object, path: str, *, method: str = "GET", given: str | None = None) -> httpx.Response:
    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {"caller": CALLER}}, receive, send)  # type: ignore[operator]

    headers = {"X-Request-Id": given} if given is not None else {}
    transport = httpx.ASGITransport(called, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://assayd") as client:
        return await client.request(method, path, headers=headers)


def count(counter: Counter, *labels: str) -> float:
    return counter.labels(*labels)._value.get()


async def test_new_id_is_given_to_each_request(app: FastAPI) -> None:
    ids = [(await ask(app, "/healthz")).headers["X-Request-Id"] for _ in range(2)]
    assert len(ids[0]) == 26
    assert ids[0] != ids[1]


async def test_id_of_the_caller_is_taken_over(app: FastAPI) -> None:
    assert (await ask(app, "/healthz", given="ci-run_7.2")).headers["X-Request-Id"] == "ci-run_7.2"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, 'a"b', "a\tb"])
async def test_id_that_would_spoil_the_log_is_replaced(app: FastAPI, given: str) -> None:
    assert len((await ask(app, "/healthz", given=given)).headers["X-Request-Id"]) == 26


async def test_id_is_bound_while_the_request_is_answered_and_no_longer() -> None:
    seen = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(get_current_request_id())
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    await ask(RequestIdMiddleware(inner, Metrics()), "/", given="mine")

    assert (seen, get_current_request_id()) == (["mine"], None)


async def test_request_is_counted_by_its_route_and_never_by_its_path(app: FastAPI, metrics: Metrics) -> None:
    for attempt in ("01JTC8ZK5V7777777777777777", "another"):
        assert (await ask(app, f"/v1/attempts/{attempt}")).status_code == 404
    assert (await ask(app, "/no/such/thing")).status_code == 404
    assert (await ask(app, "/healthz", method="BREW")).status_code == 405

    assert count(metrics.requests, "GET", "/v1/attempts/{id}", "404") == 2
    assert count(metrics.requests, "GET", "none", "404") == 1
    assert count(metrics.requests, "other", "/healthz", "405") == 1


async def test_defect_is_counted_as_one_and_still_raised() -> None:
    metrics = Metrics()

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a defect")

    await ask(RequestIdMiddleware(broken, metrics), "/")

    assert count(metrics.requests, "GET", "none", "500") == 1
