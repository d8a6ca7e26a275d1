"""The batches of this daemon: turns their items into attempts, and returns their progress and results."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import NoReturn

import structlog

from assayd.aio import BroadcastEvent, open_task_group, pause
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.retention import UploadTracker
from assayd.attempts.scheduler import Scheduler
from assayd.batches.receiving import GetImageDigest, LineCaps, LineReceiver
from assayd.clock import Clock, IdSource
from assayd.documents import serialize_attempt, serialize_compact
from assayd.documents.batches import ItemDocument
from assayd.errors import AssaydError, RequestError, StoreError
from assayd.kind import Kind
from assayd.model.attempt import Attempt, Failure, State
from assayd.model.batch import (
    Batch,
    BatchItem,
    BatchPage,
    BatchProgress,
    BatchRequest,
    BatchState,
    ReceivedLines,
    WaitingItem,
)
from assayd.model.submission import Peer
from assayd.ports.artifacts import Attester
from assayd.ports.driving import ALONE, IsLeader, WorkAssignment, WorkKind, is_always_leader
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

RETRY_DELAY_S = 1.0
"""The seconds before a line that can't be accepted now is tried again."""
MIN_PROGRESS_INTERVAL_S = 1.0
"""The minimum interval in seconds between progress events, except for the last event."""
STALLED_UPLOAD_CHECK_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Limits of batches: the number per user, the concurrent attempts per batch, and the size.

    `max_upload_pause` is the pause after which an upload is regarded as ended.
    """

    per_uid: int = 100
    concurrency: int = 32
    lines: LineCaps = LineCaps()
    max_upload_pause: timedelta = timedelta(hours=24)
    min_progress_interval_s: float = MIN_PROGRESS_INTERVAL_S
    retry_s: float = RETRY_DELAY_S


class DaemonBatches:
    """The batches as offered to the API, which checks the caller's rights to a batch.

    Args:
        store: stores batches and their items.
        jobs: stores the recorded attempts.
        admission: turns items into attempts.
        scheduler: manages waiting and active attempts.
        kinds: the enabled kinds.
        clock: returns the time of changes.
        ids: creates ids of batches and attempts.
        image_digest: returns the digest of the image to which a name currently refers.
        documents: returns report and execution of a finished attempt as JSON text.
        uploads: tracks the batches that are being uploaded.
        limits: limits of batches, attempts and lines.
        driving: decides which process feeds a batch.
        leads: returns whether this process completes interrupted uploads; only one of several processes on
            the same database does so.
        attester: signs the results of batches; None if they aren't signed.
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
        ids: IdSource,
        image_digest: GetImageDigest,
        documents: ReadDocuments,
        uploads: UploadTracker,
        limits: BatchLimits,
        driving: WorkAssignment = ALONE,
        leads: IsLeader = is_always_leader,
        attester: Attester | None = None,
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
        self._attester = attester
        self._feeders: dict[str, BatchFeeder] = {}
        self._stopping = asyncio.Event()
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DaemonBatches]:
        """Submit the items of the batches while the body runs."""
        async with open_task_group() as self._tasks:
            feeding: set[asyncio.Task[None]] = set()
            self._feeding = feeding
            looking = self._tasks.create_task(self._expire_uploads_periodically(), name="silent-uploads")
            try:
                yield self
            finally:
                self.stop()
                looking.cancel()
                for task in feeding:
                    task.cancel()

    def stop(self) -> None:
        """Start no more attempts, and release followers. The scheduler ends the running attempts."""
        self._stopping.set()
        for feeder in self._feeders.values():
            feeder.stop()

    async def recover(self, unfinished: Sequence[Attempt], only: Container[str] | None = None) -> None:
        """Continue the batches of a previous run. Cancel the unfinished attempts of cancelled batches.

        Args:
            unfinished: the unfinished attempts, which must have been started before.
            only: the ids of the batches to continue; None for all.
        """
        named = {attempt.batch_id for attempt in unfinished if attempt.batch_id is not None}
        stopped = await self._store.cancelled(sorted(named)) if named else frozenset()
        for attempt in unfinished:
            if attempt.batch_id in stopped:
                self._scheduler.cancel(attempt.id)
        batches = [each for each in await self._store.list_unfinished() if only is None or each.id in only]
        for batch in batches:
            self._start_feeder(batch)
        if batches:
            log.warning("batches.recovered", count=len(batches))

    async def _ensure_feeder(self, batch: Batch) -> None:
        """Feed a batch if this process drives it. Otherwise, notify the process that drives it."""
        if await self._driving.claim(WorkKind.BATCH, batch.id):
            self._start_feeder(batch)

    async def check_batch(self, batch_id: str) -> None:
        """Update a batch that another process has added items to or cancelled, unless it has ended."""
        batch = await self._store.get(batch_id)
        feeder = self._feeders.get(batch_id)
        if batch is None or batch.state is BatchState.FINISHED:
            return
        if batch.state is not BatchState.CANCELLED:
            self._start_feeder(batch)
        elif feeder is not None:
            feeder.cancel()

    def _start_feeder(self, batch: Batch) -> None:
        feeder = self._feeders.get(batch.id)
        if feeder is not None and not feeder.stopped:
            feeder.wake(batch)
        elif not self._stopping.is_set():
            feeder = self._feeders[batch.id] = BatchFeeder(
                batch,
                store=self._store,
                admission=self._admission,
                scheduler=self._scheduler,
                clock=self._clock,
                retry_s=self._limits.retry_s,
            )
            task = self._tasks.create_task(self._run_feeder(feeder), name=f"batch-{batch.id}")
            self._feeding.add(task)
            task.add_done_callback(self._feeding.discard)

    async def _run_feeder(self, feeder: BatchFeeder) -> None:
        await feeder.run()
        if self._feeders.get(feeder.batch.id) is feeder:
            del self._feeders[feeder.batch.id]
        feeder.over.set()
        feeder.changed.wake_all()
        log.info("batch.ended", batch_id=feeder.batch.id, name=feeder.batch.name, stopped=feeder.stopped)

    async def open(self, request: BatchRequest, *, peer: Peer) -> Batch:
        """Create a batch, or reopen the existing batch with this name.

        Raises: RequestError ``invalid``, if the concurrency is too high; ``not_ready`` or ``quota.full``
        (retryable), if the batch can't be accepted; an error of `WebhookGate`.
        """
        wanted = self._check_concurrency(request.concurrency)
        await self._admission.check_webhook(request.webhook, peer.uid)
        known = await self._store.find(peer.uid, request.name) if request.name is not None else None
        if known is None:
            self._admission.require_ready()
            known = self._new_batch(request.name, peer)
        batch = replace(
            known,
            concurrency=wanted or known.concurrency,
            dedupe=known.dedupe if request.dedupe is None else request.dedupe,
            webhook=request.webhook or known.webhook,
        )
        opened = await self._store.open(batch, max_unfinished=self._limits.per_uid)
        if opened.state is not BatchState.FINISHED:
            await self._ensure_feeder(opened)
        return opened

    def _check_concurrency(self, wanted: int | None) -> int | None:
        most = self._limits.concurrency
        if wanted is not None and wanted > most:
            message = f"concurrency: this daemon allows up to {most}"
            raise RequestError("invalid", message, field="concurrency")
        return wanted

    def _new_batch(self, name: str | None, peer: Peer) -> Batch:
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
        """Accept lines as they arrive. Accepted lines are kept even if the sender disconnects.

        Args:
            batch: the batch to which the lines belong.
            body: the bytes of the lines, in pieces of any size.
            sees: a function that returns whether the sender may refer to an attempt.

        Raises: RequestError ``too_large``, if there are too many lines; ``batch.removed``, if it is;
        ``not_ready``, ``quota.disk`` or ``queue.full`` (retryable), if there is too little space.
        """
        total = ReceivedLines()
        receiver = LineReceiver(
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
        with self._uploads.mark_active(batch.id):
            async for received in receiver.receive_lines(body):
                total += received
                if received.added:
                    await self._ensure_feeder(batch)
            if not batch.complete:
                await self._mark_complete(batch)
        return total

    async def _mark_complete(self, batch: Batch) -> None:
        await self._store.complete(batch.id)
        await self._ensure_feeder(replace(batch, complete=True))

    async def _expire_uploads_periodically(self) -> NoReturn:
        """Periodically mark interrupted uploads as complete. Retry after errors of the store."""
        while True:
            try:
                if self.leads():
                    await self.expire_uploads()
            except StoreError as trouble:
                log.error("batches.not_looked_through", code=trouble.code)
            await asyncio.sleep(STALLED_UPLOAD_CHECK_INTERVAL_S)

    async def expire_uploads(self) -> None:
        """Mark batches without recent uploads as complete. These batches still accept lines."""
        moment = self._clock.now() - self._limits.max_upload_pause
        heard = self._uploads.get_received_since(moment)
        for batch in await self._store.silent(moment):
            if batch.id not in heard:
                await self._mark_complete(batch)
                log.warning("batch.upload_expired", batch_id=batch.id, name=batch.name)

    async def find(self, name: str, *, uid: int) -> Batch | None:
        """Return the batch with this id, or the user's batch with this name, or None if neither exists."""
        return await self._store.get(name) or await self._store.find(uid, name)

    async def list(self, *, uid: int | None, cursor: str | None, limit: int) -> BatchPage:
        """List the batches of a user, or of all users if `uid` is None, the newest first."""
        return await self._store.list(uid=uid, cursor=cursor, limit=limit)

    async def progress(self, batch_id: str) -> BatchProgress:
        """Return the progress of a batch. Raises: RequestError ``not_found``, if the batch doesn't exist."""
        batch = await self._store.get(batch_id)
        if batch is None:
            raise RequestError("not_found", f"batch {batch_id} doesn't exist")
        feeder = self._feeders.get(batch_id)
        return BatchProgress(
            batch=batch,
            tally=await self._store.tally(batch_id),
            running=feeder.running if feeder is not None else 0,
            at=self._clock.now(),
        )

    async def items(self, batch_id: str, *, after: int, limit: int) -> Sequence[BatchItem]:
        """Return up to `limit` items in line order, after a given line."""
        return await self._store.items(batch_id, after=after, limit=limit)

    def results(self, batch_id: str) -> AsyncGenerator[bytes, None]:
        """Yield every item with its attempt and report as a line of JSON, in line order."""
        return iter_result_lines(batch_id, self._store, self._jobs, self._documents)

    async def attestation(self, batch: Batch) -> bytes:
        """Return the signed statement of a finished batch with all its items.

        Raises:
            RequestError: ``attestation.off`` without a key; ``batch.unfinished``, if it isn't finished.
            AssaydError: ``attestation.failed``, if the statement can't be signed.
        """
        if self._attester is None:
            raise RequestError("attestation.off", "this daemon doesn't sign verdicts; set attestation.key")
        if batch.state is not BatchState.FINISHED:
            message = f"the batch {batch.name} has items without a verdict; wait until it is finished"
            raise RequestError("batch.unfinished", message)
        items: list[tuple[BatchItem, Attempt | None]] = []
        while page := await self._store.items(batch.id, after=items[-1][0].line if items else 0, limit=1000):
            attempts = await self._jobs.get_many(
                {item.attempt_id for item in page if item.attempt_id is not None}
            )
            items += [(item, attempts.get(item.attempt_id or "")) for item in page]
        return await self._attester.attest_batch(batch, items)

    async def follow(self, batch_id: str) -> AsyncGenerator[BatchProgress, None]:
        """Yield a batch's progress whenever it changes, until the batch has ended or the daemon stops."""
        while not self._stopping.is_set():
            feeder = self._feeders.get(batch_id)
            changed = feeder.changed.next if feeder is not None else None
            progress = await self.progress(batch_id)
            yield progress
            if progress.is_over or (feeder is None and self._driving.alone):
                return
            if feeder is None or changed is None:  # another task feeds it
                await pause(self._limits.min_progress_interval_s, unless=self._stopping)
                continue
            await changed.wait()
            await pause(self._limits.min_progress_interval_s, unless=feeder.over)

    async def retry_errors(self, batch: Batch) -> None:
        """Run the items with the verdict `error` again as new attempts. Malformed lines stay unchanged.

        Raises: RequestError ``not_ready`` (retryable); ``batch.cancelled`` or ``batch.removed``, if it is.
        """
        self._admission.require_ready()
        count = await self._store.retry_errors(batch.id, self._ids.new)
        log.info("batch.errors_run_again", batch_id=batch.id, name=batch.name, attempts=count)
        if count:
            await self._ensure_feeder(replace(batch, finished_at=None))

    async def cancel(self, batch: Batch) -> None:
        """Cancel a batch: start no more attempts, and end the running ones.

        Raises: RequestError ``batch.finished``, if the batch is finished.
        """
        if batch.state is BatchState.FINISHED:
            raise RequestError("batch.finished", "the batch is finished")
        await self._store.cancel(batch.id, self._clock.now())
        feeder = self._feeders.get(batch.id)
        if feeder is not None:
            feeder.cancel()
        else:
            await self._driving.claim(WorkKind.BATCH, batch.id)


AT_ONCE = 32
"""The number of items whose reports are read concurrently."""

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]


