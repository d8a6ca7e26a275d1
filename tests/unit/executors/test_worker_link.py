"""Messages between the daemon and an executor arrive whole and in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assayd.executors.worker import Link


class End:
    """One end of a connection, and everything that it has received."""

    def __init__(self) -> None:
        self.received: list[tuple[object, ...]] = []
        self.arrived = asyncio.Event()
        self.lost = asyncio.Event()
        self.link = Link({"say": self._on_say}, self.lost.set)

    def _on_say(self, *values: object) -> None:
        self.received.append(values)
        if values[-1] == "last":
            self.arrived.set()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[End, End]]:
    """Yield both ends of a connection, and close it afterwards."""
    ends = End(), End()
    for end, stream in zip(ends, socket.socketpair(), strict=True):
        stream.setblocking(False)
        await end.link.open(stream)
    yield ends
    for end in ends:
        end.link.close()
        await end.lost.wait()


async def test_messages_of_all_sizes_arrive_in_order() -> None:
    sent: list[tuple[object, ...]] = [(1, b"x" * 2**20), ({"a": (2, None)},), ("last",)]
    async with connected() as (here, there):
        for values in sent:
            here.link.send("say", *values)
        await there.arrived.wait()

    assert there.received == sent


async def test_message_that_arrives_byte_by_byte_is_handled_once() -> None:
    here, there, written = End(), End(), bytearray()
    here.link.connection_made(Recording(written))
    here.link.send("say", "a", "last")

    for number in range(len(written)):
        there.link.data_received(bytes(written[number : number + 1]))

    assert there.received == [("a", "last")]


class Recording(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, written: bytearray) -> None:
        super().__init__()
        self._written = written

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written += data


async def test_message_after_the_end_of_the_connection_is_dropped() -> None:
    async with connected() as (here, there):
        there.link.close()
        await here.lost.wait()

        here.link.send("say", "last")

        assert there.received == []
