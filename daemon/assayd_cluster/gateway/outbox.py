"""The outbox: the attempts that each gateway must publish, with their tickets, and how it publishes them.

A row is inserted by the transaction that accepts the attempt, and deleted by the transaction that records
its verdict (in `recording`). A node presents a ticket to claim the attempt; only the ticket's digest is
stored, and a new ticket invalidates the old one.

A message counts as published once the broker has confirmed it. The broker's library blocks, so it runs in a
thread, which sends and confirms messages in groups. While the broker is unavailable, messages wait in memory
and remain recorded in the outbox. Messages have the format that Celery produces, but are built from a
template: only ids and arguments differ between messages.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol

import structlog
from amqp.exceptions import AMQPError, MessageNacked
from celery import Celery
from kombu.exceptions import OperationalError
from sqlalchemy import Connection, bindparam, literal, select, update
from tenacity import AsyncRetrying, retry_if_exception_type

from assayd.aio import compute_tenacity_delay_s, open_task_group
from assayd.documents import serialize_compact
from assayd.errors import StoreError
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd_cluster.broker import EXCHANGE, TASK
from assayd_cluster.gateway.notices import GatewayNotices
from assayd_cluster.tables import NOW, dispatches

log = structlog.get_logger()


_ROW = dispatches.c
_THIS_ATTEMPT = _ROW.attempt_id == bindparam("attempt")
_TICKET = update(dispatches).where(_THIS_ATTEMPT, _ROW.gateway_id == bindparam("gateway"))
_CANCEL = update(dispatches).where(_THIS_ATTEMPT, _ROW.cancelled_at.is_(None)).values(cancelled_at=NOW)
_SUBMISSION = select(tables.attempts.c.submission).where(tables.attempts.c.id == bindparam("attempt"))

AWAY = (AMQPError, MessageNacked, OperationalError, OSError)
"""The exceptions raised if the broker is unavailable or rejects messages."""
CONFIRMED_WITHIN_S = 10.0
_PERSISTENT = 2
MAX_AT_ONCE = 256
"""Maximum number of messages that are sent as one group."""
RECORD_INTERVAL_S = 0.25
"""Seconds between two writes of confirmations; those lost in a crash cause a second publication."""


def generate_ticket() -> str:
    """Return a new ticket: 256 random bits in URL-safe Base64."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def compute_ticket_digest(ticket: str) -> str:
    """Return the SHA-256 digest under which a ticket is stored."""
    return hashlib.sha256(ticket.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMessage:
    """A broker message for a node. `trace` is the span, if any, that the node's daemon continues."""

    attempt: str
    submission: str
    ticket: str
    trace: str | None = None


class DispatchOutbox:
    """The outbox: the messages that this gateway must send to the broker."""

    def __init__(
        self,
        access: DatabaseAccess,
        messages: dict[str, BrokerMessage],
        gateway_id: str,
        notices: GatewayNotices,
    ) -> None:
        self._access = access
        self._messages = messages
        self._gateway_id = gateway_id
        self._notices = notices

    async def message(self, attempt_id: str) -> BrokerMessage | None:
        """Return an attempt's message, or None if the attempt has a verdict or belongs to another gateway."""
        message = self._messages.pop(attempt_id, None)
        if message is not None:
            return message
        ticket = generate_ticket()
        if not await self._renew_ticket(attempt_id, ticket):
            return None
        wanted = {"attempt": attempt_id}
        found = await self._access.read(lambda connection: connection.execute(_SUBMISSION, wanted).scalar())
        return None if found is None else BrokerMessage(attempt=attempt_id, submission=found, ticket=ticket)

    async def _renew_ticket(self, attempt_id: str, ticket: str) -> bool:
        statement = _TICKET.values(ticket_sha256=compute_ticket_digest(ticket), published_at=None)
        values = {"attempt": attempt_id, "gateway": self._gateway_id}
        return await self._access.write(
            lambda connection: connection.execute(statement, values).rowcount == 1
        )

    async def record_published(self, attempt_ids: Sequence[str]) -> None:
        """Record that the broker has confirmed the messages of these attempts."""
        statement = update(dispatches).where(_ROW.attempt_id.in_(attempt_ids)).values(published_at=NOW)
        await self._access.write(lambda connection: connection.execute(statement).close(), durable=False)

    async def record_cancellation(self, attempt_id: str) -> bool:
        """Record durably that an attempt must end. Return False if the attempt has already ended."""

        def apply(connection: Connection) -> bool:
            wanted = {"attempt": attempt_id}
            connection.execute(_CANCEL, wanted)
            there = connection.execute(select(literal(1)).where(_THIS_ATTEMPT), wanted).scalar() is not None
            if there:
                self._notices.send_notice(connection, "cancelled", attempt=attempt_id)
            return there

        return await self._access.write(apply)


class BrokerChannel:
    """A channel to the broker for one thread, which connects when there is a message to send."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery
        self._queue = celery.conf.task_default_queue
        self._headers, self._properties, (_, _, self._embedded), _ = celery.amqp.as_task_v2("", TASK)
        self._connection: Any = None
        self._channel: Any = None
        self._unconfirmed: set[int] = set()
        self._sent = 0

    def send(self, messages: Sequence[BrokerMessage]) -> None:
        """Send messages, and return once the broker has confirmed all of them.

        Raises: one of `AWAY`; some messages may have arrived.
        """
        if self._connection is not None:  # the connection may have been lost while nothing was sent
            with suppress(*AWAY):
                self._send_and_confirm(messages)
                return
            self._drop_connection()
        try:
            self._connect()
            self._send_and_confirm(messages)
        except BaseException:
            self._drop_connection()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*AWAY):
                connection.close()

    def _drop_connection(self) -> None:
        """Drop the connection without a closing handshake, which a stopped broker would never answer."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.collect()

    def _connect(self) -> None:
        limits = {"read_timeout": CONFIRMED_WITHIN_S, "write_timeout": CONFIRMED_WITHIN_S}
        self._connection = self._celery.connection_for_write(transport_options=limits)
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._on_confirmed)
        self._channel.events["basic_nack"].add(_on_rejected)
        self._unconfirmed.clear()
        self._sent = 0

    def _send_and_confirm(self, messages: Sequence[BrokerMessage]) -> None:
        for message in messages:
            self._sent += 1
            self._unconfirmed.add(self._sent)
            self._channel.basic_publish(
                self._to_broker_message(message),
                exchange=EXCHANGE,
                routing_key=self._queue,
                mandatory=True,
                timeout=CONFIRMED_WITHIN_S,
            )
        due = time.monotonic() + CONFIRMED_WITHIN_S
        while self._unconfirmed:
            self._connection.drain_events(timeout=max(0.001, due - time.monotonic()))

    def _to_broker_message(self, message: BrokerMessage) -> Any:
        attempt = message.attempt
        arguments = {"attempt": attempt, "submission": message.submission, "ticket": message.ticket}
        if message.trace is not None:
            arguments["trace"] = message.trace
        return self._channel.prepare_message(
            serialize_compact([(), arguments, self._embedded]).decode(),
            content_type="application/json",
            content_encoding="utf-8",
            headers={**self._headers, "id": attempt, "root_id": attempt},
            properties={**self._properties, "correlation_id": attempt, "delivery_mode": _PERSISTENT},
        )

    def _on_confirmed(self, tag: int, multiple: bool) -> None:
        self._unconfirmed -= {each for each in self._unconfirmed if each <= tag} if multiple else {tag}


