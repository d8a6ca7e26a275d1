"""The service in this process, with a scripted executor."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from assayd_compat.app import build_service, set_executor
from assayd_compat.bodies import RequestByteBudget
from support.fakes.scripted_executor import ScriptedExecutor


@pytest.fixture
def executor() -> ScriptedExecutor:
    return ScriptedExecutor()


@pytest_asyncio.fixture
async def http(executor: ScriptedExecutor) -> AsyncIterator[httpx.AsyncClient]:
    app = build_service("/nowhere.sock")
    set_executor(app, executor, RequestByteBudget())  # type: ignore[arg-type]  # it has what the service uses
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://compat") as client:
        yield client
