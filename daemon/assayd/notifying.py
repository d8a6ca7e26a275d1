"""Tells the service manager how the daemon is: ready, alive, stopping (sd_notify(3)). Silent without one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import NoReturn

import sdnotify

USUALLY_S = 5.0
"""How often the status is told where no watchdog asks for more."""


class Notifier:
    """The line to the service manager.

    A sign of life is given from the event loop, so that it stops when the loop does: the watchdog then
    ends the daemon, and its next life takes up what this one has left.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        # Without an address it would open a socket and forget it.
        self._line = sdnotify.SystemdNotifier() if environ.get("NOTIFY_SOCKET") else None
        if self._line is not None and self._line.socket is not None:
            # One that does not listen must not hold up the daemon; what it misses is told again.
            self._line.socket.setblocking(False)
        self.every_s = _interval_s(environ)

    def ready(self, status: str) -> None:
        """Say that the daemon serves, at first and after a reload."""
        self._say(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that the policies are being read anew; `ready` ends that."""
        self._say("RELOADING=1")

    def stopping(self) -> None:
        """Say that the daemon ends."""
        self._say("STOPPING=1\nSTATUS=stopping")

    def close(self) -> None:
        """Say no more."""
        if self._line is not None and self._line.socket is not None:
            self._line.socket.close()
        self._line = None

    def _say(self, what: str) -> None:
        if self._line is not None:
            self._line.notify(what)

    async def keep_telling(self, status: Callable[[], str]) -> NoReturn:
        """Tell on a timer that the daemon lives, and how it is."""
        while True:
            self._say(f"WATCHDOG=1\nSTATUS={status()}")
            await asyncio.sleep(self.every_s)


def _interval_s(environ: Mapping[str, str]) -> float:
    """Give the time between two signs of life: half of what the watchdog allows."""
    allowed, meant_for = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
    if not allowed.isdigit() or int(allowed) == 0 or meant_for not in {None, str(os.getpid())}:
        return USUALLY_S
    return min(int(allowed) / 2e6, USUALLY_S)