def _on_rejected(*_: object) -> None:
    raise MessageNacked


Count = Callable[[str], None]
"""Called with the result of each try to publish: `published` or `failed`."""


class MessagePublisher(Protocol):
    """The interface that sends messages to nodes through the broker."""

    problem: str
    """The reason why messages can't be published, or an empty string if they can."""

    def running(self, dispatches: DispatchOutbox, count: Count) -> AbstractAsyncContextManager[object]:
        """Record published messages while the body runs. `count` is called with the result of each send."""
        ...

    async def publish(self, message: BrokerMessage) -> None:
        """Send a message, and wait without a timeout until it is confirmed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _PendingMessage:
    """A message to send. `done` is set once the broker confirms the message, or when sending fails."""

    message: BrokerMessage
    done: Future[None] = field(default_factory=Future)


class BrokerPublisher:
    """A connection to the broker, with one thread that sends all waiting messages as a group."""

    def __init__(self, celery: Celery) -> None:
        self._channel = BrokerChannel(celery)
        self._posts: SimpleQueue[_PendingMessage | None] = SimpleQueue()
        self._confirmed: list[str] = []
        self._count: Count
        self.problem = ""
        """The reason why the broker accepts no messages, or an empty string if it does."""

    @asynccontextmanager
    async def running(self, dispatches: DispatchOutbox, count: Count) -> AsyncIterator[BrokerPublisher]:
        """Record published messages while the body runs. `count` is called with the result of each send."""
        self._count = count
        threading.Thread(target=self._send_queued_messages, name="publisher", daemon=True).start()
        async with open_task_group() as tasks:
            noting = tasks.create_task(self._record_confirmations(dispatches), name="published")
            try:
                yield self
            finally:
                noting.cancel()
                self._posts.put(None)

    async def publish(self, message: BrokerMessage) -> None:
        """Send a message, and wait without a timeout until the broker has confirmed it."""
        await AsyncRetrying(retry=retry_if_exception_type(AWAY), wait=compute_tenacity_delay_s)(
            self._publish_once, message
        )
        self.problem = ""
        self._count("published")
        self._confirmed.append(message.attempt)

    async def _publish_once(self, message: BrokerMessage) -> None:
        post = _PendingMessage(message)
        self._posts.put(post)
        try:
            await asyncio.wrap_future(post.done)
        except AWAY as trouble:
            self._count("failed")
            self.problem = f"the broker doesn't accept messages: {type(trouble).__name__}"
            log.error("message.not_published", attempt_id=message.attempt, problem=type(trouble).__name__)
            raise

    def _send_queued_messages(self) -> None:
        while group := self._wait_for_messages():
            wanted = [post for post in group if post.done.set_running_or_notify_cancel()]
            try:
                self._channel.send([post.message for post in wanted])
            except Exception as problem:  # noqa: BLE001 - who publishes gets it; the thread goes on
                for post in wanted:
                    post.done.set_exception(problem)
            else:
                for post in wanted:
                    post.done.set_result(None)
        self._channel.close()

    def _wait_for_messages(self) -> list[_PendingMessage]:
        """Wait for a message, and return all waiting messages, or an empty list at shutdown."""
        group: list[_PendingMessage] = []
        post = self._posts.get()
        while post is not None:
            group.append(post)
            if len(group) == MAX_AT_ONCE or self._posts.empty():
                return group
            post = self._posts.get()
        return []

    async def _record_confirmations(self, dispatches: DispatchOutbox) -> None:
        while True:
            await asyncio.sleep(RECORD_INTERVAL_S)
            noted, self._confirmed = self._confirmed, []
            if noted:
                try:
                    await dispatches.record_published(noted)
                except StoreError as trouble:
                    log.error("messages.not_noted", code=trouble.code)
                    self._confirmed += noted
