"""Resolves names in threads, with a limited wait.

`getaddrinfo` can't be cancelled. Therefore, each lookup runs in a separate daemon thread, and its slot is
released only when the lookup really ends. If an attempt looks up slow names, it first uses up the attempt's
slots, then the user's share.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from assayd.egress.turns import ThresholdSemaphore

ResolveName = Callable[[str, int], tuple[str, ...]]
"""Returns the addresses of a name, in the order in which to try them. Blocks. Raises: OSError."""

PLACES = 32


def resolve_blocking(host: str, port: int) -> tuple[str, ...]:
    """Resolve a name with the system's resolver. This call blocks.

    Raises: OSError, if the name isn't resolved.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLookup:
    """One lookup, with the folded name, the port, the user, and the attempt's slots."""

    host: str
    port: int
    owner: int
    own: asyncio.Semaphore


class Resolver:
    """A resolver of names. Users share a limited number of concurrent lookups."""

    def __init__(self, look_up: ResolveName = resolve_blocking, *, places: int = PLACES) -> None:
        self._look_up = look_up
        self._places = ThresholdSemaphore(places)

    async def acquire(self, looking: NameLookup) -> None:
        """Wait for a slot of the user. If the wait is cancelled, also release the attempt's slot.

        The caller already holds the attempt's slot. The caller must call `resolve` next, which releases
        both slots.
        """
        try:
            await self._places.acquire(looking.owner)
        except asyncio.CancelledError:
            looking.own.release()
            raise

    async def resolve(self, looking: NameLookup) -> tuple[str, ...]:
        """Return the addresses of a name. The result is empty if the name has no addresses.

        The call can be cancelled at any time; the slots are released when the lookup ends.
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
            with suppress(RuntimeError):  # The loop has closed, so no caller waits.
                loop.call_soon_threadsafe(give, addresses)

        try:
            threading.Thread(target=work, daemon=True, name="assayd-resolve").start()
        except RuntimeError:  # The system can't create another thread.
            give(())
        return await answer
