"""Sends each message until it is delivered or abandoned, even after restarts, and chooses the next message.

The sender reads only a few due messages of every user and receiver at a time, so that a large number of
messages neither fills the memory nor delays other users. The connections are shared fairly between users,
so that one unreachable receiver can't occupy all of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog

from assayd.aio import pause, task_group
from assayd.egress.turns import ThresholdSemaphore
from assayd.errors import RequestError, StoreError
from assayd.metrics import Metrics
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.webhook import WebhookMessage, WebhookUrl, parse_webhook_url
from assayd.ports.clock import Clock
from assayd.ports.driving import Leads, is_always_leader
from assayd.store.outbox import Outbox
from assayd.webhooks.delivering import (
    NotDeliveredError,
    OutgoingMessage,
    Receiver,
    WebhookClient,
    build_signed_headers,
    find_receiver,
)

log = structlog.get_logger()

EACH = 4
"""Messages of one user to one origin that are on their way at once."""
LOOK_AGAIN_S = 60.0
"""How long the sender rests before it looks for due messages unasked."""
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
    longest_pause_s: float = 3600.0

    def compute_pause_s(self, failures: int) -> float:
        """Return the pause after consecutive failures, with a random extra of up to a quarter."""
        pause_s = min(self.first_pause_s * 2.0 ** min(failures - 1, 30), self.longest_pause_s)
        return pause_s * random.uniform(1, 1.25)  # noqa: S311 - spreads retries, keeps no secret


class WebhookSender:
    """A sender of webhook messages. Implements `ports.webhooks.WebhookGate`.

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
        leads: Leads = is_always_leader,
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
        """Those that were tried since the store was last asked: its answer may be from before."""
        self.leads = leads
        self._given_up = 0

    async def check(self, url: str, uid: int) -> None:
        """Ensure that a user's messages can be sent to a URL. Raises: RequestError."""
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
        async with task_group() as tasks:
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
                    pause_s = await self._start_due(tasks)
                except StoreError as trouble:
                    log.error("webhooks.not_looked_through", code=trouble.code)
                    pause_s = STORE_RETRY_S
                await pause(pause_s, unless=self._added)

    async def _start_due(self, tasks: asyncio.TaskGroup) -> float:
        """Start the deliveries of all due messages, and return the time until the next message is due."""
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
            self._count_try(message, "delivered")

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
            self._given_up += 1
            self._count_try(message, "given_up", reason=failure.reason)
        else:
            await self._store.postpone(message.id, tries=tries, until=until)
            self._count_try(message, "failed", reason=failure.reason)

    def _count_try(self, message: WebhookMessage, outcome: str, **more: str) -> None:
        """Count and log a delivery.

        The URL's path and query are omitted, because they may contain a secret.
        """
        self._metrics.webhook_tries.labels(outcome).inc()
        tell = {"delivered": log.debug, "failed": log.warning}.get(outcome, log.error)
        tell(f"webhook.{outcome}", message_id=message.id, to=message.origin, tries=message.tries + 1, **more)

    async def examine(self) -> Sequence[HealthRow]:
        """Return the known state of the receivers without sending a message; empty if none is listed."""
        if not self._receivers:
            return ()
        problems = [each for each in await asyncio.gather(*map(self._find_problem, self._receivers)) if each]
        waiting = await self._store.count_undelivered()
        if waiting.oldest is not None:
            hours = (self._clock.now() - waiting.oldest).total_seconds() / 3600
            problems.append(f"undelivered messages: {waiting.count}, the oldest for {hours:.1f} h")
        if self._given_up:
            problems.append(f"messages given up since the start: {self._given_up}")
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
