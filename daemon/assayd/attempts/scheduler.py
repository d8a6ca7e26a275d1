"""Decides when each attempt runs: queues, starts, cancels, recovers and drains attempts.

Once an attempt is started, `lifecycle` runs it. Each attempt is a task in a single TaskGroup. At most
`active` attempts are active at a time, and at most `concurrency` of them hold a container.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import structlog

from assayd.aio import Deadline, open_task_group, pause
from assayd.attempts.events import EventHub
from assayd.attempts.execution import (
    WAITING_S,
    AttemptAbandonedError,
    AttemptRunner,
    EmitEvent,
    FinishedAttempt,
    Job,
)
from assayd.attempts.telemetry import build_span_attributes, build_summary_line, count_attempt
from assayd.byte_budget import ByteBudget
from assayd.clock import Clock
from assayd.documents import read_accepted
from assayd.documents.attempts import build_state_body
from assayd.errors import RequestError, StoreError
from assayd.fair_queue import FairQueue, FairSemaphore, UserThrottle
from assayd.kind import Kind
from assayd.log import build_trace_log_fields
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AttemptQuery
from assayd.model.run import Limits
from assayd.model.submission import Submission
from assayd.ports.tracing import NO_SPAN, Span
from assayd.program import release_free_memory
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

LARGE_BYTES = 2 * 2**20
"""The memory that a submission can take once it is parsed without needing a slot for large submissions."""
CONTAINER_REMOVAL_S = 1.0
"""The approximate seconds that the removal of a container takes."""
LARGE_SUBMISSION_SLOTS = 2
LEFT = "attempt.left"
"""The error code of a span whose attempt the daemon's next run continues."""
MAX_ACTIVE_PER_FREE_SLOT = 7
"""The number of active attempts that a user can have for each free slot that remains."""
ALONE_S = 300.0
"""If no other user has submitted anything for this many seconds, a user can use all slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Limits of the queue and of the number of active attempts."""

    length: int = 10_000
    bytes: int = 128 * 2**20
    active: int = 64
    per_uid: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedAttempt:
    """An accepted attempt with all decisions made at its acceptance.

    `submission` is set if the attempt needn't wait. `document` is parsed when the attempt starts; it is
    None if the document is only in the store, because it is large or from a previous run. `size` is the
    document's size in the budget; once parsed, the document takes about `read_bytes` bytes of memory.
    `request_id` is the id of the request that submitted the attempt; None if that was in a previous run.
    `events_behind` is at least the number of every event of previous runs, so that followers can continue.
    `span` is the attempt's span in its trace; `waiting` is the span of its time in the queue.
    """

    attempt: Attempt
    document: bytes | None
    size: int
    read_bytes: int
    policy: ExecutionPolicy
    limits: Limits
    validator: Kind
    request_id: str | None = None
    events_behind: int = 0
    submission: Submission | None = None
    span: Span = NO_SPAN
    waiting: Span = NO_SPAN


