"""A cancelled creation leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import docker
import pytest

from assayd.clock import UlidGenerator
from assayd.engines.docker import DockerEngine
from assayd.ports.engine import LABEL_CONTAINER, LABEL_DAEMON
from support.engines.bare_container import spec

pytestmark = pytest.mark.engine


async def test_container_of_a_creation_that_was_cancelled_is_removed(
    docker_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One thread, so that the listing comes after whatever the creation has to do.
    engine = DockerEngine(base_url=docker_host, threads=1)
    daemon_id = UlidGenerator().new()
    wanted = replace(spec(), labels={LABEL_DAEMON: daemon_id, LABEL_CONTAINER: UlidGenerator().new()})
    begun, cancelled = threading.Event(), threading.Event()
    create = docker.APIClient.create_container_from_config

    def create_once_cancelled(*args: Any, **kwargs: Any) -> Any:
        begun.set()
        assert cancelled.wait(60)
        return create(*args, **kwargs)

    monkeypatch.setattr(docker.APIClient, "create_container_from_config", create_once_cancelled)
    creating = asyncio.ensure_future(engine.create(wanted))
    assert await asyncio.to_thread(begun.wait, 60)
    creating.cancel()
    with suppress(asyncio.CancelledError):
        await creating
    cancelled.set()
    with suppress(TimeoutError):
        async with asyncio.timeout(60):  # it is removed in the background
            while await engine.list_owned(daemon_id):
                await asyncio.sleep(0.05)
    left = await engine.list_owned(daemon_id)
    await engine.close()
    assert (creating.cancelled(), left) == (True, [])
