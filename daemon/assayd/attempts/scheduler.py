"""Decides which attempt runs when: accepts, queues, starts, cancels, recovers, drains.

What happens to an attempt once it is started is `lifecycle`'s. Each attempt is one task of one
TaskGroup; at most `active` of them are under way, and of those at most `concurrency` hold a container.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import structlog

from assayd.aio import Deadline, task_group
from assayd.attempts.attempt_run import WAITING_S, Finished, Job
from assayd.attempts.events import EventHub
from assayd.attempts.lifecycle import Parts, run_attempt
from assayd.attempts.telemetry import count_attempt, summary_line
from assayd.errors import RequestError, StoreError
from assayd.fair_queue import FairQueue
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, Failure, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Case, Verdict
from assayd.model.run import Limits
from assayd.model.submission import Submission
from assayd.ports.artifacts import Enclosing, nothing_enclosed, superseded_by
from assayd.ports.checkpoint import Step
from assayd.ports.store import Event, Query
from assayd.ports.validator import Validator

log = structlog.get_logger()

RECORD_AGAIN_S = 1.0
"""How long to leave a store alone that could not take a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much is accepted and how much is under way."""

    length: int = 10_000
    bytes: int = 512 * 2**20
    active: int = 64
    per_uid: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A submission with everything that was decided when it was accepted.

    `request_id` is of the request that brought it; None when an earlier life has left it.
    """

    attempt: Attempt
    submission: Submission
    policy: ExecutionPolicy
    limits: Limits
    validator: Validator
    request_id: str | None = None


