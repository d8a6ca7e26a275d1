"""Delivers a message once: resolves the host name, checks the addresses, and posts the message.

The host name isn't resolved again, so the connection uses an address that was checked. Redirects aren't
followed, and only the head of the response is read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11

from assayd import __version__
from assayd.aio import open_first_available
from assayd.egress.resolver import Lookup, Resolver
from assayd.model.webhook import WebhookUrl
from assayd.webhooks.receivers import Receiver

MOST_HEAD_BYTES = 16 * 2**10
"""Of an answer, informational ones before it included."""
MOST_ADDRESSES = 4
_READ_BYTES = 4096
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NotDeliveredError(Exception):
    """An exception raised if a delivery fails.

    The attribute `reason` is a short text; `final` is True if a retry can't succeed.
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message, with its receiver and the user on whose behalf it is sent."""

    receiver: Receiver
    url: WebhookUrl
    uid: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class WebhookClient:
    """A client that delivers messages. The CA certificates are loaded before the first HTTPS connection."""

    resolver: Resolver
    timeout_s: float
    _tls: ssl.SSLContext | None = field(default=None, init=False)

    async def deliver(self, post: OutgoingMessage) -> None:
        """Try once to deliver a message. Raises: NotDeliveredError."""
        try:
            until = asyncio.get_running_loop().time() + self.timeout_s
            async with asyncio.timeout_at(until):
                status = await self._request_status(post, until=until)
        except TimeoutError:
            raise NotDeliveredError("timeout") from None
        except (OSError, h11.ProtocolError) as problem:
            raise NotDeliveredError("connection") from problem
        if not 200 <= status < 300:
            raise NotDeliveredError(f"status {status}", final=status == 410)

    async def addresses(self, receiver: Receiver, uid: int) -> tuple[str, ...]:
        """Return the addresses to which connections are allowed.

        Raises: NotDeliveredError if no address is allowed.
        """
        own = asyncio.Semaphore(1)
        await own.acquire()
        looking = Lookup(host=receiver.url.host, port=receiver.url.port, owner=uid, own=own)
        await self.resolver.acquire(looking)
        found = await self.resolver.resolve(looking)
        if not found:
            raise NotDeliveredError("name not resolved")
        if not (reachable := receiver.reachable(found)):
            raise NotDeliveredError("address not public")
        return reachable

    async def _request_status(self, post: OutgoingMessage, *, until: float) -> int:
        addresses = await self.addresses(post.receiver, post.uid)
        tls = await self._tls_context() if post.url.scheme == "https" else None
        connected = _open_connection(addresses[:MOST_ADDRESSES], post.url, tls, until=until)
        async with connected as (reader, writer):
            return await _exchange(post, reader, writer)

    async def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls


@asynccontextmanager
async def _open_connection(
    addresses: Sequence[str], url: WebhookUrl, tls: ssl.SSLContext | None, *, until: float
) -> AsyncIterator[_Streams]:
    """Connect to the first address that responds in time, and close the connection on exit.

    Raises: OSError; NotDeliveredError, if a certificate is invalid.
    """

    async def connect(address: str) -> _Streams:
        name = url.host if tls is not None else None
        try:
            return await asyncio.open_connection(
                address, url.port, ssl=tls, server_hostname=name, limit=_READ_BYTES
            )
        except ssl.SSLError as problem:
            raise NotDeliveredError("tls") from problem

    reader, writer = await open_first_available(addresses, connect, until=until)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _exchange(post: OutgoingMessage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Send the message and return the status code of the response."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)
    headers = {
        "host": post.url.authority,
        "user-agent": f"assayd/{__version__}",
        "content-type": "application/json",
        "content-length": str(len(post.body)),
        "connection": "close",
        **post.headers,
    }
    request = h11.Request(method="POST", target=post.url.target, headers=list(headers.items()))
    for event in (request, h11.Data(data=post.body), h11.EndOfMessage()):
        writer.write(connection.send(event) or b"")
    await writer.drain()
    left = MOST_HEAD_BYTES
    while True:
        answer = connection.next_event()
        if isinstance(answer, h11.Response):
            return answer.status_code
        if answer is h11.NEED_DATA:
            data = await reader.read(min(_READ_BYTES, left))
            left -= len(data)
            if not data:
                raise NotDeliveredError("no answer")
            if left <= 0:
                raise NotDeliveredError("answer too long")
            connection.receive_data(data)
        elif not isinstance(answer, h11.InformationalResponse):
            raise NotDeliveredError("no answer")
