"""Turns the items of a batch into attempts, so many at a time, up to the last."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from assayd.aio import Signal, pause
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.scheduler import Scheduler
from assayd.errors import AssaydError, RequestError, StoreError
from assayd.model.attempt import Failure, State
from assayd.model.batch import Batch, Waiting
from assayd.ports.clock import Clock
from assayd.store.batches import DatabaseBatchStore

log = structlog.get_logger()


class Feeder:
    """The one that feeds a batch. Attempts have their ids before, so doing it twice is doing it once."""

    def __init__(
        self,
        batch: Batch,
        *,
        store: DatabaseBatchStore,
        admission: Admission,
        scheduler: Scheduler,
        clock: Clock,
        retry_s: float,
    ) -> None:
        self.batch = batch
        self.changed = Signal()
        self._store = store
        self._admission = admission
        self._scheduler = scheduler
        self._clock = clock
        self._retry_s = retry_s
        self._in_flight: set[str] = set()
        self._lost: set[str] = set()
        self._beyond = 0
        self._more = asyncio.Event()
        self._stop = asyncio.Event()
        self._cancelled = False
        self.over = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """Return whether it starts nothing more."""
        return self._stop.is_set()

    @property
    def running(self) -> int:
        """Count the attempts that are not finished."""
        return len(self._in_flight)

    def poke(self, batch: Batch) -> None:
        """Look again: lines have come, or the batch has changed."""
        self.batch = batch
        self._beyond = 0
        self._more.set()
        self.changed.give()

    def stop(self) -> None:
        """Start nothing more."""
        self._stop.set()
        self._more.set()
        self.changed.give()

    def cancel(self) -> None:
        """Start nothing more, and end what is under way: a person wants it so."""
        self._cancelled = True
        self.stop()
        for attempt_id in self._in_flight:
            self._scheduler.cancel(attempt_id)

    async def run(self) -> None:
        """Feed until the batch is finished, or until told to stop; then wait for what is under way."""
        async with asyncio.TaskGroup() as tasks:
            while not self.stopped:
                self._more.clear()
                if await self._feed(tasks):
                    continue
                if await self._is_finished() and not self._more.is_set():
                    break
                await self._more.wait()

    async def _feed(self, tasks: asyncio.TaskGroup) -> bool:
        """Start items while there is room; False when there is none, or nothing to start."""
        room = self.batch.concurrency - len(self._in_flight)
        if room <= 0:
            return False
        waiting = await self._waiting(room)
        for item in waiting:
            self._beyond = item.line
            if item.attempt_id not in self._in_flight | self._lost:
                self._in_flight.add(item.attempt_id)
                tasks.create_task(self._see_through(item), name=f"item-{item.attempt_id}")
        return bool(waiting)

    async def _waiting(self, limit: int) -> Sequence[Waiting]:
        try:
            return await self._store.waiting(self.batch.id, after=self._beyond, limit=limit)
        except StoreError as trouble:
            await self._pause(trouble)
            return ()

    async def _is_finished(self) -> bool:
        if self._in_flight or self.stopped:
            return False
        try:
            finished = await self._store.finish(self.batch.id, self._clock.now())
        except StoreError as trouble:
            await self._pause(trouble)
            self._more.set()
            return False
        if not finished and self._beyond and not self._lost:
            # Something before the place that was reached has no verdict: look through all once more.
            self._beyond = 0
            self._more.set()
        return finished

    async def _see_through(self, item: Waiting) -> None:
        """Get one item accepted and wait for its verdict."""
        try:
            while not self.stopped and not await self._tried(item):
                await pause(self._retry_s, unless=self._stop)
        except Exception:
            # A defect of ours: this item stays without a verdict, for the next run of the daemon.
            log.exception("item.lost", batch_id=self.batch.id, line=item.line)
            self._lost.add(item.attempt_id)
        finally:
            self._in_flight.discard(item.attempt_id)
            self._more.set()
            self.changed.give()

    async def _tried(self, item: Waiting) -> bool:
        """Submit an item and see its attempt to its end; False when it should be tried again later."""
        try:
            if not await self._is_accepted(item):
                return True
        except AssaydError as trouble:
            log.info("item.held_up", batch_id=self.batch.id, line=item.line, code=trouble.code)
            return False
        if self._cancelled:
            self._scheduler.cancel(item.attempt_id)
        if await self._scheduler.wait(item.attempt_id, None) is None and not self.stopped:
            self._lost.add(item.attempt_id)  # to this run of the daemon; the next one recovers it
        return True

    async def _is_accepted(self, item: Waiting) -> bool:
        """Submit an item; False when there is nothing to wait for: it is finished, or can't be submitted."""
        try:
            document = await self._store.document(item.submission)
            origin = AttemptOrigin(peer=self.batch.peer, attempt_id=item.attempt_id, batch_id=self.batch.id)
            accepted = await self._admission.submit_document(document, origin)
        except RequestError as refusal:
            if refusal.retryable:
                raise
            failure = Failure(code=refusal.code, message=refusal.message)
            await self._store.refuse(self.batch.id, item.line, failure)
            return False
        return accepted.attempt.state is not State.FINISHED

    async def _pause(self, trouble: StoreError) -> None:
        log.error("batch.held_up", batch_id=self.batch.id, code=trouble.code)
        await pause(self._retry_s, unless=self._stop)
