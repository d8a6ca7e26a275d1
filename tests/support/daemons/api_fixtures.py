"""The application, called directly as any user, for tests of routes."""

from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from fastapi import FastAPI

from assayd.api import ApiLimits, Caller, SocketAccess, create_app
from assayd.kinds.registry import all_validators
from assayd.model.submission import Peer
from assayd.wiring.from_kinds import routers_of
from support.daemons.fake_service import FakeService

Connect = Callable[..., httpx.AsyncClient]


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """Return one application for all tests of a module; making it takes longer than they do."""
    limits = ApiLimits(body_bytes=2 * 2**20, heartbeat_s=0.01)
    routers = routers_of(all_validators())
    access = SocketAccess(operators_gid=500)
    return create_app(FakeService(), None, None, access=access, limits=limits, routers=routers)


@pytest.fixture
def service(app: FastAPI) -> FakeService:
    app.state.service.reset()
    return app.state.service


@pytest.fixture
async def connect(app: FastAPI, service: FakeService) -> AsyncIterator[Connect]:
    """Return clients that call the application directly, as any user."""
    clients = []

    def as_user(uid: int = 1000, *groups: int) -> httpx.AsyncClient:
        caller = Caller(peer=Peer(uid=uid, gid=uid, pid=1), groups=frozenset({uid, *groups}))

        async def app_of_caller(scope, receive, send):
            await app({**scope, "state": {"caller": caller}}, receive, send)

        transport = httpx.ASGITransport(app_of_caller, raise_app_exceptions=False)
        clients.append(httpx.AsyncClient(transport=transport, base_url="http://assayd"))
        return clients[-1]

    yield as_user
    for client in clients:
        await client.aclose()
