"""A Unix socket in front of the engine that tests can cut, so that the daemon loses its engine."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
CHUNK_BYTES = 1 << 16
TURNS = 4

Rewritten = tuple[bytes, bytes]
"""Bytes that the daemon sends, and what the engine gets in their place: of equal length."""
NOTHING: Rewritten = (b"\0", b"\0")


class CuttableEngine:
    """Forwards bytes between its own socket and the engine's, as a context manager."""

    def __init__(self, path: Path, upstream: str) -> None:
        self.path = path
        self.url = f"unix://{path}"
        self._upstream = upstream.removeprefix("unix://")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cuttable-engine", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._refusing = False
        self.rewritten: Rewritten = NOTHING

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def restore(self) -> None:
        """Make the engine reachable again."""
        self._refusing = False
        self._run(self._listen())

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        self._run(self._shut())

    def refuse(self) -> None:
        """End every connection, and accept and close new ones; the socket stays."""
        self._refusing = True
        self._run(self._abort())

    def drop_connections(self) -> None:
        """End every connection, but accept new ones."""
        self._run(self._abort())

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._relay, self.path)

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self.path.unlink(missing_ok=True)
        await self._abort()

    async def _abort(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _end(self) -> None:
        for _ in range(TURNS):  # what was accepted a moment ago becomes a task, and ends
            await asyncio.sleep(0)
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            above, below = await asyncio.open_unix_connection(self._upstream)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, below}
        if self._server is None or self._refusing:  # cut meanwhile
            for one in both:
                one.transport.abort()
            return
        self._open |= both
        try:
            await asyncio.gather(_pump(reader, below, self.rewritten), _pump(above, writer, NOTHING))
        finally:
            self._open -= both
            for one in both:
                one.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, rewritten: Rewritten) -> None:
    with suppress(OSError):
        while data := await source.read(CHUNK_BYTES):
            sink.write(data.replace(*rewritten))
            await sink.drain()
        if not sink.is_closing():
            sink.write_eof()


class SilentEngine:
    """A socket that accepts connections and never answers, as a context manager."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        self._socket.bind(str(self._path))
        self._socket.listen(64)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._path.unlink()
