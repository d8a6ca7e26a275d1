"""Starts and stops message consumption, which the heartbeat decides, in Celery's own thread.

A cancelled consumer keeps its connection, because it must still acknowledge the messages that it holds.
After a reconnection, consumption stays on or off as before.
"""

from __future__ import annotations

import threading
from typing import Any

import structlog
from celery.worker import state

log = structlog.get_logger()


class MessageConsumptionSwitch:
    """A switch for this node's message consumption, which is initially off."""

    def __init__(self, app: Any, queue: str) -> None:
        self._queue = app.amqp.queues[queue]
        self._lock = threading.Lock()
        self._consumer: Any = None
        self._wanted = False
        app.amqp.queues.deselect([queue])

    def begin(self, consumer: Any) -> None:
        """Store the consumer that Celery has started."""
        with self._lock:
            self._consumer = consumer
        self._schedule_change()

    def set_wanted(self, wanted: bool) -> None:
        """Start or stop message consumption if `wanted` has changed."""
        if wanted == self._wanted:
            return
        self._wanted = wanted
        log.info("consumption.changed", consuming=wanted)
        self._schedule_change()

    def holds_messages(self) -> bool:
        """Return whether the node holds messages that aren't acknowledged yet."""
        return bool(state.reserved_requests)

    def _schedule_change(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.hub.call_soon(self._apply_change)

    def _apply_change(self) -> None:
        """Apply the decision in Celery's thread. If the connection breaks, Celery reconnects."""
        consumer, queues = self._consumer, self._consumer.app.amqp.queues
        if consumer.connection is None or consumer.task_consumer is None:
            select = queues.select_add if self._wanted else queues.deselect
            select(self._queue if self._wanted else [self._queue.name])
        elif self._wanted:
            consumer.add_task_queue(self._queue)
        else:
            consumer.cancel_task_queue(self._queue.name)
