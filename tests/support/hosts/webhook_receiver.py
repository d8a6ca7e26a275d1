"""A receiver of webhooks on loopback, in a thread of its own; what it answers depends on the path.

/hang      takes the message, and never answers     /redirect  to another path
/drop      hangs up                                 /endless   a head without an end
/hints     informational answers for ever           /twice     500 twice, then as all others
all else   204
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TLS = Path(__file__).parents[1] / "tls"
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


@dataclass(frozen=True)
class Received:
    """One received message."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebhookReceiver:
    """All messages so far, in order."""

    port: int = 0
    scheme: str = "http"
    received: list[Received] = field(default_factory=list)
    frozen: bool = False
    """Whether messages are taken and not answered, whatever their path."""
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, object]:
        """Return settings with this receiver, whose secret is in the variable ``TEST_WEBHOOK_SECRET``."""
        listed = {
            "url": self.url,
            "secret_variable": "TEST_WEBHOOK_SECRET",
            "private_addresses": ["127.0.0.1"],
        }
        return {"receivers": {"test": listed}}

    def wait_for(self, count: int) -> list[Received]:
        """Wait for this number of messages; return all messages."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.received) >= count, timeout=60)
            assert came, f"{len(self.received)} of {count} messages came"
            return list(self.received)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = await self._take(reader)
            await self._answer(path, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader) -> str:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in fields)}
        body = await reader.readexactly(int(headers["content-length"]))
        path = line.split()[1]
        with self._changed:
            self.received.append(Received(path=path, headers=headers, body=body))
            self._changed.notify_all()
        return path

    async def _answer(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match "/hang" if self.frozen else path:
            case "/hang":
                await reader.read()
            case "/drop":
                return
            case "/redirect":
                writer.write(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
            case "/endless":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    writer.write(b"X-More: more\r\n" * 100)
                    await writer.drain()
            case "/hints":
                while True:
                    writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)
                    await writer.drain()
            case "/twice" if len(self.received) <= 2:
                writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
            case _:
                writer.write(b"HTTP/1.1 204 Taken\r\n\r\n")
        await writer.drain()


@contextmanager
def webhook_receiver(*, tls: bool = False) -> Iterator[WebhookReceiver]:
    """Serve while the body runs; with `tls`, as api.example.com with a certificate from `TLS`."""
    receiver, ready = WebhookReceiver(scheme="https" if tls else "http"), threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / "host.pem", TLS / "host.key")
        server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=context)
        receiver.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        serving = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="webhook-receiver")
    thread.start()
    try:
        assert ready.wait(20), "the receiver does not start"
        yield receiver
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()
