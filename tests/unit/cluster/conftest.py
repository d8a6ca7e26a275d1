"""Tokens in a test's database, and a gateway's API with an in-memory daemon."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from assayd.api import SocketAccess, create_app
from assayd.clock import UlidGenerator
from assayd.store.access import DatabaseAccess, open_access
from assayd_cluster import tables
from assayd_cluster.gate import TokenGate
from assayd_cluster.gateway import routes
from assayd_cluster.gateway.broker_accounts import SharedAccount
from assayd_cluster.tokens import DatabaseTokens, Scope, TokenTerms, TokenVerifier
from support.daemons.fake_service import FakeService


@dataclass
class SetClock:
    """A clock that a test sets."""

    seconds: float = 1000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class Gateway:
    """A gateway's API with its parts."""

    tokens: DatabaseTokens
    verifier: TokenVerifier
    clock: SetClock
    app: Any
    gate: TokenGate
    service: FakeService
    address: str = "192.0.2.1"
    made: dict[str, str] = field(default_factory=dict)

    async def token(self, *scopes: Scope, tenant: str = "one", node: str | None = None) -> str:
        tenant = "nodes" if node else tenant
        terms = TokenTerms(name="t", tenant=tenant, scopes=frozenset(scopes), node=node)
        record, secret = await self.tokens.create(terms)
        self.made[secret] = record.id
        return secret

    async def ask(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        headers = [("Authorization", f"Bearer {token}")] if token else []
        headers += more.pop("headers", [])
        transport = httpx.ASGITransport(self._with_state, client=(self.address, 4000))
        async with httpx.AsyncClient(transport=transport, base_url="https://gateway") as client:
            return await client.request(method, path, headers=headers, **more)

    async def _with_state(self, scope: Any, receive: Any, send: Any) -> None:
        """Add the connection's state, like the server."""
        scope["state"] = {"caller": None}
        await self.gate(scope, receive, send)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[DatabaseAccess]:
    async with open_access(tmp_path) as access:
        await access.create_tables(tables.ALL)
        yield access


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def tokens(database: DatabaseAccess, clock: SetClock) -> DatabaseTokens:
    return DatabaseTokens(database, clock, UlidGenerator())


@pytest.fixture
def gateway(tokens: DatabaseTokens, clock: SetClock) -> Gateway:
    service, verifier = FakeService(), TokenVerifier(tokens, clock)
    app = create_app(service, None, access=SocketAccess(), routers=[routes.operator_router])
    app.state.cluster_tokens = tokens
    app.state.verifier = verifier
    app.state.broker_accounts = SharedAccount()
    gate = TokenGate(app, verifier, max_per_tenant=8)
    return Gateway(tokens=tokens, verifier=verifier, clock=clock, app=app, gate=gate, service=service)
