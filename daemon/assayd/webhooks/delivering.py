"""Signs a message for the listed receiver of its URL, and delivers it once.

The host name is resolved once, so the connection uses an address that was checked. Redirects aren't
followed, and only the head of the response is read.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address

import h11

from assayd import __version__
from assayd.aio import open_first_available
from assayd.egress.resolver import NameLookup, Resolver
from assayd.egress.target import is_public
from assayd.model.webhook import WebhookUrl

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A receiver that the operator lists. It covers every URL at or below `url`, and has a signing key.

    `private` contains the non-public addresses to which the host name may resolve. Without TLS, only these
    addresses are allowed.
    """

    name: str
    url: WebhookUrl
    key: bytes = field(repr=False)
    private: tuple[Network, ...] = ()

    def allowed_addresses(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses of the receiver's host to which connections are allowed."""
        return tuple(address for address in addresses if self._is_allowed_address(address))

    def _is_allowed_address(self, text: str) -> bool:
        if is_public(text):
            return self.url.scheme == "https"
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self.private)


def find_receiver(url: WebhookUrl, receivers: Sequence[Receiver]) -> Receiver | None:
    """Return the receiver with the longest path among those that cover a URL, or None."""
    covering = [receiver for receiver in receivers if receiver.url.covers(url)]
    return max(covering, key=lambda receiver: len(receiver.url.path), default=None)


PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64


def read_secret(text: str) -> bytes:
    """Return the key that a secret encodes.

    Raises: ValueError, with a message that doesn't contain the secret.
    """
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except NotBase64:
        raise ValueError(
            "it must be whsec_ and base64; create one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        ) from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(
            f"it has {len(key)} bytes, but needs {LEAST_BYTES} to {MOST_BYTES}; "
            "create one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        )
    return key


def build_signed_headers(key: bytes, message_id: str, body: bytes, at: datetime) -> Mapping[str, str]:
    """Return the HTTP headers that contain the message's id, time and signature."""
    seconds = str(int(at.timestamp()))
    content = b".".join((message_id.encode(), seconds.encode(), body))
    signature = b64encode(hmac.digest(key, content, "sha256")).decode()
    return {"webhook-id": message_id, "webhook-timestamp": seconds, "webhook-signature": f"v1,{signature}"}


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
                status = await self._post_message(post, until=until)
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
        looking = NameLookup(host=receiver.url.host, port=receiver.url.port, owner=uid, own=own)
        await self.resolver.acquire(looking)
        found = await self.resolver.resolve(looking)
        if not found:
            raise NotDeliveredError("name not resolved")
        if not (reachable := receiver.allowed_addresses(found)):
            raise NotDeliveredError("address not public")
        return reachable

    async def _post_message(self, post: OutgoingMessage, *, until: float) -> int:
        addresses = await self.addresses(post.receiver, post.uid)
        tls = await self._get_tls_context() if post.url.scheme == "https" else None
        connected = _open_connection(addresses[:MOST_ADDRESSES], post.url, tls, until=until)
        async with connected as (reader, writer):
            return await _exchange(post, reader, writer)

    async def _get_tls_context(self) -> ssl.SSLContext:
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
