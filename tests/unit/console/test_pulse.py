"""The daemon's figures, and the time of its last answer."""

from __future__ import annotations

from typing import Any

import pytest

from assayd_client import DaemonUnreachable
from assayd_console.daemon import EVERY_S, DaemonSampler
from unit.console.test_pages import logged_in


class Daemon:
    """Answers while it is up."""

    up = True

    async def request_bytes(self, _: Any) -> bytes:
        if not self.up:
            raise DaemonUnreachable("daemon.unreachable", "the daemon is unreachable")
        return b"assayd_ready 1\n"

    async def ask(self, _: Any) -> Any:
        return {"total": 0}


async def test_pulse_keeps_the_time_of_the_last_answer() -> None:
    now, daemon = [0.0], Daemon()
    pulse = DaemonSampler(daemon, lambda: now[0])  # type: ignore[arg-type]
    look = await pulse.get_sample()
    now[0], daemon.up = EVERY_S, False

    with pytest.raises(DaemonUnreachable):
        await pulse.get_sample()

    assert pulse.last_sampled_at == look.at


async def test_now_says_that_the_daemon_does_not_answer() -> None:
    async with logged_in({}) as (client, _):
        page = await client.get("/now")

    assert page.status_code == 200
    assert "no response" in page.text
    assert "serving" not in page.text
