"""Delivers webhook messages to listed URLs, signed, and retries failed deliveries with growing delays.

Sends each message until it is delivered or abandoned, even after restarts, and chooses the next message.

The sender reads only a few due messages of every user and receiver at a time, so that a large number of
messages neither fills the memory nor delays other users. The connections are shared fairly between users,
so that one unreachable receiver can't occupy all of them.

Signs a message for the listed receiver of its URL, and delivers it once.

The host name is resolved once, so the connection uses an address that was checked. Redirects aren't
followed, and only the head of the response is read.
"""

from __future__ import annotations

import asyncio
import hmac
import random
import ssl
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address

import h11
import structlog

from assayd import __version__
from assayd.aio import open_first_available, open_task_group, pause
from assayd.clock import Clock
from assayd.egress.decision import is_public
from assayd.egress.resolver import NameLookup, Resolver
from assayd.egress.turns import ThresholdSemaphore
from assayd.errors import RequestError, StoreError
from assayd.metrics import Metrics
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.hosts import WebhookMessage, WebhookUrl, parse_webhook_url
from assayd.ports.driving import IsLeader, is_always_leader
from assayd.store.outbox import Outbox

log = structlog.get_logger()

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
    """Return the receiver with the longest path among those that cover a URL, or None if no receiver does."""
    covering = [receiver for receiver in receivers if receiver.url.covers(url)]
    return max(covering, key=lambda receiver: len(receiver.url.path), default=None)


PREFIX = "whsec_"
MIN_BYTES, MAX_BYTES = 24, 64


