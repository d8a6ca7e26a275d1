"""A Unix socket that stands before the engine's and can be cut, as when the engine dies behind its socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_READ_BYTES = 65536


class EngineProxy:
    """Passes bytes both ways, but while it is cut. `url` is what an engine is told to connect to."""

    def __init__(self, engine_url: str, path: Path) -> None:
        self._engine = engine_url.removeprefix("unix://")
        self._transports: set[asyncio.WriteTransport] = set()
        self._whole = True
        self.url = f"unix://{path}"

    def cut(self) -> None:
        """End every connection in the middle of whatever it carries, and each new one at once."""
        self._whole = False
        for transport in self._transports:
            transport.abort()

    def mend(self) -> None:
        """Pass bytes again, on new connections."""
        self._whole = True

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        if not self._whole:
            writer.transport.abort()
            return
        answers, engine = await asyncio.open_unix_connection(self._engine)
        ends = {writer.transport, engine.transport}
        self._transports |= ends
        try:
            await asyncio.gather(_pass_on(reader, engine), _pass_on(answers, writer))
        except OSError:
            # One side has gone, and the other is about to hear of it.
            self._transports -= ends
        for end in ends:
            end.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(_READ_BYTES):
        writer.write(content)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@asynccontextmanager
async def engine_proxy(engine_url: str, folder: Path) -> AsyncIterator[EngineProxy]:
    """Return a proxy that takes connections on a socket in `folder`."""
    path = folder / "engine.sock"
    proxy = EngineProxy(engine_url, path)
    async with await asyncio.start_unix_server(proxy.connected, path):
        yield proxy
        proxy.cut()
