"""Hands attempts to the broker: a message is published when the broker has confirmed that it holds it.

The broker's library blocks, so it works in a thread. While the broker is away, messages wait here, and on
record.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Protocol

import structlog
from celery import Celery
from tenacity import AsyncRetrying, retry_if_exception_type

from assayd.aio import back_off, task_group
from assayd.errors import StoreError
from assayd_cluster.gateway.broker_channel import AWAY, BrokerChannel
from assayd_cluster.gateway.dispatches import Dispatches, Message

log = structlog.get_logger()

MOST_AT_ONCE = 256
"""Messages of which the first waits for the last."""
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


@dataclass(frozen=True, slots=True, eq=False)
class _Post:
    """A message that is to be sent. `done`: the broker has it, or why not."""

    message: Message
    done: Future[None] = field(default_factory=Future)


class Publisher:
    """The way to the broker: one thread, which sends together what has come while it waited."""

    def __init__(self, celery: Celery) -> None:
        self._channel = BrokerChannel(celery)
        self._posts: SimpleQueue[_Post | None] = SimpleQueue()
        self._confirmed: list[str] = []
        self.count: Callable[[str], None] = lambda _: None
        """Told of each try: `published` or `failed`."""
        self.problem = ""
        """What keeps messages from the broker; empty while they get there."""

    @asynccontextmanager
    async def running(self, dispatches: Dispatches) -> AsyncIterator[Publisher]:
        """Note what was published while the body runs."""
        threading.Thread(target=self._work, name="publisher", daemon=True).start()
        async with task_group() as tasks:
            noting = tasks.create_task(self._keep_noting(dispatches), name="published")
            try:
                yield self
            finally:
                noting.cancel()
                self._posts.put(None)

    async def publish(self, message: Message) -> None:
        """Return once the broker has confirmed a message, however long that takes."""
        await AsyncRetrying(retry=retry_if_exception_type(AWAY), wait=back_off)(self._publish_once, message)
        self.problem = ""
        self.count("published")
        self._confirmed.append(message.attempt)

    async def _publish_once(self, message: Message) -> None:
        post = _Post(message)
        self._posts.put(post)
        try:
            await asyncio.wrap_future(post.done)
        except AWAY as trouble:
            self.count("failed")
            self.problem = f"the broker does not take messages: {type(trouble).__name__}"
            log.error("message.not_published", attempt_id=message.attempt, problem=type(trouble).__name__)
            raise

    def _work(self) -> None:
        while group := self._next_group():
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

    def _next_group(self) -> list[_Post]:
        """Wait for a message, and take what waits with it; empty at the end."""
        group: list[_Post] = []
        post = self._posts.get()
        while post is not None:
            group.append(post)
            if len(group) == MOST_AT_ONCE or self._posts.empty():
                return group
            post = self._posts.get()
        return []

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
