from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from assayd.analysis.analyst import AnalysisLimits, Analyst
from assayd.store.access import DatabaseAccess, open_access
from support.daemons.api_fixtures import app, connect, service  # noqa: F401 - pytest finds them


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def analyst() -> AsyncIterator[Analyst]:
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        yield analyst


@pytest_asyncio.fixture(loop_scope="module")
async def access(tmp_path: Path, database_url: str | None) -> AsyncIterator[DatabaseAccess]:
    async with open_access(tmp_path, database_url) as access:
        yield access
