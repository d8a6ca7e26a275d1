"""Decides which attempt runs when: accepts, queues, starts, cancels, recovers, drains.

What happens to an attempt once it is started is `lifecycle`'s. Each attempt is one task of one
TaskGroup; at most `active` of them are under way, and of those at most `concurrency` hold a container.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from assayd import memory
from assayd.aio import Deadline, pause, task_group
from assayd.attempts.attempt_run import WAITING_S, Abandoned, Emit, Finished, Job
from assayd.attempts.events import EventHub
from assayd.attempts.execution import Execute
from assayd.attempts.telemetry import count_attempt, span_facts, summary_line
from assayd.byte_budget import ByteBudget
from assayd.documents import read_accepted
from assayd.documents.events import state_body
from assayd.errors import RequestError, StoreError
from assayd.fair_queue import FairQueue, FairSemaphore
from assayd.kind import Kind
from assayd.log import trace_log_fields
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import Query
from assayd.model.run import Limits
from assayd.model.submission import Submission
from assayd.pace import UserThrottle
from assayd.ports.clock import Clock
from assayd.ports.tracing import NO_SPAN, Span
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

LARGE_BYTES = 2 * 2**20
"""A submission that takes more memory than this once it is read gets one of a few slots while it runs."""
REMOVED_S = 1.0
"""How long it takes to remove a container, about."""
LARGE_AT_ONCE = 2
LEFT = "attempt.left"
"""The error of a span whose attempt the next run of the daemon goes on with."""
MOST_PER_FREE = 7
"""Attempts that a user may have under way for each place that stays free: alone, it leaves an eighth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Limits of the queue and of the active attempts."""

    length: int = 10_000
    bytes: int = 128 * 2**20
    active: int = 64
    per_uid: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An accepted attempt with all decisions from its acceptance.

    `submission` is there for one that need not wait. `document` is read when the attempt starts; None: being
    large, or of a previous run, it waits in the store. `size` is what it counts in the budget; read, it takes
    about `read_bytes`. `request_id` is of the request that brought it; None when a previous run has left it.
    `events_behind` is a number that no event of a previous run has reached, so that who follows can go on.
    `span` is the attempt in its trace, `waiting` its time in the queue.
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
    """The queue, and all active attempts.

    Args:
        execute: runs one attempt.
        jobs: holds submissions that wait.
        clock: the time of starts.
        hub: where events go.
        metrics: the counters.
        stopping: set by the scheduler when it starts no more attempts.
        limits: how much is accepted and under way.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        execute: Execute,
        jobs: DatabaseJobStore,
        clock: Clock,
        hub: EventHub,
        metrics: Metrics,
        stopping: asyncio.Event,
        limits: QueueLimits,
        pace: UserThrottle | None = None,
    ) -> None:
        self._execute = execute
        self._jobs = jobs
        self._clock = clock
        self._hub = hub
        self._metrics = metrics
        self._limits = limits
        self._queue: FairQueue[Order] = FairQueue()
        self._active: dict[str, Job] = {}
        self._active_of: Counter[int] = Counter()
        self._permits: Counter[int] = Counter()
        self.budget = ByteBudget(limits.bytes, pace=pace)
        self._large = FairSemaphore(LARGE_AT_ONCE)
        self._finished: dict[str, asyncio.Future[Finished]] = {}
        self._stopping = stopping
        self._released = False
        self.static_misses: Counter[tuple[str, str]] = Counter()
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Scheduler]:
        """Run attempts while the body runs; those under way at its end are left to the daemon's next run."""
        async with task_group() as self._tasks:
            try:
                yield self
            finally:
                self._stopping.set()
                for job in self._active.values():
                    job.abandon()

    @property
    def active(self) -> int:
        """Count the attempts under way."""
        return len(self._active)

    def resize(self, active: int) -> None:
        """Let so many attempts be under way from now on; those that are go on."""
        self._limits = replace(self._limits, active=active)
        self._start_waiting()

    def states(self) -> Counter[State]:
        """Count attempts without a verdict, by state."""
        counts = Counter(job.attempt.state for job in self._active.values())
        counts[State.QUEUED] += len(self._queue)
        return counts

    def oldest(self) -> datetime | None:
        """Return when the oldest attempt without a verdict was accepted; None if there is none."""
        active = (job.attempt.created_at for job in self._active.values())
        waiting = (order.attempt.created_at for order in self._queue.items())
        return min((*active, *waiting), default=None)

    def under_way(self, query: Query) -> list[Attempt]:
        """List attempts in one of the states that only memory knows, newest first."""
        found = [job.attempt for job in self._active.values() if query.matches(job.attempt)]
        found.sort(key=lambda attempt: (attempt.created_at, attempt.id), reverse=True)
        return found[: query.limit]

    def acquire(self, uid: int, size: int) -> None:
        """Take the permit for one more attempt of this user, with a document of so many bytes.

        The end of the attempt that is started with it gives it back, or `release`.

        Raises: RequestError ``queue.full``, ``quota.full`` or ``not_ready`` (all retryable).
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
        """Release a permit."""
        self.budget.release(uid, size)
        self._permits[uid] -= 1
        if not self._permits[uid]:
            del self._permits[uid]

    def start(self, order: Order, *, permitted: bool = True) -> None:
        """Put an accepted attempt into the queue; one that needs no permit waits in the store.

        If its waiters were already released, it stays recorded, and no one can wait for it.
        """
        attempt = order.attempt
        self._finished[attempt.id] = asyncio.get_running_loop().create_future()
        if not permitted:
            order = replace(order, document=None, submission=None, size=0)
            self._permits[attempt.peer.uid] += 1
        elif self._queue or len(self._active) >= self._limits.active:
            order = replace(order, submission=None)  # it waits, as a document
        self._queue.put(*attempt.flow, attempt.id, order)
        self._hub.open(attempt.id, attempt.peer.uid, behind=order.events_behind)
        self._metrics.accepted.labels(attempt.kind).inc()
        queued = {**state_body(State.QUEUED), "request_id": order.request_id}
        self._hub.publish(attempt.id, 0, "state", queued)
        self._start_waiting()
        if self._released:
            self.release_waiters()

    def _start_waiting(self) -> None:
        """Start waiting attempts in turn while there is capacity."""
        while not self._stopping.is_set() and (order := self._pop_next()) is not None:
            self._begin(order)
        self._metrics.queue_depth.set(len(self._queue))
        self._metrics.queue_bytes.set(self.budget.held)

    def _pop_next(self) -> Order | None:
        """Take the next attempt to start, users in turn.

        A user's first needs one free place. Each further one must leave a free place for every
        `MOST_PER_FREE` of the user's, and at least one.
        """
        free = self._limits.active - len(self._active)
        if free <= 0:
            return None
        most = MOST_PER_FREE * (free - 1)
        full = {uid for uid, count in self._active_of.items() if count >= most}
        return self._queue.pop_other_user(full)

    def _begin(self, order: Order) -> Job:
        job = self._build_job(order)
        self._active[order.attempt.id] = job
        self._active_of[order.attempt.peer.uid] += 1
        self._tasks.create_task(self._run(job, order), name=f"attempt-{order.attempt.id}")
        return job

    def _build_job(self, order: Order) -> Job:
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

    def _build_emitter(self, attempt_id: str) -> Emit:
        def emit(kind: str, body: dict[str, object]) -> None:
            job = self._active.get(attempt_id)
            run_number = job.attempt.run_number if job else 0
            self._hub.publish(attempt_id, run_number, kind, body)

        return emit

    async def _run(self, job: Job, order: Order) -> None:
        """Run one attempt, record its verdict, and wake up its waiters."""
        attempt_id = job.attempt.id
        waiting = self._finished[attempt_id]
        with structlog.contextvars.bound_contextvars(
            request_id=job.request_id,
            attempt_id=attempt_id,
            kind=job.attempt.kind,
            policy=job.attempt.policy,
            **trace_log_fields(job.span.context),
        ):
            try:
                finished = await self._finish(job, order)
            except Abandoned as left:
                await self._withdraw_run(attempt_id, left.run_number)
                job.span.end(LEFT, attempt_id=attempt_id)
                waiting.cancel()
            except Exception:
                # An internal bug: this attempt stays recorded without a verdict, for the next start.
                log.exception("attempt.lost")
                job.span.end("internal", attempt_id=attempt_id)
                waiting.cancel()
            else:
                error = finished.attempt.error
                job.span.end(error.code if error else None, **span_facts(finished))
                waiting.set_result(finished)
        del self._active[attempt_id], self._finished[attempt_id]
        uid = job.attempt.peer.uid
        self._active_of[uid] -= 1
        if not self._active_of[uid]:
            del self._active_of[uid]
        self.release(uid, order.size)
        self._hub.close(attempt_id)
        self._start_waiting()
        if order.read_bytes > LARGE_BYTES:
            self._tasks.create_task(self._release_memory_later())

    async def _release_memory_later(self) -> None:
        """Release memory again later, as the spec is kept until the container is removed."""
        await pause(REMOVED_S, unless=self._stopping)
        await asyncio.to_thread(memory.give_back)

    async def _withdraw_run(self, attempt_id: str, run_number: int | None) -> None:
        """Remove the record of a run that the daemon's stop interrupted, so that it doesn't count.

        One that cannot be taken off counts, as after a crash.
        """
        log.info("attempt.left", run_number=run_number)
        if run_number is not None:
            try:
                await self._jobs.withdraw(attempt_id, run_number)
            except StoreError as trouble:
                log.error("run.not_withdrawn", code=trouble.code)

    async def _finish(self, job: Job, order: Order) -> Finished:
        async with AsyncExitStack() as held:
            with suppress(TimeoutError):  # cancelled: it ends at its first step, and needs no slot for that
                async with job.deadline.scope():
                    await held.enter_async_context(self._large_slot(order))
            try:
                await self._read_submission(job, order)
                finished = await self._execute(job)
            finally:
                job.read = None  # before the slot is given to the next one
            self._summarise(finished)
            return finished

    def _large_slot(self, order: Order) -> AbstractAsyncContextManager[None]:
        """Return one of the few slots for large submissions, in turn; nothing for others."""
        return self._hold_large(order) if order.read_bytes > LARGE_BYTES else nullcontext()

    @asynccontextmanager
    async def _hold_large(self, order: Order) -> AsyncIterator[None]:
        async with self._large.hold(*order.attempt.flow, order.attempt.id):
            try:
                yield
            finally:
                await asyncio.to_thread(memory.give_back)

    async def _read_submission(self, job: Job, order: Order) -> None:
        if order.submission is not None:
            job.read = order.submission
            return
        document = order.document
        if document is None:
            document = await self._jobs.document(order.attempt.id)
        kinds = {order.attempt.kind: order.validator}
        uid = order.attempt.peer.uid
        async with self.budget.reading(len(document), uid), self.budget.parsing(uid):
            job.read = await read_accepted(document, kinds)

    def _summarise(self, finished: Finished) -> None:
        """Count the attempt, and log one line with everything that an operator needs."""
        for rule in finished.static_misses:
            self.static_misses[finished.attempt.kind, rule] += 1
        count_attempt(self._metrics, finished)
        log.info("attempt.finished", **summary_line(finished))

    def cancel(self, attempt_id: str) -> bool:
        """End an attempt, waiting or under way; False when it is neither."""
        job = self._active.get(attempt_id)
        if job is not None:
            job.cancel()
            return True
        if attempt_id in self._queue:
            self._begin(self._queue.remove(attempt_id)).cancel()
            return True
        return False

    async def wait(self, attempt_id: str, timeout_s: float | None) -> Finished | None:
        """Wait for a queued or running attempt; None at the timeout, or if it is neither.

        An attempt that this run of the daemon can't finish is neither, from then on.
        """
        future = self._finished.get(attempt_id)
        if future is None:
            return None
        done, _ = await asyncio.wait({future}, timeout=timeout_s)
        return future.result() if done and not future.cancelled() else None

    def carries(self, attempt_id: str) -> bool:
        """Return whether an attempt is queued or active here."""
        return attempt_id in self._finished

    def current(self, attempt_id: str) -> Attempt | None:
        """Return the current state of a running attempt."""
        job = self._active.get(attempt_id)
        return job.attempt if job else None

    async def abandon_all(self) -> None:
        """Break off everything under way, for the next run of the daemon, and wait until it is broken off."""
        futures = [self._finished[attempt_id] for attempt_id in self._active]
        for job in self._active.values():
            job.abandon()
        if futures:
            await asyncio.wait(futures)

    def release_waiters(self) -> None:
        """Wake up the waiters of attempts that won't be started any more; the attempts stay recorded."""
        self._released = True
        for order in self._queue.clear():
            self._finished.pop(order.attempt.id).cancel()
            order.waiting.end(LEFT)
            order.span.end(LEFT, attempt_id=order.attempt.id)
            self._hub.close(order.attempt.id)
        self._hub.end()

    async def drain(self, timeout_s: float) -> bool:
        """Accept no more and wait until nothing is left; False when the time was not enough."""
        self._stopping.set()
        if self._active:
            futures = [self._finished[attempt_id] for attempt_id in self._active]
            _, pending = await asyncio.wait(futures, timeout=timeout_s)
            return not pending
        return True
