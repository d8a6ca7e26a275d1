"""A channel to the broker on which messages are sent together, and confirmed together.

A message is as Celery makes it, but made from a template: what differs between two are ids and arguments.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from amqp.exceptions import AMQPError, MessageNacked
from celery import Celery
from kombu.exceptions import OperationalError

from assayd.documents import compact
from assayd_cluster.broker import EXCHANGE, TASK
from assayd_cluster.gateway.dispatches import Message

AWAY = (AMQPError, MessageNacked, OperationalError, OSError)
"""What a broker that is away, or takes nothing, is seen by."""
CONFIRMED_WITHIN_S = 10.0
_PERSISTENT = 2


class BrokerChannel:
    """Sends messages, for one thread; connects when there is something to send."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery
        self._queue = celery.conf.task_default_queue
        self._headers, self._properties, (_, _, self._embedded), _ = celery.amqp.as_task_v2("", TASK)
        self._connection: Any = None
        self._channel: Any = None
        self._unconfirmed: set[int] = set()
        self._sent = 0

    def send(self, messages: Sequence[Message]) -> None:
        """Return once the broker has confirmed all of them. Raises: one of AWAY; some may be there then."""
        if self._connection is not None:  # it may have been lost while nothing was sent
            with suppress(*AWAY):
                self._send(messages)
                return
            self._drop()
        try:
            self._connect()
            self._send(messages)
        except BaseException:
            self._drop()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*AWAY):
                connection.close()

    def _drop(self) -> None:
        """Forget the connection without a word: a broker that has stopped would never answer it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.collect()

    def _connect(self) -> None:
        limits = {"read_timeout": CONFIRMED_WITHIN_S, "write_timeout": CONFIRMED_WITHIN_S}
        self._connection = self._celery.connection_for_write(transport_options=limits)
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._acked)
        self._channel.events["basic_nack"].add(_nacked)
        self._unconfirmed.clear()
        self._sent = 0

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._sent += 1
            self._unconfirmed.add(self._sent)
            self._channel.basic_publish(
                self._made(message),
                exchange=EXCHANGE,
                routing_key=self._queue,
                mandatory=True,
                timeout=CONFIRMED_WITHIN_S,
            )
        due = time.monotonic() + CONFIRMED_WITHIN_S
        while self._unconfirmed:
            self._connection.drain_events(timeout=max(0.001, due - time.monotonic()))

    def _made(self, message: Message) -> Any:
        attempt = message.attempt
        arguments = {"attempt": attempt, "submission": message.submission, "ticket": message.ticket}
        return self._channel.prepare_message(
            compact([(), arguments, self._embedded]).decode(),
            content_type="application/json",
            content_encoding="utf-8",
            headers={**self._headers, "id": attempt, "root_id": attempt},
            properties={**self._properties, "correlation_id": attempt, "delivery_mode": _PERSISTENT},
        )

    def _acked(self, tag: int, multiple: bool) -> None:
        self._unconfirmed -= {each for each in self._unconfirmed if each <= tag} if multiple else {tag}


def _nacked(*_: object) -> None:
    raise MessageNacked
