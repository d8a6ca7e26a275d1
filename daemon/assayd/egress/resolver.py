"""Names to addresses, in threads that nobody waits for longer than there is time.

`getaddrinfo` cannot be stopped. So each look-up has a thread of its own that the process does not wait for
at its end, and its place is free again only when the look-up is really over: slow names of one attempt use up
the places of that attempt first.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

LookUp = Callable[[str, int], tuple[str, ...]]
"""Gives the addresses of a name, in the order in which to try them. Blocks. Raises: OSError."""

PLACES = 32


def look_up(host: str, port: int) -> tuple[str, ...]:
    """Ask the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))


class Resolver:
    """Resolves names, a bounded number at once."""

    def __init__(self, look_up: LookUp = look_up, *, places: int = PLACES) -> None:
        self._look_up = look_up
        self._places = asyncio.Semaphore(places)

    async def resolve(self, host: str, port: int, own_places: asyncio.Semaphore) -> tuple[str, ...]:
        """Return the addresses of a name; none when it has none.

        May be cancelled at any time; the places are then given back when the look-up has ended.

        Args:
            host: a folded name.
            port: the port that will be connected to.
            own_places: those of the attempt.
        """
        await own_places.acquire()
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            own_places.release()
            raise
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, ...]] = loop.create_future()

        def give(addresses: tuple[str, ...]) -> None:
            own_places.release()
            self._places.release()
            if not answer.done():
                answer.set_result(addresses)

        def work() -> None:
            try:
                addresses = self._look_up(host, port)
            except (OSError, UnicodeError):
                addresses = ()
            with suppress(RuntimeError):  # the loop has closed: nobody is left to tell
                loop.call_soon_threadsafe(give, addresses)

        try:
            threading.Thread(target=work, daemon=True, name="assayd-resolve").start()
        except RuntimeError:  # the system has no room for a thread
            give(())
        return await answer
