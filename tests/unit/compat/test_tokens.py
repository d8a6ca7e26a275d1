"""Requests of other machines, with tokens that a gateway accepts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from starlette.middleware import Middleware

from assayd_client.errors import DaemonUnreachable, Refused
from assayd_compat.app import build_service, set_executor
from assayd_compat.bodies import RequestByteBudget
from assayd_compat.secure import RequireTokenMiddleware
from support.fakes.scripted_executor import ScriptedExecutor

PROGRAM = {"language": "python", "code": "print(1)"}


class GatewaysExecutor(ScriptedExecutor):
    """An executor in front of a gateway that knows one token."""

    answers = True

    async def check_daemon(self) -> None:
        if not self.answers:
            raise DaemonUnreachable("daemon.unreachable", "no gateway answers", retryable=True)
        if self.caller != "good":
            raise Refused("token.refused", "unknown token", status=401)


@pytest.fixture
def executor() -> GatewaysExecutor:
    return GatewaysExecutor()


@pytest_asyncio.fixture
async def http(executor: GatewaysExecutor) -> AsyncIterator[httpx.AsyncClient]:
    app = build_service("/nowhere.sock", callers=[Middleware(RequireTokenMiddleware, shown="shown")])
    set_executor(app, executor, RequestByteBudget())  # type: ignore[arg-type]  # it has what the service uses
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://judge") as client:
        yield client


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer good"}, {"X-Auth-Token": "good"}])
async def test_good_token_is_served(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    answer = await http.post("/run_code", json=PROGRAM, headers=headers)
    assert answer.json()["status"] == "Success"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic good"}, {"X-Auth-Token": "bad"}])
@pytest.mark.parametrize("path", ["/run_code", "/api/v2/execute", "/submissions", "/nothing"])
async def test_other_token_is_refused(
    http: httpx.AsyncClient, executor: GatewaysExecutor, headers: dict[str, str], path: str
) -> None:
    answer = await http.post(path, json=PROGRAM, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert executor.programs == []


async def test_gateway_that_does_not_answer_is_a_503(
    http: httpx.AsyncClient, executor: GatewaysExecutor
) -> None:
    executor.answers = False
    answer = await http.post("/run_code", json=PROGRAM, headers={"Authorization": "Bearer good"})
    assert (answer.status_code, answer.json()["message"]) == (503, "no gateway answers")


async def test_health_needs_no_token(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).status_code == 503  # the executor's own token is unknown here
    assert (await http.get("/metrics")).status_code == 401