class Scheduler:
    """The queue of attempts, and all active attempts.

    Args:
        execute: runs one attempt.
        jobs: stores waiting submissions.
        clock: returns the start time of attempts.
        hub: publishes events.
        metrics: the counters.
        stopping: an event that the scheduler sets when it starts no more attempts.
        limits: limits of the queue and of active attempts.
        checks_here: whether this process checks attempts; a gateway gets their states from nodes.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        execute: AttemptRunner,
        jobs: DatabaseJobStore,
        clock: Clock,
        hub: EventHub,
        metrics: Metrics,
        stopping: asyncio.Event,
        limits: QueueLimits,
        pace: UserThrottle | None = None,
        checks_here: bool = True,
    ) -> None:
        self._execute = execute
        self._checks_here = checks_here
        self._jobs = jobs
        self._clock = clock
        self._hub = hub
        self._metrics = metrics
        self._limits = limits
        self._queue: FairQueue[QueuedAttempt] = FairQueue()
        self._active: dict[str, Job] = {}
        self._active_of: Counter[int] = Counter()
        self._permits: Counter[int] = Counter()
        self._submitted: dict[int | None, float] = {None: clock.monotonic()}
        """The time of each user's last submission, in chronological order. None stands for the time before
        the start.
        """
        self.budget = ByteBudget(limits.bytes, pace=pace)
        self._large = FairSemaphore(LARGE_SUBMISSION_SLOTS)
        self._finished: dict[str, asyncio.Future[FinishedAttempt]] = {}
        self._stopping = stopping
        self._released = False
        self.static_misses: Counter[tuple[str, str]] = Counter()
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Scheduler]:
        """Run attempts while the body runs. Afterwards, leave active attempts to the daemon's next run."""
        async with open_task_group() as self._tasks:
            try:
                yield self
            finally:
                self._stopping.set()
                for job in self._active.values():
                    job.abandon()

    @property
    def active(self) -> int:
        """Return the number of active attempts."""
        return len(self._active)

    def set_max_active(self, active: int) -> None:
        """Set the maximum number of active attempts. Already active attempts continue."""
        self._limits = replace(self._limits, active=active)
        self._start_waiting_attempts()

    def count_by_state(self) -> Counter[State]:
        """Return the number of attempts without a verdict, by state."""
        counts = Counter(job.attempt.state for job in self._active.values())
        counts[State.QUEUED] += len(self._queue)
        return counts

    def get_oldest_acceptance_time(self) -> datetime | None:
        """Return the acceptance time of the oldest attempt without a verdict, or None if all have one."""
        active = (job.attempt.created_at for job in self._active.values())
        waiting = (order.attempt.created_at for order in self._queue.items())
        return min((*active, *waiting), default=None)

    def list_active(self, query: AttemptQuery) -> list[Attempt]:
        """Return the matching active attempts, whose states are only in memory, with the newest first."""
        found = [job.attempt for job in self._active.values() if query.matches(job.attempt)]
        found.sort(key=lambda attempt: (attempt.created_at, attempt.id), reverse=True)
        return found[: query.limit]

    def acquire_permit(self, uid: int, size: int) -> None:
        """Reserve a place in the queue and `size` document bytes for one more attempt of a user.

        The permit is released when the attempt ends, or by `release`.

        Raises: RequestError (retryable) ``queue.full``, if the queue or its memory is full; ``quota.full``,
        if the user has too many unfinished attempts; ``not_ready``, if the daemon is stopping.
        """
        limits = self._limits
        if self._stopping.is_set():
            raise RequestError("not_ready", "the daemon is stopping", retryable=True)
        waiting = self._permits.total() - len(self._active)
        if waiting >= limits.length:
            raise RequestError("queue.full", "the queue is full; try again later", retryable=True)
        if self._permits[uid] >= limits.per_uid:
            message = f"{limits.per_uid} attempts of this user are unfinished; try again later"
            raise RequestError("quota.full", message, retryable=True)
        self.budget.acquire(uid, size)
        self._permits[uid] += 1

    def release(self, uid: int, size: int) -> None:
        """Release a user's permit and its bytes in the budget."""
        self.budget.release(uid, size)
        self._permits[uid] -= 1
        if not self._permits[uid]:
            del self._permits[uid]

    def start(self, order: QueuedAttempt, *, permitted: bool = True) -> None:
        """Put an accepted attempt into the queue.

        With `permitted=False`, the attempt needs no permit, and its document stays in the store until it
        starts. After `release_waiters`, the attempt stays recorded, but callers can't wait for it.
        """
        attempt = order.attempt
        self._record_submission(attempt.peer.uid)
        self._finished[attempt.id] = asyncio.get_running_loop().create_future()
        if not permitted:
            order = replace(order, document=None, submission=None, size=0)
            self._permits[attempt.peer.uid] += 1
        elif self._queue or len(self._active) >= self._limits.active:
            order = replace(order, submission=None)  # it waits as a document
        self._queue.put(*attempt.flow, attempt.id, order)
        self._hub.open(attempt.id, attempt.peer.uid, behind=order.events_behind)
        self._metrics.accepted.labels(attempt.kind).inc()
        queued = {**build_state_body(State.QUEUED), "request_id": order.request_id}
        self._hub.publish(attempt.id, 0, "state", queued)
        self._start_waiting_attempts()
        if self._released:
            self.release_waiters()

    def _start_waiting_attempts(self) -> None:
        """Start waiting attempts in turn while capacity is available."""
        while not self._stopping.is_set() and (order := self._pop_next()) is not None:
            self._start_attempt_task(order)
        self._metrics.queue_depth.set(len(self._queue))
        self._metrics.queue_bytes.set(self.budget.held)

    def _pop_next(self) -> QueuedAttempt | None:
        """Remove and return the next attempt to start, or None if no attempt may start now. Users take turns.

        A user's first attempt needs one free slot. Each further attempt must leave one free slot for every
        `MAX_ACTIVE_PER_FREE_SLOT` active attempts of the user, and at least one, unless the user is alone.
        """
        free = self._limits.active - len(self._active)
        if free <= 0:
            return None
        most = MAX_ACTIVE_PER_FREE_SLOT * (free - 1)
        full = {
            uid for uid, count in self._active_of.items() if count >= most and not self._is_only_user(uid)
        }
        return self._queue.pop_other_user(full)

    def _record_submission(self, uid: int) -> None:
        now = self._clock.monotonic()
        self._submitted.pop(uid, None)
        self._submitted[uid] = now
        while self._submitted[oldest := next(iter(self._submitted))] < now - ALONE_S:
            del self._submitted[oldest]

    def _is_only_user(self, uid: int) -> bool:
        """Return whether no other user has submitted anything for `ALONE_S` seconds."""
        others = (at for user, at in reversed(self._submitted.items()) if user != uid)
        return next(others, -math.inf) < self._clock.monotonic() - ALONE_S

    def _start_attempt_task(self, order: QueuedAttempt) -> Job:
        job = self._build_job(order)
        self._active[order.attempt.id] = job
        self._active_of[order.attempt.peer.uid] += 1
        self._tasks.create_task(self._run_attempt(job, order), name=f"attempt-{order.attempt.id}")
        return job

    def _build_job(self, order: QueuedAttempt) -> Job:
        started = self._clock.now()
        attempt = replace(order.attempt, state=State.QUEUED, started_at=started)
        job = Job(
            attempt=attempt,
            policy=order.policy,
            limits=order.limits,
            validator=order.validator,
            deadline=Deadline(WAITING_S),
            emit=self._build_emitter(attempt.id),
            request_id=order.request_id,
            span=order.span,
        )
        order.waiting.end()
        job.timings_s["queued"] = max(0.0, (started - attempt.created_at).total_seconds())
        return job

    def _build_emitter(self, attempt_id: str) -> EmitEvent:
        def emit(kind: str, body: dict[str, object]) -> None:
            job = self._active.get(attempt_id)
            run_number = job.attempt.run_number if job else 0
            self._hub.publish(attempt_id, run_number, kind, body)

        return emit

    async def _run_attempt(self, job: Job, order: QueuedAttempt) -> None:
        """Run one attempt, record its verdict, and wake its waiters.

        An attempt that is abandoned, or lost because of an internal error, stays recorded without a verdict
        for the daemon's next run.
        """
        attempt_id = job.attempt.id
        waiting = self._finished[attempt_id]
        with structlog.contextvars.bound_contextvars(
            request_id=job.request_id,
            attempt_id=attempt_id,
            kind=job.attempt.kind,
            policy=job.attempt.policy,
            **build_trace_log_fields(job.span.context),
        ):
            try:
                finished = await self._finish_attempt(job, order)
            except AttemptAbandonedError as left:
                await self._delete_interrupted_run(attempt_id, left.run_number)
                job.span.end(LEFT, attempt_id=attempt_id)
                waiting.cancel()
            except Exception:
                # An internal bug: this attempt stays recorded without a verdict, for the next start.
                log.exception("attempt.lost")
                job.span.end("internal", attempt_id=attempt_id)
                waiting.cancel()
            else:
                error = finished.attempt.error
                job.span.end(error.code if error else None, **build_span_attributes(finished))
                waiting.set_result(finished)
        del self._active[attempt_id], self._finished[attempt_id]
        uid = job.attempt.peer.uid
        self._active_of[uid] -= 1
        if not self._active_of[uid]:
            del self._active_of[uid]
        self.release(uid, order.size)
        self._hub.close(attempt_id)
        self._start_waiting_attempts()
        if order.read_bytes > LARGE_BYTES:
            self._tasks.create_task(self._release_memory_later())

    async def _release_memory_later(self) -> None:
        """Release free memory once the container is removed, because its run spec is kept until then."""
        await pause(CONTAINER_REMOVAL_S, unless=self._stopping)
        await asyncio.to_thread(release_free_memory)

    async def _delete_interrupted_run(self, attempt_id: str, run_number: int | None) -> None:
        """Remove the record of a run that the daemon interrupted by stopping, so that the run doesn't count.

        If the record can't be removed, the run counts, as after a crash.
        """
        log.info("attempt.left", run_number=run_number)
        if run_number is not None:
            try:
                await self._jobs.delete_run(attempt_id, run_number)
            except StoreError as trouble:
                log.error("run.not_withdrawn", code=trouble.code)

    async def _finish_attempt(self, job: Job, order: QueuedAttempt) -> FinishedAttempt:
        async with AsyncExitStack() as held:
            if self._checks_here and order.read_bytes > LARGE_BYTES:
                job.change_state(
                    State.CHECKING
                )  # It may wait for a slot, and a gateway takes back silent runs.
            with suppress(TimeoutError):  # cancelled: it ends at its first step without needing a slot
                async with job.deadline.scope():
                    await held.enter_async_context(self._hold_slot_if_large(order))
            try:
                await self._read_submission(job, order)
                finished = await self._execute(job)
            finally:
                job.read = None  # before the slot is given to the next one
            self._log_summary(finished)
            return finished

    def _hold_slot_if_large(self, order: QueuedAttempt) -> AbstractAsyncContextManager[None]:
        """Hold one of the few slots for large submissions while the body runs.

        Other submissions need none.
        """
        return self._hold_large_slot(order) if order.read_bytes > LARGE_BYTES else nullcontext()

    @asynccontextmanager
    async def _hold_large_slot(self, order: QueuedAttempt) -> AsyncIterator[None]:
        async with self._large.hold(*order.attempt.flow, order.attempt.id):
            try:
                yield
            finally:
                await asyncio.to_thread(release_free_memory)

    async def _read_submission(self, job: Job, order: QueuedAttempt) -> None:
        if order.submission is not None:
            job.read = order.submission
            return
        document = order.document
        if document is None:
            document = await self._jobs.document(order.attempt.id)
        kinds = {order.attempt.kind: order.validator}
        uid = order.attempt.peer.uid
        job.read = await self.budget.parse_in_turn(document, uid, partial(read_accepted, kinds=kinds))

    def _log_summary(self, finished: FinishedAttempt) -> None:
        """Count a finished attempt, and log one line with everything that an operator needs."""
        for rule in finished.static_misses:
            self.static_misses[finished.attempt.kind, rule] += 1
        count_attempt(self._metrics, finished)
        log.info("attempt.finished", **build_summary_line(finished))

    def cancel(self, attempt_id: str) -> bool:
        """Cancel a waiting or active attempt. Return False if it is neither waiting nor active."""
        job = self._active.get(attempt_id)
        if job is not None:
            job.cancel()
            return True
        if attempt_id in self._queue:
            self._start_attempt_task(self._queue.remove(attempt_id)).cancel()
            return True
        return False

    async def wait(self, attempt_id: str, timeout_s: float | None) -> FinishedAttempt | None:
        """Wait for a waiting or active attempt. Return None at the timeout or if the attempt is neither.

        If `timeout_s` is None, wait without a timeout. An attempt that this run of the daemon can't finish
        anymore counts as neither waiting nor active.
        """
        future = self._finished.get(attempt_id)
        if future is None:
            return None
        done, _ = await asyncio.wait({future}, timeout=timeout_s)
        return future.result() if done and not future.cancelled() else None

    def is_active(self, attempt_id: str) -> bool:
        """Return whether an attempt is waiting or active in this process."""
        return attempt_id in self._finished

    def get_active(self, attempt_id: str) -> Attempt | None:
        """Return the current state of an active attempt, or None if it isn't active."""
        job = self._active.get(attempt_id)
        return job.attempt if job else None

    async def abandon_all(self) -> None:
        """Interrupt all active attempts, which the daemon's next run recovers, and wait until they stop."""
        futures = [self._finished[attempt_id] for attempt_id in self._active]
        for job in self._active.values():
            job.abandon()
        if futures:
            await asyncio.wait(futures)

    def release_waiters(self) -> None:
        """Wake the waiters of attempts that won't be started anymore. The attempts stay recorded."""
        self._released = True
        for order in self._queue.clear():
            self._finished.pop(order.attempt.id).cancel()
            order.waiting.end(LEFT)
            order.span.end(LEFT, attempt_id=order.attempt.id)
            self._hub.close(order.attempt.id)
        self._hub.end()

    async def drain(self, timeout_s: float) -> bool:
        """Stop starting attempts, and wait until the active ones have ended.

        Return False if some are still active after `timeout_s` seconds.
        """
        self._stopping.set()
        if self._active:
            futures = [self._finished[attempt_id] for attempt_id in self._active]
            _, pending = await asyncio.wait(futures, timeout=timeout_s)
            return not pending
        return True
