"""One sandbox for all submissions of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from support.daemons.attempts import Attempts, attempts_on


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attempts(docker_host: str) -> AsyncIterator[Attempts]:
    """Return what runs submissions."""
    async with attempts_on(docker_host) as made:
        yield made