async def iter_result_lines(
    batch_id: str, store: DatabaseBatchStore, jobs: DatabaseJobStore, documents: ReadDocuments
) -> AsyncGenerator[bytes, None]:
    """Yield one line of JSON per item, with its attempt and report, or null if they don't exist.

    Args:
        batch_id: the id of the batch.
        store: stores its items.
        jobs: stores the attempts of the items.
        documents: returns report and execution record of a finished attempt, as JSON text.
    """
    after = 0
    while items := await store.items(batch_id, after=after, limit=AT_ONCE):
        attempts = await jobs.get_many({item.attempt_id for item in items if item.attempt_id is not None})
        pairs = [(item, attempts.get(item.attempt_id or "")) for item in items]
        yield b"".join(
            await asyncio.gather(*(_render_line(item, attempt, documents) for item, attempt in pairs))
        )
        after = items[-1].line


async def _render_line(item: BatchItem, attempt: Attempt | None, documents: ReadDocuments) -> bytes:
    head = serialize_compact(ItemDocument.from_value(item)).removesuffix(b"}")
    return b'%b,"attempt":%b}\n' % (head, await _render_attempt(attempt, documents))


async def _render_attempt(attempt: Attempt | None, documents: ReadDocuments) -> bytes:
    if attempt is None:
        return b"null"
    if attempt.state is not State.FINISHED:
        return serialize_attempt(attempt)
    try:
        report, execution = await documents(attempt)
    except StoreError:  # its bundle was removed or is damaged: the recorded verdict is used
        return serialize_attempt(attempt)
    return serialize_attempt(attempt, report=report, execution=execution)


