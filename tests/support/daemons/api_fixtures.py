"""The application, called directly as any user, for tests of routes."""

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp

from assayd.api import ApiLimits, Caller, SocketAccess, create_app
from assayd.clock import SystemClock
from assayd.kinds.registry import load_own_validators
from assayd.model.submission import Peer
from assayd.wiring.wings import load_routers
from assayd_chains.routes import ROUTERS as CHAIN_ROUTERS
from assayd_cluster.gate import TokenGate
from assayd_cluster.tokens import TokenVerifier
from support.daemons.fake_service import FakeService

NO_TOKENS = TokenVerifier(SimpleNamespace(), SystemClock())  # type: ignore[arg-type]
"""Knows none: these are users of the Unix socket."""
Connect = Callable[..., httpx.AsyncClient]


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """Return one application for all tests of a module, because creating it takes longer than the tests."""
    limits = ApiLimits(body_bytes=2 * 2**20, heartbeat_s=0.01)
    routers = (*CHAIN_ROUTERS, *load_routers(load_own_validators()))
    access = SocketAccess(operators_gid=500)
    return create_app(FakeService(), None, access=access, limits=limits, routers=routers)


@pytest.fixture
def service(app: FastAPI) -> FakeService:
    app.state.service.reset()
    return app.state.service


@pytest.fixture(params=["daemon", pytest.param("gateway", marks=pytest.mark.cluster)])
async def connect(
    app: FastAPI, service: FakeService, request: pytest.FixtureRequest
) -> AsyncIterator[Connect]:
    """Return clients that call the application as any user; a gateway's stands behind its token gate."""
    clients = []
    entered: ASGIApp = app if request.param == "daemon" else TokenGate(app, NO_TOKENS)

    def as_user(uid: int = 1000, *groups: int) -> httpx.AsyncClient:
        caller = Caller(peer=Peer(uid=uid, gid=uid, pid=1), groups=frozenset({uid, *groups}))

        async def app_of_caller(scope, receive, send):
            await entered({**scope, "state": {"caller": caller}}, receive, send)

        transport = httpx.ASGITransport(app_of_caller, raise_app_exceptions=False)
        clients.append(httpx.AsyncClient(transport=transport, base_url="http://assayd"))
        return clients[-1]

    yield as_user
    for client in clients:
        await client.aclose()
