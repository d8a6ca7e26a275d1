from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from assayd_client import AsyncClient
from assayd_client.errors import NotFound
from assayd_client.requests import ClientRequest
from assayd_compat.executor import ProgramExecutor
from assayd_compat.languages import BY_NAME
from assayd_compat.program import Program

LIMITS = {"timeout_s": 60.0, "unit_timeout_s": 60.0, "memory_mb": 512}
PROGRAM = Program(language=BY_NAME["python"], source="print(1)", client="piston")


class SlowDaemon:
    """A daemon that never finishes an attempt, and that knows it only after `late` requests for it."""

    address = None

    def __init__(self, late: int = 0) -> None:
        self.late = late
        self.asked: list[str] = []
        self.submitted = asyncio.Event()

    async def send_for_content(self, ask: ClientRequest[Any]) -> bytes:
        self.asked.append(f"{ask.method} {ask.path}")
        if ask.path.startswith("/v1/policies"):
            return json.dumps({"resources": LIMITS}).encode()
        if ask.method == "POST":
            self.late -= 1
            if self.late >= 0:
                raise NotFound("attempt.unknown", "the attempt doesn't exist")
            return b"{}"
        self.submitted.set()
        await asyncio.Event().wait()
        raise AssertionError


async def cancelled(daemon: SlowDaemon) -> list[str]:
    """Cancel a running program; return the daemon's requests."""
    executor = ProgramExecutor(cast("AsyncClient", daemon), at_once=1, policies={})
    running = asyncio.create_task(executor.run(PROGRAM))
    await daemon.submitted.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await executor.close()
    return daemon.asked


async def test_cancelled_program_cancels_its_attempt() -> None:
    _, submitted, cancel = await cancelled(SlowDaemon())
    assert cancel == submitted.replace("PUT", "POST") + "/cancel"


async def test_attempt_that_the_daemon_does_not_know_yet_is_cancelled_later() -> None:
    *_, first, second, third = await cancelled(SlowDaemon(late=2))
    assert first == second == third
    assert first.endswith("/cancel")


async def test_place_of_a_cancelled_program_is_free() -> None:
    daemon = SlowDaemon()
    executor = ProgramExecutor(cast("AsyncClient", daemon), at_once=1, policies={})
    for _ in range(2):
        daemon.submitted.clear()
        running = asyncio.create_task(executor.run(PROGRAM))
        await daemon.submitted.wait()
        running.cancel()
    await executor.close()
    assert sum(asked.startswith("PUT") for asked in daemon.asked) == 2
