"""Daemons that tests stop, starve or corrupt, and one sandbox for all submissions of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.daemons.attempts import Attempts, attempts_on
from support.daemons.daemon_fixtures import make_daemon, pytest_runtest_makereport  # noqa: F401 - pytest finds them
from support.engines.oci import make_one_engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attempts(request: pytest.FixtureRequest) -> AsyncIterator[Attempts]:
    """Return an object that runs submissions."""
    async with attempts_on(make_one_engine(request)) as made:
        yield made
