"""Resolves names in threads, with a bounded wait.

`getaddrinfo` cannot be stopped. So each look-up has a thread of its own that the process does not wait for
at its end, and its place is free again only when the look-up is really over: slow names of one attempt use up
the places of that attempt first, then its user's share.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from assayd.egress.places import ThresholdSemaphore

LookUp = Callable[[str, int], tuple[str, ...]]
"""Returns the addresses of a name, in the order in which to try them. Blocks. Raises: OSError."""

PLACES = 32


def look_up(host: str, port: int) -> tuple[str, ...]:
    """Ask the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """One look-up: a folded name, the port that will be connected to, whose it is, the attempt's places."""

    host: str
    port: int
    owner: int
    own: asyncio.Semaphore


class Resolver:
    """Resolves names, a bounded number at once, which users share."""

    def __init__(self, look_up: LookUp = look_up, *, places: int = PLACES) -> None:
        self._look_up = look_up
        self._places = ThresholdSemaphore(places)

    async def acquire(self, looking: Looking) -> None:
        """Wait for a place among the user's; the attempt's own, which the caller has, is given up with it.

        `resolve` must follow at once, which gives both back.
        """
        try:
            await self._places.acquire(looking.owner)
        except asyncio.CancelledError:
            looking.own.release()
            raise

    async def resolve(self, looking: Looking) -> tuple[str, ...]:
        """Return the addresses of a name; none when it has none.

        May be cancelled at any time; the places are then given back when the look-up has ended.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, ...]] = loop.create_future()

        def give(addresses: tuple[str, ...]) -> None:
            looking.own.release()
            self._places.release(looking.owner)
            if not answer.done():
                answer.set_result(addresses)

        def work() -> None:
            try:
                addresses = self._look_up(looking.host, looking.port)
            except (OSError, UnicodeError):
                addresses = ()
            with suppress(RuntimeError):  # the loop has closed: no caller waits
                loop.call_soon_threadsafe(give, addresses)

        try:
            threading.Thread(target=work, daemon=True, name="assayd-resolve").start()
        except RuntimeError:  # the system has no room for a thread
            give(())
        return await answer
