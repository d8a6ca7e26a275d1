"""A host on the internet, in a namespace of the test's own: what it serves depends on the path.

/big          10 MB                 /sink      takes a body, answers with its size
/stall        half an answer, and then nothing
/reset        half an answer, and then a reset
/endless      bytes for ever        /redirect  to another host
anything else its own path
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.hosts.namespaces import HOST_4, HOST_6, inside

TLS = Path(__file__).parents[1] / "tls"
"""An authority, and a host's certificate of it. The authority's key was thrown away when they were made."""
NAMES = ("api.example.com", "other.example.com")
BIG = 10_000_000
HTTP_PORT, HTTPS_PORT = 80, 443

_PIECE = bytes(65536)


class Upstream:
    """The record of the host: its requests, and the last path that each connection asked for."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._asked: dict[asyncio.StreamWriter, str] = {}
        self._changed = threading.Condition()

    def wait_until_nobody_gets(self, path: str) -> None:
        """Wait until every connection that asked for this path has ended."""
        with self._changed:
            gone = self._changed.wait_for(lambda: path not in self._asked.values(), timeout=20)
            assert gone, f"still connected: {sorted(self._asked.values())}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self._note(writer, None)

    def _note(self, writer: asyncio.StreamWriter, path: str | None) -> None:
        with self._changed:
            self._asked.pop(writer, None)
            if path is not None:
                self._asked[writer] = path
            self._changed.notify_all()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            line, *headers = head.split("\r\n")
            path = line.split()[1]
            self.requests.append(path)
            self._note(writer, path)
            fields = dict(header.split(": ", 1) for header in headers if header)
            body = await _body(reader, fields)
            match path:
                case "/big":
                    await _send(writer, BIG, BIG)
                case "/sink":
                    await _text(writer, str(body))
                case "/stall":
                    await _send(writer, 1000, 10)
                    await reader.read()
                    return
                case "/reset":
                    await _send(writer, 10**6, 10)
                    return
                case "/endless":
                    await _send(writer, 10**15, 10**15)
                case "/redirect":
                    writer.write(
                        b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n"
                    )
                    await writer.drain()
                case other:
                    await _text(writer, other)
            if fields.get("connection") == "close":
                writer.close()
                await writer.wait_closed()
                return


async def _body(reader: asyncio.StreamReader, fields: dict[str, str]) -> int:
    if fields.get("transfer-encoding") == "chunked":
        taken = 0
        while size := int(await reader.readline(), 16):
            taken += len(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return taken
    left = size = int(fields.get("content-length", "0"))
    while left:
        left -= len(await reader.readexactly(min(left, 65536)))
    return size


async def _text(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    await writer.drain()


async def _send(writer: asyncio.StreamWriter, said: int, sent: int) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {said}\r\n\r\n".encode())
    while sent > 0:
        writer.write(_PIECE[:sent])
        await writer.drain()
        sent -= len(_PIECE)


@contextmanager
def upstream(namespace: str) -> Iterator[Upstream]:
    """Serve in a thread in the namespace."""
    host, ready = Upstream(), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "host.pem", TLS / "host.key")
        addresses = [HOST_4, HOST_6]
        plain = await asyncio.start_server(host.serve, addresses, HTTP_PORT)
        secret = await asyncio.start_server(host.serve, addresses, HTTPS_PORT, ssl=context)
        ready.set()
        await stop.wait()
        for server in (plain, secret):
            server.close()
        serving = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def live() -> None:
        with inside(namespace):
            loop.run_until_complete(serve())
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=live, name="upstream")
    thread.start()
    try:
        assert ready.wait(20), "the upstream does not start"
        yield host
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
