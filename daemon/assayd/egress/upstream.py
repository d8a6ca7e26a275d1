"""A connection to a host at an address that was checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from assayd.aio import open_first_available
from assayd.egress.decision import failed
from assayd.egress.ledger import LedgerEntry
from assayd.egress.turns import Turn
from assayd.findings.network_rules import NetworkTrouble


@asynccontextmanager
async def limit_idle_time(idle_s: float) -> AsyncIterator[Callable[[], None]]:
    """While the body runs, limit the time between calls of the yielded function.

    Raises: NotServed ``network.idle``.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(idle_s) as timeout:

            def moved() -> None:
                # An expired timeout is already being raised and can't be rescheduled.
                if not timeout.expired():
                    timeout.reschedule(loop.time() + idle_s)

            yield moved
    except TimeoutError:
        raise failed(NetworkTrouble.IDLE) from None


READ_BYTES = 32 * 1024
AHEAD_BYTES = 1
"""The socket is read again only when its bytes are consumed, so that a host that sends slowly takes turns
too.
"""
MOST_TRIES = 4
"""Maximum addresses to try per name."""


class Upstream:
    """The host's end of an access. All of its failures are raised as NotServed."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, entry: LedgerEntry, turn: Turn
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.entry = entry
        self.turn = turn

    async def read(self) -> bytes:
        """Wait for a turn, and return the next bytes; empty once the host has sent everything."""
        try:
            data = await self._reader.read(READ_BYTES)
        except OSError as problem:
            raise failed(NetworkTrouble.BROKEN_OFF) from problem
        if data:
            self.entry.received(len(data))
        await self.turn()
        return data

    async def send(self, data: bytes) -> None:
        """Send bytes at the speed at which the host reads them."""
        self.entry.sent(len(data))
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as problem:
            raise failed(NetworkTrouble.BROKEN_OFF) from problem

    def end(self) -> None:
        """Signal the end of the data to the host."""
        try:
            self._writer.write_eof()
        except OSError as problem:
            raise failed(NetworkTrouble.BROKEN_OFF) from problem


@asynccontextmanager
async def connect_upstream(
    addresses: Sequence[str], port: int, entry: LedgerEntry, *, timeout_s: float, turn: Turn
) -> AsyncIterator[Upstream]:
    """Connect to the first address that responds; close the connection after the body.

    Raises: NotServed, if no address responds in time.
    """
    reader, writer, address = await _connect_first(addresses[:MOST_TRIES], port, timeout_s)
    try:
        entry.record_address(address)
        yield Upstream(reader, writer, entry, turn)
    finally:
        writer.transport.abort()


async def _connect_first(
    addresses: Sequence[str], port: int, timeout_s: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """Try each address in turn, for its share of the remaining time."""

    async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        reader, writer = await asyncio.open_connection(address, port, limit=AHEAD_BYTES)
        return reader, writer, address

    try:
        until = asyncio.get_running_loop().time() + timeout_s
        return await open_first_available(addresses, connect, until=until)
    except TimeoutError:
        raise failed(NetworkTrouble.TIMED_OUT) from None
    except OSError:
        raise failed(NetworkTrouble.UNREACHABLE) from None
