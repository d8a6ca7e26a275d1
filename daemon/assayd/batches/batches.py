"""The batches of this daemon: which of them are fed, and how far each is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NoReturn

import structlog

from assayd.aio import pause, task_group
from assayd.attempts.admission import Admission
from assayd.attempts.scheduler import Scheduler
from assayd.attempts.uploads import Uploads
from assayd.batches.feeding import Feeder
from assayd.batches.receiving import ImageDigest, LineCaps, Receiver
from assayd.batches.results import ReadDocuments, results
from assayd.errors import RequestError, StoreError
from assayd.kind import Kind
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch, BatchPage, BatchRequest, BatchState, Item, Progress, ReceivedLines
from assayd.model.submission import Peer
from assayd.ports.clock import Clock, Ids
from assayd.ports.driving import ALONE, Driven, Driving, Leads, leads_alone
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

RETRY_S = 1.0
"""How long to back off from what can't be accepted just now."""
PUBLISHED_EVERY_S = 1.0
"""Progress is published no more often than this, except the end."""
SILENT_LOOKED_FOR_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What batches may be: how many of one user, how many attempts of each at once, how large.

    `silent_upload` is how long nobody sends to one before its upload counts as ended.
    """

    per_uid: int = 100
    concurrency: int = 32
    lines: LineCaps = LineCaps()
    silent_upload: timedelta = timedelta(hours=24)
    published_every_s: float = PUBLISHED_EVERY_S
    retry_s: float = RETRY_S


class DaemonBatches:
    """Batches, as the API sees them. Whose batch it is, the API checks.

    Args:
        store: batches and their items.
        jobs: attempts on record.
        admission: turns items into attempts.
        scheduler: attempts that wait or are under way.
        kinds: the enabled kinds.
        clock: the time of changes.
        ids: makes ids of batches and attempts.
        image_digest: returns which image a name refers to at present.
        documents: returns report and execution of a finished attempt as JSON text.
        uploads: the batches that clients send to now.
        limits: how many batches, attempts and lines.
        driving: which process feeds a batch.
        leads: whether this process ends uploads that broke off; of several on one database, one does.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        store: DatabaseBatchStore,
        jobs: DatabaseJobStore,
        admission: Admission,
        scheduler: Scheduler,
        kinds: Mapping[str, Kind],
        clock: Clock,
        ids: Ids,
        image_digest: ImageDigest,
        documents: ReadDocuments,
        uploads: Uploads,
        limits: BatchLimits,
        driving: Driving = ALONE,
        leads: Leads = leads_alone,
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._admission = admission
        self._scheduler = scheduler
        self._kinds = kinds
        self._clock = clock
        self._ids = ids
        self._image_digest = image_digest
        self._documents = documents
        self._uploads = uploads
        self._limits = limits
        self._driving = driving
        self.leads = leads
        self._feeders: dict[str, Feeder] = {}
        self._stopping = asyncio.Event()
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DaemonBatches]:
        """Feed batches while the body runs."""
        async with task_group() as self._tasks:
            feeding: set[asyncio.Task[None]] = set()
            self._feeding = feeding
            looking = self._tasks.create_task(self._end_silent_uploads(), name="silent-uploads")
            try:
                yield self
            finally:
                self.stop()
                looking.cancel()
                for task in feeding:
                    task.cancel()

    def stop(self) -> None:
        """Start nothing more, and release followers; what is under way is the scheduler's."""
        self._stopping.set()
        for feeder in self._feeders.values():
            feeder.stop()

    async def recover(self, unfinished: Sequence[Attempt], only: Container[str] | None = None) -> None:
        """Go on with the batches of a previous run, after the attempts that it has left were started.

        Args:
            unfinished: those attempts.
            only: the batches to go on with, by id; None for all.
        """
        named = {attempt.batch_id for attempt in unfinished if attempt.batch_id is not None}
        stopped = await self._store.cancelled(sorted(named)) if named else frozenset()
        for attempt in unfinished:
            if attempt.batch_id in stopped:
                self._scheduler.cancel(attempt.id)
        batches = [each for each in await self._store.unfinished() if only is None or each.id in only]
        for batch in batches:
            self._feed(batch)
        if batches:
            log.warning("batches.recovered", count=len(batches))

    async def _drive(self, batch: Batch) -> None:
        """Feed a batch, here or wherever it is fed."""
        if await self._driving.take(Driven.BATCH, batch.id):
            self._feed(batch)

    async def look(self, batch_id: str) -> None:
        """Look at a batch that is fed here: another process has added to it, or cancelled it."""
        batch = await self._store.get(batch_id)
        feeder = self._feeders.get(batch_id)
        if batch is None or batch.state is BatchState.FINISHED:
            return
        if batch.state is not BatchState.CANCELLED:
            self._feed(batch)
        elif feeder is not None:
            feeder.cancel()

    def _feed(self, batch: Batch) -> None:
        feeder = self._feeders.get(batch.id)
        if feeder is not None and not feeder.stopped:
            feeder.poke(batch)
        elif not self._stopping.is_set():
            feeder = self._feeders[batch.id] = Feeder(
                batch,
                store=self._store,
                admission=self._admission,
                scheduler=self._scheduler,
                clock=self._clock,
                retry_s=self._limits.retry_s,
            )
            task = self._tasks.create_task(self._run(feeder), name=f"batch-{batch.id}")
            self._feeding.add(task)
            task.add_done_callback(self._feeding.discard)

    async def _run(self, feeder: Feeder) -> None:
        await feeder.run()
        if self._feeders.get(feeder.batch.id) is feeder:
            del self._feeders[feeder.batch.id]
        feeder.over.set()
        feeder.changed.give()
        log.info("batch.ended", batch_id=feeder.batch.id, name=feeder.batch.name, stopped=feeder.stopped)

    async def open(self, request: BatchRequest, *, peer: Peer) -> Batch:
        """Begin a batch, or go on with the one of that name.

        Raises: RequestError ``not_ready`` or ``quota.full`` (retryable), ``invalid``,
        ``webhook.not_allowed``.
        """
        wanted = self._concurrency(request.concurrency)
        await self._admission.check_webhook(request.webhook, peer.uid)
        known = await self._store.find(peer.uid, request.name) if request.name is not None else None
        if known is None:
            self._admission.require_ready()
            known = self._new(request.name, peer)
        batch = replace(
            known,
            concurrency=wanted or known.concurrency,
            dedupe=known.dedupe if request.dedupe is None else request.dedupe,
            webhook=request.webhook or known.webhook,
        )
        opened = await self._store.open(batch, most_unfinished=self._limits.per_uid)
        if opened.state is not BatchState.FINISHED:
            await self._drive(opened)
        return opened

    def _concurrency(self, wanted: int | None) -> int | None:
        most = self._limits.concurrency
        if wanted is not None and wanted > most:
            message = f"concurrency: this daemon allows up to {most}"
            raise RequestError("invalid", message, field="concurrency")
        return wanted

    def _new(self, name: str | None, peer: Peer) -> Batch:
        fresh = self._ids.new()
        return Batch(
            id=fresh,
            name=name or fresh,
            peer=peer,
            created_at=self._clock.now(),
            concurrency=self._limits.concurrency,
        )

    async def receive(
        self, batch: Batch, body: AsyncIterator[bytes], *, sees: Callable[[Attempt], bool]
    ) -> ReceivedLines:
        """Take lines in as they come. What was taken in stays, also when the sender goes away.

        Args:
            batch: the batch that they belong to.
            body: the bytes of the lines, in any pieces.
            sees: tells whether the sender may refer to an attempt.

        Raises: RequestError ``quota.full`` or ``not_ready`` (retryable).
        """
        total = ReceivedLines()
        receiver = Receiver(
            batch,
            store=self._store,
            jobs=self._jobs,
            admission=self._admission,
            budget=self._scheduler.budget,
            kinds=self._kinds,
            ids=self._ids,
            image_digest=self._image_digest,
            caps=self._limits.lines,
            sees=sees,
        )
        with self._uploads.active_for(batch.id):
            async for received in receiver.take(body):
                total += received
                if received.added:
                    await self._drive(batch)
            if not batch.complete:
                await self._complete(batch)
        return total

    async def _complete(self, batch: Batch) -> None:
        await self._store.complete(batch.id)
        await self._drive(replace(batch, complete=True))

    async def _end_silent_uploads(self) -> NoReturn:
        """Look from time to time for uploads that broke off; a store in trouble is tried again."""
        while True:
            try:
                if self.leads():
                    await self.end_silent_uploads()
            except StoreError as trouble:
                log.error("batches.not_looked_through", code=trouble.code)
            await asyncio.sleep(SILENT_LOOKED_FOR_EVERY_S)

    async def end_silent_uploads(self) -> None:
        """Take batches that nobody has sent to for long as sent to their end; more may be sent."""
        moment = self._clock.now() - self._limits.silent_upload
        heard = self._uploads.heard_since(moment)
        for batch in await self._store.silent(moment):
            if batch.id not in heard:
                await self._complete(batch)
                log.warning("batch.upload_expired", batch_id=batch.id, name=batch.name)

    async def find(self, name: str, *, uid: int) -> Batch | None:
        """Return a batch by its id, or by the name that this user gave it; None where there is none."""
        return await self._store.get(name) or await self._store.find(uid, name)

    async def list(self, *, uid: int | None, cursor: str | None, limit: int) -> BatchPage:
        """List batches, newest first."""
        return await self._store.list(uid=uid, cursor=cursor, limit=limit)

    async def progress(self, batch_id: str) -> Progress:
        """Return how far a batch is. Raises: RequestError ``not_found``."""
        batch = await self._store.get(batch_id)
        if batch is None:
            raise RequestError("not_found", f"there is no batch {batch_id}")
        feeder = self._feeders.get(batch_id)
        return Progress(
            batch=batch,
            tally=await self._store.tally(batch_id),
            running=feeder.running if feeder is not None else 0,
            at=self._clock.now(),
        )

    async def items(self, batch_id: str, *, after: int, limit: int) -> Sequence[Item]:
        """Return items in line order, from beyond a line."""
        return await self._store.items(batch_id, after=after, limit=limit)

    def results(self, batch_id: str) -> AsyncGenerator[bytes, None]:
        """Return every item with its attempt and report, as lines of JSON, in line order."""
        return results(batch_id, self._store, self._jobs, self._documents)

    async def follow(self, batch_id: str) -> AsyncGenerator[Progress, None]:
        """Return how far a batch is each time that something changed, up to its end."""
        while not self._stopping.is_set():
            feeder = self._feeders.get(batch_id)
            changed = feeder.changed.next if feeder is not None else None
            progress = await self.progress(batch_id)
            yield progress
            if progress.is_over or (feeder is None and self._driving.alone):
                return
            if feeder is None or changed is None:  # it is fed elsewhere
                await pause(self._limits.published_every_s, unless=self._stopping)
                continue
            await changed.wait()
            await pause(self._limits.published_every_s, unless=feeder.over)

    async def cancel(self, batch: Batch) -> None:
        """Start nothing more of a batch, and end what is under way.

        Raises: RequestError ``batch.finished``.
        """
        if batch.state is BatchState.FINISHED:
            raise RequestError("batch.finished", "every item of the batch has its verdict")
        await self._store.cancel(batch.id, self._clock.now())
        feeder = self._feeders.get(batch.id)
        if feeder is not None:
            feeder.cancel()
        else:
            await self._driving.take(Driven.BATCH, batch.id)