READ_AHEAD_ITEMS = 64
"""The number of items that are read from the store at once."""


class BatchFeeder:
    """The task that submits the items of one batch. Submitting an item twice has no effect."""

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
        self.changed = BroadcastEvent()
        self._store = store
        self._admission = admission
        self._scheduler = scheduler
        self._clock = clock
        self._retry_s = retry_s
        self._in_flight: set[str] = set()
        self._lost: set[str] = set()
        self._ahead: deque[WaitingItem] = deque()
        self._last_started_line = 0
        self._more = asyncio.Event()
        self._stop = asyncio.Event()
        self._cancelled = False
        self.over = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """Return whether the feeder has stopped starting items."""
        return self._stop.is_set()

    @property
    def running(self) -> int:
        """Return the number of the batch's unfinished attempts."""
        return len(self._in_flight)

    def wake(self, batch: Batch) -> None:
        """Read the batch's items again, because lines have arrived or the batch has changed."""
        self.batch = batch
        self._ahead.clear()
        self._last_started_line = 0
        self._more.set()
        self.changed.wake_all()

    def stop(self) -> None:
        """Stop starting items."""
        self._stop.set()
        self._more.set()
        self.changed.wake_all()

    def cancel(self) -> None:
        """Start no more attempts, and end the running ones, because a user cancelled the batch."""
        self._cancelled = True
        self.stop()
        for attempt_id in self._in_flight:
            self._scheduler.cancel(attempt_id)

    async def run(self) -> None:
        """Feed the batch until it is finished or stopped. Then wait for the running attempts."""
        async with asyncio.TaskGroup() as tasks:
            while not self.stopped:
                self._more.clear()
                if await self._start_items(tasks):
                    continue
                if await self._finish_if_done() and not self._more.is_set():
                    break
                await self._more.wait()

    async def _start_items(self, tasks: asyncio.TaskGroup) -> bool:
        """Start items while there is capacity. Return False if capacity or items have run out."""
        room = self.batch.concurrency - len(self._in_flight)
        if room <= 0:
            return False
        if not self._ahead:
            self._ahead.extend(await self._read_waiting(max(room, READ_AHEAD_ITEMS)))
        waiting = [self._ahead.popleft() for _ in range(min(room, len(self._ahead)))]
        for item in waiting:
            self._last_started_line = item.line
            if item.attempt_id not in self._in_flight | self._lost:
                self._in_flight.add(item.attempt_id)
                tasks.create_task(self._process_item(item), name=f"item-{item.attempt_id}")
        return bool(waiting)

    async def _read_waiting(self, limit: int) -> Sequence[WaitingItem]:
        try:
            return await self._store.waiting(self.batch.id, after=self._last_started_line, limit=limit)
        except StoreError as trouble:
            await self._pause_after_error(trouble)
            return ()

    async def _finish_if_done(self) -> bool:
        if self._in_flight or self.stopped:
            return False
        try:
            finished = await self._store.finish(self.batch.id, self._clock.now())
        except StoreError as trouble:
            await self._pause_after_error(trouble)
            self._more.set()
            return False
        if not finished and self._last_started_line and not self._lost:
            # An earlier item has no verdict: search from the beginning once more.
            self._last_started_line = 0
            self._more.set()
        return finished

    async def _process_item(self, item: WaitingItem) -> None:
        """Submit an item until it is accepted, then wait for its verdict."""
        try:
            while not self.stopped and not await self._try_item(item):
                await pause(self._retry_s, unless=self._stop)
        except Exception:
            # An internal bug: this item stays without a verdict, for the daemon's next start.
            log.exception("item.lost", batch_id=self.batch.id, line=item.line)
            self._lost.add(item.attempt_id)
        finally:
            self._in_flight.discard(item.attempt_id)
            self._more.set()
            self.changed.wake_all()

    async def _try_item(self, item: WaitingItem) -> bool:
        """Submit an item and wait for its verdict. Return False if the item should be retried later."""
        try:
            if not await self._submit_item(item):
                return True
        except AssaydError as trouble:
            log.info("item.held_up", batch_id=self.batch.id, line=item.line, code=trouble.code)
            return False
        if self._cancelled:
            self._scheduler.cancel(item.attempt_id)
        if await self._scheduler.wait(item.attempt_id, None) is None and not self.stopped:
            self._lost.add(item.attempt_id)  # by this run of the daemon; the next one recovers it
        return True

    async def _submit_item(self, item: WaitingItem) -> bool:
        """Submit an item. Return False if it's finished or refused. Raises: AssaydError, if retryable."""
        try:
            origin = AttemptOrigin(
                peer=self.batch.peer,
                attempt_id=item.attempt_id,
                batch_id=self.batch.id,
                is_new=not item.accepted,
            )
            accepted = await self._admission.submit_stored(item.size, partial(self._document, item), origin)
        except RequestError as refusal:
            if refusal.retryable:
                raise
            failure = Failure(code=refusal.code, message=refusal.message)
            await self._store.refuse(self.batch.id, item.line, failure)
            return False
        return accepted.attempt.state is not State.FINISHED

    async def _document(self, item: WaitingItem) -> bytes:
        return item.document or await self._store.document(item.submission)

    async def _pause_after_error(self, trouble: StoreError) -> None:
        log.error("batch.held_up", batch_id=self.batch.id, code=trouble.code)
        await pause(self._retry_s, unless=self._stop)
