"""Hands attempts to the broker: a message is published when the broker has confirmed that it holds it.

The broker's library blocks, so it works in threads. While the broker is away, messages wait here, and on
record.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import structlog
from amqp.exceptions import AMQPError
from celery import Celery
from kombu.exceptions import OperationalError

from assayd.aio import back_off_s, task_group
from assayd.errors import StoreError
from assayd_cluster.broker import EXCHANGE, TASK
from assayd_cluster.gateway.dispatches import Dispatches, Message

log = structlog.get_logger()

THREADS = 4
ONCE_MORE = {"max_retries": 1, "interval_start": 0}
"""On a fresh connection: the one before may have been lost while nothing was sent."""
NOTED_EVERY_S = 0.25
"""How often it is noted what was published; what is not noted at a crash is published twice."""


class Publishing(Protocol):
    """What brings messages to nodes."""

    problem: str
    """What keeps messages from there; empty while they get there."""
    count: Callable[[str], None]
    """Told of each try: `published` or `failed`."""

    def running(self, dispatches: Dispatches) -> AbstractAsyncContextManager[object]:
        """Note what was published while the body runs."""
        ...

    async def publish(self, message: Message) -> None:
        """Return once a message is safe, however long that takes."""
        ...


class Publisher:
    """The way to the broker."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="publisher")
        self._confirmed: list[str] = []
        self.count: Callable[[str], None] = lambda _: None
        """Told of each try: `published` or `failed`."""
        self.problem = ""
        """What keeps messages from the broker; empty while they get there."""

    @asynccontextmanager
    async def running(self, dispatches: Dispatches) -> AsyncIterator[Publisher]:
        """Note what was published while the body runs."""
        async with task_group() as tasks:
            noting = tasks.create_task(self._keep_noting(dispatches), name="published")
            try:
                yield self
            finally:
                noting.cancel()
                self._threads.shutdown(wait=False, cancel_futures=True)

    async def publish(self, message: Message) -> None:
        """Return once the broker has confirmed a message, however long that takes."""
        failures = 0
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, self._send, message)
            except (AMQPError, OperationalError, OSError) as trouble:
                failures += 1
                self.count("failed")
                self.problem = f"the broker does not take messages: {type(trouble).__name__}"
                log.error("message.not_published", attempt_id=message.attempt, problem=type(trouble).__name__)
                await asyncio.sleep(back_off_s(failures))
            else:
                self.problem = ""
                self.count("published")
                self._confirmed.append(message.attempt)
                return

    def _send(self, message: Message) -> None:
        arguments = {
            "attempt": message.attempt,
            "submission": message.submission,
            "ticket": message.ticket,
        }
        with self._celery.producer_pool.acquire(block=True) as producer:
            self._celery.send_task(
                TASK,
                kwargs=arguments,
                task_id=message.attempt,
                exchange=EXCHANGE,
                routing_key=self._celery.conf.task_default_queue,
                producer=producer,
                mandatory=True,
                retry=True,
                retry_policy=ONCE_MORE,
            )

    async def _keep_noting(self, dispatches: Dispatches) -> None:
        while True:
            await asyncio.sleep(NOTED_EVERY_S)
            noted, self._confirmed = self._confirmed, []
            if noted:
                try:
                    await dispatches.published(noted)
                except StoreError as trouble:
                    log.error("messages.not_noted", code=trouble.code)
                    self._confirmed += noted