class Scheduler:
    """The queue and everything that is under way."""

    def __init__(self, *, parts: Parts, hub: EventHub, metrics: Metrics, limits: QueueLimits) -> None:
        self._parts = parts
        self._hub = hub
        self._metrics = metrics
        self._limits = limits
        self._queue: FairQueue[Order] = FairQueue()
        self._active: dict[str, Job] = {}
        self._unfinished: Counter[int] = Counter()
        self._reserved = 0
        self._held_bytes = 0
        self._finished: dict[str, asyncio.Future[Finished]] = {}
        self._stopping = False
        self.static_misses: Counter[tuple[str, str]] = Counter()
        self.enclosing: Enclosing = nothing_enclosed
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Scheduler]:
        """Run attempts while the body runs; attempts under way at its end are ended by cancellation."""
        async with task_group() as self._tasks:
            try:
                yield self
            finally:
                self._stopping = True
                for job in self._active.values():
                    job.deadline.cancel()

    @property
    def active(self) -> int:
        """Count the attempts under way."""
        return len(self._active)

    @property
    def unfinished(self) -> int:
        """Count the attempts that wait or are under way."""
        return len(self._finished)

    def states(self) -> Counter[State]:
        """Count what has no verdict yet, by state."""
        counts = Counter(job.attempt.state for job in self._active.values())
        counts[State.QUEUED] += len(self._queue)
        return counts

    def under_way(self, query: Query) -> list[Attempt]:
        """List attempts in one of the states that only memory knows, newest first."""
        found = [job.attempt for job in self._active.values() if query.matches(job.attempt)]
        found.sort(key=lambda attempt: (attempt.created_at, attempt.id), reverse=True)
        return found[: query.limit]

    def reserve(self, uid: int, size: int) -> None:
        """Make room for one more attempt of this user; what asks next finds it taken.

        Either `start` uses the room, or `give_back` does away with it.

        Raises: RequestError ``queue.full``, ``quota.full`` or ``not_ready`` (all retryable).
        """
        limits = self._limits
        if self._stopping:
            raise RequestError("not_ready", "the daemon is stopping", retryable=True)
        if len(self._queue) + self._reserved >= limits.length or self._held_bytes + size > limits.bytes:
            raise RequestError("queue.full", "the queue is full; try again later", retryable=True)
        if self._unfinished[uid] >= limits.per_uid:
            message = f"{limits.per_uid} attempts of this user are unfinished; try again later"
            raise RequestError("quota.full", message, retryable=True)
        self._reserved += 1
        self._hold(uid, size)

    def give_back(self, uid: int, size: int) -> None:
        """Do without room that was reserved."""
        self._reserved -= 1
        self._hold(uid, -size, -1)

    def _hold(self, uid: int, size: int, attempts: int = 1) -> None:
        self._held_bytes += size
        self._unfinished[uid] += attempts
        if not self._unfinished[uid]:
            del self._unfinished[uid]

    def start(self, order: Order, *, reserved: bool = True) -> None:
        """Put an accepted attempt into the queue; one of an earlier life has no room reserved."""
        attempt, size = order.attempt, len(order.submission.document)
        self._parts.checkpoint(Step.ACCEPTED)
        self._finished[attempt.id] = asyncio.get_running_loop().create_future()
        if reserved:
            self._reserved -= 1
        else:
            self._hold(attempt.peer.uid, size)
        self._queue.put(*attempt.lane, attempt.id, order)
        self._hub.open(attempt.id, attempt.peer.uid)
        self._metrics.accepted.labels(attempt.kind).inc()
        told: dict[str, object] = {"state": State.QUEUED.value, "request_id": order.request_id}
        self._hub.publish(attempt.id, 0, "state", told)
        self._advance()

    def _advance(self) -> None:
        """Start what waits, in turn, while there is room."""
        while self._queue and len(self._active) < self._limits.active and not self._stopping:
            self._begin(self._queue.pop())
        self._metrics.queue_depth.set(len(self._queue))
        self._metrics.queue_bytes.set(self._held_bytes)

    def _begin(self, order: Order) -> Job:
        job = self._job(order)
        self._active[order.attempt.id] = job
        self._tasks.create_task(self._run(job), name=f"attempt-{order.attempt.id}")
        return job

    def _job(self, order: Order) -> Job:
        started = self._parts.clock.now()
        attempt = replace(order.attempt, state=State.QUEUED, started_at=started)
        job = Job(
            attempt=attempt,
            submission=order.submission,
            policy=order.policy,
            limits=order.limits,
            validator=order.validator,
            deadline=Deadline(WAITING_S),
            emit=self._emitter(attempt.id),
            request_id=order.request_id,
            enclosing=self.enclosing,
        )
        job.timings_s["queued"] = (started - attempt.created_at).total_seconds()
        return job

    def _emitter(self, attempt_id: str) -> Callable[[str, dict[str, object]], None]:
        def emit(kind: str, body: dict[str, object]) -> None:
            job = self._active.get(attempt_id)
            run_number = job.attempt.run_number if job else 0
            self._hub.publish(attempt_id, run_number, kind, body)

        return emit

    async def _run(self, job: Job) -> None:
        """Run one attempt, put its verdict on record, and tell those who wait."""
        attempt_id = job.attempt.id
        waiting = self._finished[attempt_id]
        with structlog.contextvars.bound_contextvars(
            request_id=job.request_id,
            attempt_id=attempt_id,
            kind=job.attempt.kind,
            policy=job.attempt.policy,
        ):
            try:
                finished = await self._finish(job)
            except Exception:
                # A defect of ours: this attempt stays on record without a verdict, for the next life.
                log.exception("attempt.lost")
                waiting.cancel()
            else:
                waiting.set_result(finished)
        del self._active[attempt_id], self._finished[attempt_id]
        self._hold(job.attempt.peer.uid, -len(job.submission.document), -1)
        self._hub.close(attempt_id)
        self._advance()

    async def _finish(self, job: Job) -> Finished:
        with self._parts.sandbox.pool.attempt():
            finished = await run_attempt(job, self._parts)
            finished = await self._settle(job, finished)
        self._summarise(finished)
        return finished

    async def _settle(self, job: Job, finished: Finished) -> Finished:
        """Record the verdict durably, then tell it."""
        now = self._parts.clock.now()
        total = (now - finished.attempt.created_at).total_seconds()
        attempt = replace(
            finished.attempt,
            state=State.FINISHED,
            finished_at=now,
            timings_s={**job.timings_s, "total": total},
        )
        self._parts.checkpoint(Step.BUNDLED)
        events = self._last_events(attempt)
        recorded = await self._record(attempt, events, finished.cases)
        self._parts.checkpoint(Step.RECORDED)
        for event in events if recorded is attempt else self._last_events(recorded):
            self._hub.show(event)
        await self._remove_superseded(recorded)
        if recorded.bundle != attempt.bundle:  # another run's verdict was first, and has its own documents
            return replace(finished, attempt=recorded, report=None, execution=None)
        return replace(finished, attempt=recorded)

    def _last_events(self, attempt: Attempt) -> tuple[Event, ...]:
        verdict = attempt.verdict.value if attempt.verdict else None
        return self._hub.prepare(
            attempt.id,
            attempt.run_number,
            ("state", {"state": attempt.state.value}),
            ("finished", {"verdict": verdict, "cause": attempt.cause}),
        )

    async def _record(self, attempt: Attempt, last: tuple[Event, ...], cases: tuple[Case, ...]) -> Attempt:
        """Write the verdict, again and again while the store is in a trouble that can pass.

        Until then the attempt is not finished. One whose verdict can't be written is an error, and is
        taken up by the next life.
        """
        while True:
            try:
                events = (*self._hub.durable(attempt.id), *last)
                first = await self._parts.jobs.finish(attempt, events, cases)
                recorded = attempt if first else await self._parts.jobs.get(attempt.id)
            except StoreError as trouble:
                log.critical("verdict.not_recorded", code=trouble.code)
                if self._stopping or not trouble.retryable:
                    failure = Failure(code=trouble.code, message=trouble.message)
                    return replace(attempt, verdict=Verdict.ERROR, error=failure)
                await asyncio.sleep(RECORD_AGAIN_S)
            else:
                return recorded or attempt

    async def _remove_superseded(self, attempt: Attempt) -> None:
        """Remove the bundle of a run that was lost after it was written; what stays, the sweep finds."""
        earlier = superseded_by(attempt.bundle) if attempt.bundle else None
        if earlier is not None:
            try:
                await self._parts.artifacts.remove(earlier)
            except StoreError as trouble:
                log.warning("bundle.not_removed", code=trouble.code, bundle=earlier)

    def _summarise(self, finished: Finished) -> None:
        """Count it, and write the one line that carries everything an operator asks."""
        for rule in finished.static_misses:
            self.static_misses[finished.attempt.kind, rule] += 1
        count_attempt(self._metrics, finished)
        log.info("attempt.finished", **summary_line(finished))

    def cancel(self, attempt_id: str) -> bool:
        """End an attempt, waiting or under way; False when it is neither."""
        job = self._active.get(attempt_id)
        if job is not None:
            job.deadline.cancel()
            return True
        if attempt_id in self._queue:
            self._begin(self._queue.remove(attempt_id)).deadline.cancel()
            return True
        return False

    async def wait(self, attempt_id: str, timeout_s: float | None) -> Finished | None:
        """Wait for an attempt that is waiting or under way; None when the time is up or it is neither.

        An attempt that this life can't bring to its end is neither, from then on.
        """
        future = self._finished.get(attempt_id)
        if future is None:
            return None
        done, _ = await asyncio.wait({future}, timeout=timeout_s)
        return future.result() if done and not future.cancelled() else None

    def current(self, attempt_id: str) -> Attempt | None:
        """Return an attempt as it is now, when it is under way."""
        job = self._active.get(attempt_id)
        return job.attempt if job else None

    async def cancel_all(self) -> None:
        """End everything under way and wait until it has its verdict."""
        futures = [self._finished[attempt_id] for attempt_id in self._active]
        for job in self._active.values():
            job.deadline.cancel()
        if futures:
            await asyncio.wait(futures)

    def let_go(self) -> None:
        """Send away whoever waits for an attempt that this life will not start; it stays on record."""
        for order in self._queue.clear():
            self._finished.pop(order.attempt.id).cancel()
            self._hub.close(order.attempt.id)
        self._hub.end()

    async def drain(self, timeout_s: float) -> bool:
        """Accept no more and wait until nothing is left; False when the time was not enough."""
        self._stopping = True
        if self._active:
            futures = [self._finished[attempt_id] for attempt_id in self._active]
            _, pending = await asyncio.wait(futures, timeout=timeout_s)
            return not pending
        return True
