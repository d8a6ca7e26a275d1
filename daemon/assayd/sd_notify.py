"""Notifies the service manager, if there is one, of the daemon's state (sd_notify(3))."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import sdnotify

from assayd.aio import task_group

USUALLY_S = 5.0
"""How often the status is sent if no watchdog demands more."""


class Notifier:
    """A connection to the service manager. `status` returns the daemon's state in one line.

    Heartbeats are sent from the event loop, so that they stop if the event loop is blocked. The service
    manager's watchdog then kills the daemon, and the daemon's next run recovers the unfinished work.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.status: Callable[[], str] = lambda: "starting"
        self.every_s = _heartbeat_interval_s(environ)
        # Without an address it would open a socket and forget it.
        self._line = sdnotify.SystemdNotifier() if environ.get("NOTIFY_SOCKET") else None
        if self._line is not None and self._line.socket is not None:
            # A service manager that doesn't listen must not delay the daemon; later notices repeat the state.
            self._line.socket.setblocking(False)

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Send heartbeats and the status at regular intervals until the end of the `with` block."""
        async with task_group() as tasks:
            telling = tasks.create_task(self._send_periodically(), name="tell")
            try:
                yield
            finally:
                telling.cancel()

    async def _send_periodically(self) -> None:
        while True:
            self._notify(f"WATCHDOG=1\nSTATUS={self.status()}")
            await asyncio.sleep(self.every_s)

    def ready(self) -> None:
        """Notify the service manager that the daemon is ready, after the start and after each reload."""
        self._notify(f"READY=1\nSTATUS={self.status()}")

    def notify_reloading(self) -> None:
        """Notify the service manager that a reload of the policies has begun; `ready` reports its end."""
        self._notify("RELOADING=1")

    def stopping(self) -> None:
        """Notify the service manager that the daemon is stopping."""
        self._notify(f"STOPPING=1\nSTATUS={self.status()}")

    def close(self) -> None:
        """Close the socket; no more notifications are sent."""
        if self._line is not None and self._line.socket is not None:
            self._line.socket.close()
        self._line = None

    def _notify(self, what: str) -> None:
        if self._line is not None:
            self._line.notify(what)


def _heartbeat_interval_s(environ: Mapping[str, str]) -> float:
    """Return the heartbeat interval in seconds: half of the watchdog's timeout."""
    allowed, meant_for = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
    if not allowed.isdigit() or int(allowed) == 0 or meant_for not in {None, str(os.getpid())}:
        return USUALLY_S
    return min(int(allowed) / 2e6, USUALLY_S)