def read_secret(text: str) -> bytes:
    """Return the key that a secret encodes.

    Raises: ValueError, if the secret is malformed or its key has a wrong length. The message doesn't contain
    the secret.
    """
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except NotBase64:
        raise ValueError(
            "it must be whsec_ and base64; create one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        ) from None
    if not MIN_BYTES <= len(key) <= MAX_BYTES:
        raise ValueError(
            f"it has {len(key)} bytes, but needs {MIN_BYTES} to {MAX_BYTES}; "
            "create one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        )
    return key


def build_signed_headers(key: bytes, message_id: str, body: bytes, at: datetime) -> Mapping[str, str]:
    """Return the HTTP headers that contain the message's id, time and signature."""
    seconds = str(int(at.timestamp()))
    content = b".".join((message_id.encode(), seconds.encode(), body))
    signature = b64encode(hmac.digest(key, content, "sha256")).decode()
    return {"webhook-id": message_id, "webhook-timestamp": seconds, "webhook-signature": f"v1,{signature}"}


MAX_RESPONSE_HEAD_BYTES = 16 * 2**10
"""The maximum size of a response's head, including preceding informational responses."""
MAX_ADDRESSES = 4
_READ_PIECE_BYTES = 4096
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
        """Try once to deliver a message.

        Raises: NotDeliveredError, if the connection fails, the response is late, or its status isn't 2xx.
        """
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
        connected = _open_connection(addresses[:MAX_ADDRESSES], post.url, tls, until=until)
        async with connected as (reader, writer):
            return await _send_and_read(post, reader, writer)

    async def _get_tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls


@asynccontextmanager
async def _open_connection(
    addresses: Sequence[str], url: WebhookUrl, tls: ssl.SSLContext | None, *, until: float
) -> AsyncIterator[_Streams]:
    """Connect to the first address that responds in time, and close the connection on exit.

    Raises: OSError or TimeoutError, if no address responds; NotDeliveredError, if TLS fails.
    """

    async def connect(address: str) -> _Streams:
        name = url.host if tls is not None else None
        try:
            return await asyncio.open_connection(
                address, url.port, ssl=tls, server_hostname=name, limit=_READ_PIECE_BYTES
            )
        except ssl.SSLError as problem:
            raise NotDeliveredError("tls") from problem

    reader, writer = await open_first_available(addresses, connect, until=until)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _send_and_read(
    post: OutgoingMessage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> int:
    """Send the message and return the status code of the response.

    Raises: NotDeliveredError, if the response is missing or its head is too large.
    """
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_RESPONSE_HEAD_BYTES)
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
    left = MAX_RESPONSE_HEAD_BYTES
    while True:
        answer = connection.next_event()
        if isinstance(answer, h11.Response):
            return answer.status_code
        if answer is h11.NEED_DATA:
            data = await reader.read(min(_READ_PIECE_BYTES, left))
            left -= len(data)
            if not data:
                raise NotDeliveredError("no answer")
            if left <= 0:
                raise NotDeliveredError("answer too long")
            connection.receive_data(data)
        elif not isinstance(answer, h11.InformationalResponse):
            raise NotDeliveredError("no answer")


EACH = 4
"""The maximum number of one user's messages that are sent to one origin at once."""
LOOK_AGAIN_S = 60.0
"""The longest time in seconds until the sender checks for due messages again."""
STORE_RETRY_S = 1.0
EXAMINED_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookLimits:
    """The limits on connections, retries and waiting messages of webhooks.

    The pause after the first failure is `first_pause_s`. Each further failure doubles the pause.
    """

    connections: int = 32
    timeout_s: float = 10.0
    retry_for: timedelta = timedelta(days=1)
    waiting_per_uid: int = 10_000
    first_pause_s: float = 2.0
    max_pause_s: float = 3600.0

    def compute_pause_s(self, failures: int) -> float:
        """Return the pause after consecutive failures, with a random extra of up to a quarter of it."""
        pause_s = min(self.first_pause_s * 2.0 ** min(failures - 1, 30), self.max_pause_s)
        return pause_s * random.uniform(1, 1.25)  # noqa: S311 - spreads retries, keeps no secret


class WebhookSender:
    """A sender of webhook messages. Implements `ports.chains.WebhookGate`.

    Args:
        receivers: the receivers that the operator lists.
        store: the store of messages waiting for delivery.
        courier: the client that delivers one message.
        clock: the clock that determines whether a message is due.
        metrics: the metrics with the delivery counters.
        added: the event that is set when a message is recorded.
        limits: the limits on connections, retries and waiting messages.
        leads: the function that returns whether this process sends messages; of the processes that share a
            database, only one does.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        receivers: Sequence[Receiver],
        *,
        store: Outbox,
        courier: WebhookClient,
        clock: Clock,
        metrics: Metrics,
        added: asyncio.Event,
        limits: WebhookLimits,
        leads: IsLeader = is_always_leader,
    ) -> None:
        self._receivers = tuple(receivers)
        self._store = store
        self._courier = courier
        self._clock = clock
        self._metrics = metrics
        self._added = added
        self._limits = limits
        self._places = ThresholdSemaphore(limits.connections)
        self._under_way: set[str] = set()
        self._tried: set[str] = set()
        """The ids of messages tried since the last query of the store, whose answer may be outdated."""
        self.leads = leads
        self._abandoned_count = 0

    async def check(self, url: str, uid: int) -> None:
        """Ensure that a user's messages can be sent to a URL.

        Raises: RequestError, if the URL is invalid or has no listed receiver, or if too many messages are
        undelivered.
        """
        if self._find_receiver(_read_url(url)) is None:
            message = "webhook: no receiver matches this URL; operators list receivers in webhooks.receivers"
            raise RequestError("webhook.not_allowed", message, field="webhook")
        most = self._limits.waiting_per_uid
        if await self._store.waiting(uid) >= most:
            message = f"webhook: {most} messages of this user are undelivered; check the receivers, or wait"
            raise RequestError("quota.webhooks", message, field="webhook", retryable=True)

    def _find_receiver(self, url: WebhookUrl) -> Receiver | None:
        return find_receiver(url, self._receivers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send messages while the body runs. Undelivered messages stay recorded when the body ends."""
        async with open_task_group() as tasks:
            sending = tasks.create_task(self._send_loop(), name="webhooks")
            try:
                yield
            finally:
                sending.cancel()

    async def _send_loop(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._added.clear()
                try:
                    pause_s = await self._start_due_deliveries(tasks)
                except StoreError as trouble:
                    log.error("webhooks.not_looked_through", code=trouble.code)
                    pause_s = STORE_RETRY_S
                await pause(pause_s, unless=self._added)

    async def _start_due_deliveries(self, tasks: asyncio.TaskGroup) -> float:
        """Start the deliveries of all due messages, and return the seconds until the next check.

        If this process doesn't lead, start none.
        """
        if not self.leads():
            return STORE_RETRY_S
        now = self._clock.now()
        self._tried.clear()
        for message in await self._store.list_due(now, each=EACH):
            if message.id not in self._under_way and message.id not in self._tried:
                self._under_way.add(message.id)
                tasks.create_task(self._process_message(message), name=f"webhook-{message.id}")
        next_try = await self._store.next_try_at(now)
        if next_try is None:
            return LOOK_AGAIN_S
        return min(max((next_try - self._clock.now()).total_seconds(), 0.0), LOOK_AGAIN_S)

    async def _process_message(self, message: WebhookMessage) -> None:
        """Try once to deliver a message, and record the outcome."""
        try:
            await self._try_delivery(message)
        except StoreError as trouble:  # it is sent once more, which receivers must tolerate
            log.error("webhook.not_recorded", message_id=message.id, code=trouble.code)
            await asyncio.sleep(STORE_RETRY_S)
        finally:
            self._under_way.discard(message.id)
            self._tried.add(message.id)
            self._added.set()

    async def _try_delivery(self, message: WebhookMessage) -> None:
        try:
            await self._deliver(message)
        except NotDeliveredError as failure:
            await self._handle_failure(message, failure)
        except Exception:  # an internal error must neither end the sender nor cause retries without a pause
            log.exception("webhook.broken", message_id=message.id)
            await self._handle_failure(message, NotDeliveredError("internal"))
        else:
            await self._store.remove(message.id)
            self._record_delivery_try(message, "delivered")

    async def _deliver(self, message: WebhookMessage) -> None:
        url = parse_webhook_url(message.url)
        receiver = self._find_receiver(url)
        if receiver is None:
            raise NotDeliveredError("no longer listed", final=True)
        body = message.body.encode()
        await self._places.acquire(message.uid)
        try:
            headers = build_signed_headers(receiver.key, message.id, body, self._clock.now())
            post = OutgoingMessage(receiver=receiver, url=url, uid=message.uid, headers=headers, body=body)
            await self._courier.deliver(post)
        finally:
            self._places.release(message.uid)

    async def _handle_failure(self, message: WebhookMessage, failure: NotDeliveredError) -> None:
        now, tries = self._clock.now(), message.tries + 1
        until = now + timedelta(seconds=self._limits.compute_pause_s(tries))
        if failure.final or until - message.created_at > self._limits.retry_for:
            await self._store.remove(message.id)
            self._abandoned_count += 1
            self._record_delivery_try(message, "given_up", reason=failure.reason)
        else:
            await self._store.postpone(message.id, tries=tries, until=until)
            self._record_delivery_try(message, "failed", reason=failure.reason)

    def _record_delivery_try(self, message: WebhookMessage, outcome: str, **more: str) -> None:
        """Count and log a delivery.

        The URL's path and query are omitted, because they may contain a secret.
        """
        self._metrics.webhook_tries.labels(outcome).inc()
        tell = {"delivered": log.debug, "failed": log.warning}.get(outcome, log.error)
        tell(f"webhook.{outcome}", message_id=message.id, to=message.origin, tries=message.tries + 1, **more)

    async def examine(self) -> Sequence[HealthRow]:
        """Return the known state of the receivers without sending a message.

        The result is empty if none is listed.
        """
        if not self._receivers:
            return ()
        problems = [each for each in await asyncio.gather(*map(self._find_problem, self._receivers)) if each]
        waiting = await self._store.count_undelivered()
        if waiting.oldest is not None:
            hours = (self._clock.now() - waiting.oldest).total_seconds() / 3600
            problems.append(f"undelivered messages: {waiting.count}, the oldest for {hours:.1f} h")
        if self._abandoned_count:
            problems.append(f"messages given up since the start: {self._abandoned_count}")
        if not problems:
            detail = f"all messages are delivered; receivers: {len(self._receivers)}"
            return (HealthRow(check="webhooks", status=HealthStatus.OK, detail=detail),)
        remedy = "see webhook.failed and webhook.given_up in the log, and check webhooks.receivers"
        return (
            HealthRow(check="webhooks", status=HealthStatus.WARN, detail="; ".join(problems), remedy=remedy),
        )

    async def _find_problem(self, receiver: Receiver) -> str | None:
        """Return the reason why no address of a receiver is usable, or None if at least one is."""
        try:
            async with asyncio.timeout(EXAMINED_S):
                await self._courier.addresses(receiver, 0)
        except TimeoutError:
            reason = "its name wasn't resolved in time"
        except NotDeliveredError as failure:
            reason = failure.reason
        else:
            return None
        listed = "" if reason != "address not public" else "; list it in private_addresses to allow it"
        return f"{receiver.name}: {receiver.url.origin}: {reason}{listed}"


def _read_url(url: str) -> WebhookUrl:
    try:
        return parse_webhook_url(url)
    except ValueError as problem:
        raise RequestError("webhook.invalid", f"webhook: {problem}", field="webhook") from None
