"""Runs attempts on nodes: publishes them, waits for the verdicts, and ends attempts without a verdict.

Implements `attempts.execution.AttemptRunner`: the scheduler, admission and others can use a node in the same
way as a container on this host. `RunMonitor` finds runs that are dead, and attempts that the broker accepted
but that no node holds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from sqlalchemy import Connection, and_, bindparam, func, or_, select

from assayd.aio import BroadcastEvent, open_task_group, pause
from assayd.attempts.conclusion import ConclusionWriter, VerdictRecorder
from assayd.attempts.events import EventHub
from assayd.attempts.execution import AttemptAbandonedError, FinishedAttempt, Job
from assayd.errors import StoreError
from assayd.model.attempt import MAX_RUNS, Failure, State
from assayd.model.merge import CANCELLED
from assayd.model.records import AttemptEvent
from assayd.ports.tracing import Span
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import DatabaseJobStore
from assayd_cluster.documents import HEARTBEAT_TIMEOUT_S
from assayd_cluster.gateway.failing_nodes import (
    NodeFailureCounter,
    compute_longest_run_s,
    may_have_trial,
)
from assayd_cluster.gateway.outbox import DispatchOutbox, MessagePublisher
from assayd_cluster.gateway.runs import RunTable
from assayd_cluster.nodes import FULL
from assayd_cluster.tables import LIVE_SINCE, NOW, dispatches, nodes

log = structlog.get_logger()


MAX_UNCLAIMED_S = 60.0
"""Seconds for which a message can be unclaimed before it is published again."""
MAX_TAKEN_S = 10.0
"""Seconds for which a message can be unclaimed if the queue is empty, i.e. the message has been taken."""
MIN_SILENT_AGE_S = 5.0
"""Minimum age in seconds of a silent run; a node sends the first events of a run within a second."""
MIN_SILENT_AGE_FULL_NODE_S = 30.0
"""Minimum age in seconds of a silent run if runs are waiting in the node's daemon."""
_MICROS_PER_S = 1_000_000

_RUN = tables.runs.c
_NEWEST = tables.runs.alias("newest")
_LATEST = (
    select(func.max(_NEWEST.c.run_number))
    .where(_NEWEST.c.attempt_id == dispatches.c.attempt_id)
    .scalar_subquery()
)
_EVENTS_OF_NODE = select(tables.events.c.seq).where(
    tables.events.c.attempt_id == dispatches.c.attempt_id, tables.events.c.seq > 1
)
"""The events of nodes; the gateway itself records the first event of an attempt."""
_PUBLISHED = select(
    dispatches.c.attempt_id,
    dispatches.c.published_at,
    _RUN.daemon_id,
    _RUN.run_number,
    _RUN.leased_at,
    _RUN.expires_at,
    and_(_RUN.run_number < MAX_RUNS, ~_EVENTS_OF_NODE.exists()).label("silent"),
    NOW.label("now"),
).select_from(
    dispatches.outerjoin(
        tables.runs, and_(_RUN.attempt_id == dispatches.c.attempt_id, _RUN.run_number == _LATEST)
    )
)
_OLD = _PUBLISHED.where(
    dispatches.c.gateway_id == bindparam("gateway"),
    dispatches.c.published_at.is_not(None),
    or_(
        dispatches.c.published_at < NOW - int(MAX_TAKEN_S * _MICROS_PER_S),
        _RUN.leased_at < NOW - int(MIN_SILENT_AGE_S * _MICROS_PER_S),
    ),
)
_ONE = _PUBLISHED.where(dispatches.c.attempt_id == bindparam("attempt"))
_SELECT_LISTED = select(nodes.c.name, nodes.c.runs, (nodes.c.why == FULL).label("full")).where(
    nodes.c.beat_at > LIVE_SINCE
)

MAX_CANCEL_S = HEARTBEAT_TIMEOUT_S + 5
"""Seconds in which a node must end a cancelled run before the gateway ends the attempt."""
WATCH_INTERVAL_S = 5.0
LATE_CHECKS = 3
"""Number of checks at which a run must be late before it is taken back; after an outage, nodes need time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedAttempt:
    """An attempt without a verdict, and its latest run, if any. Times are in microseconds."""

    attempt_id: str
    published_at: int | None
    node: str | None
    leased_at: int | None
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A run that a live node holds, and the run's age in seconds.

    `silent`: the node has sent nothing about this run. A second run is never silent: if it is taken back,
    the attempt ends.
    `full`: the node reports that runs are waiting in its daemon.
    """

    attempt_id: str
    node: str
    number: int
    kept_s: float
    silent: bool
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnapshot:
    """A snapshot of a gateway's attempts: the attempts to republish, and the runs on nodes."""

    stray: Sequence[str]
    kept: Sequence[KeptRun]


def is_alive(one: DispatchedAttempt, listed: Mapping[str, frozenset[str]], now: int) -> bool:
    """Return whether a live node has an attempt. `listed` contains the attempts of each live node."""
    if one.node is None or one.leased_at is None or one.over or one.node not in listed:
        return False
    return one.attempt_id in listed[one.node] or now - one.leased_at < HEARTBEAT_TIMEOUT_S * _MICROS_PER_S


def is_stray(
    one: DispatchedAttempt,
    listed: Mapping[str, frozenset[str]],
    now: int,
    *,
    unclaimed_s: float = MAX_UNCLAIMED_S,
) -> bool:
    """Return whether an attempt must be republished.

    An attempt whose run has died is republished once `HEARTBEAT_TIMEOUT_S` seconds have passed since its
    publication. An attempt that is unclaimed for `unclaimed_s` seconds is republished too; as long as its
    message may still be waiting in the queue, this time must be long.
    """
    if one.published_at is None or is_alive(one, listed, now):
        return False
    waited = now - one.published_at
    broken_off = one.node is not None and one.leased_at is not None and one.leased_at > one.published_at
    return waited > (HEARTBEAT_TIMEOUT_S if broken_off else unclaimed_s) * _MICROS_PER_S


class RunMonitor:
    """A monitor of the runs of one gateway's attempts."""

    def __init__(self, access: DatabaseAccess, gateway_id: str) -> None:
        self._access = access
        self._gateway_id = gateway_id

    async def take_snapshot(self, *, queue_is_empty: bool = False) -> AttemptSnapshot:
        """Return the attempts to republish, and the runs on nodes, except those that have just begun.

        If `queue_is_empty`, unclaimed attempts are republished sooner, because their messages were read.
        """
        unclaimed_s = MAX_TAKEN_S if queue_is_empty else MAX_UNCLAIMED_S

        def fetch(connection: Connection) -> AttemptSnapshot:
            rows = connection.execute(_OLD, {"gateway": self._gateway_id}).all()
            living = connection.execute(_SELECT_LISTED).all() if rows else ()
            listed, full = _read_listed_runs(living), {node.name for node in living if node.full}
            found = [(row, _build_dispatched(row)) for row in rows]
            return AttemptSnapshot(
                stray=[
                    row.attempt_id
                    for row, one in found
                    if is_stray(one, listed, row.now, unclaimed_s=unclaimed_s)
                ],
                kept=[
                    _build_kept_run(row, full=row.daemon_id in full)
                    for row, one in found
                    if is_alive(one, listed, row.now)
                ],
            )

        return await self._access.read(fetch)

    async def is_alive(self, attempt_id: str) -> bool:
        """Return whether a live node holds an attempt."""

        def fetch(connection: Connection) -> bool:
            row = connection.execute(_ONE, {"attempt": attempt_id}).one_or_none()
            listed = _read_listed_runs(connection.execute(_SELECT_LISTED))
            return row is not None and is_alive(_build_dispatched(row), listed, row.now)

        return await self._access.read(fetch)


def _read_listed_runs(living: Iterable[Any]) -> Mapping[str, frozenset[str]]:
    return {row.name: frozenset(json.loads(row.runs)) for row in living}


def _build_dispatched(row: Any) -> DispatchedAttempt:
    return DispatchedAttempt(
        attempt_id=row.attempt_id,
        published_at=row.published_at,
        node=row.daemon_id,
        leased_at=row.leased_at,
        over=row.expires_at is not None and row.expires_at <= row.now,
    )


def _build_kept_run(row: Any, *, full: bool) -> KeptRun:
    kept_s = (row.now - row.leased_at) / _MICROS_PER_S
    return KeptRun(
        attempt_id=row.attempt_id,
        node=row.daemon_id,
        number=row.run_number,
        kept_s=kept_s,
        silent=row.silent and kept_s >= (MIN_SILENT_AGE_FULL_NODE_S if full else MIN_SILENT_AGE_S),
        full=full,
    )


@dataclass(slots=True, kw_only=True)
class _PendingAttempt:
    """An attempt that is published and has no verdict yet. `again` is set to publish the attempt once more.

    `running` contains the newest run that its node has reported as running, and the monotonic time of the
    report. `late_checks` contains the number of checks at which each run was late; a check at which a node
    doesn't list the run changes nothing, so that the node can't restart the count.
    """

    job: Job
    ended: asyncio.Future[FinishedAttempt]
    span: Span
    again: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Failure | None = None
    running: tuple[int, float] = (0, 0.0)
    began: float = field(default_factory=time.monotonic)
    late_checks: Counter[int] = field(default_factory=Counter)

    @property
    def longest_run_s(self) -> float:
        """Return the seconds for which a node may keep a run of this attempt."""
        return compute_longest_run_s(self.job.limits, trial=may_have_trial(self.job.validator))

    def end(self, finished: FinishedAttempt) -> None:
        if not self.ended.done():
            self.ended.set_result(finished)


class RemoteExecution:
    """The attempts of this gateway that are at the broker or at a node.

    Args:
        dispatches: the outbox of messages.
        publisher: sends the messages to the broker.
        watch: tracks the live runs.
        runs: the runs of attempts; a run that a node holds for too long is taken back.
        failing: tracks the nodes that hold runs for too long.
        jobs: records of attempts.
        conclusion: ends an attempt for which no node sends a verdict.
        verdicts: records the verdicts from `conclusion`.
        hub: events of attempts.
        stopping: set when further attempts must not be started.
        cancels: notified when an attempt that a node may hold is cancelled.
        queue_is_empty: returns whether no message waits in the broker's queue.
        on_republished: called when an attempt is republished because no node claimed it or its node is
            gone.
        on_taken_back: called with the reason when a run is taken back from its node.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        dispatches: DispatchOutbox,
        publisher: MessagePublisher,
        watch: RunMonitor,
        runs: RunTable,
        failing: NodeFailureCounter,
        jobs: DatabaseJobStore,
        conclusion: ConclusionWriter,
        verdicts: VerdictRecorder,
        hub: EventHub,
        stopping: asyncio.Event,
        cancels: BroadcastEvent,
        queue_is_empty: Callable[[], bool],
        on_republished: Callable[[], None],
        on_taken_back: Callable[[str], None],
    ) -> None:
        self._dispatches = dispatches
        self._publisher = publisher
        self._watch = watch
        self._runs = runs
        self._failing = failing
        self._jobs = jobs
        self._conclusion = conclusion
        self._verdicts = verdicts
        self._hub = hub
        self._stopping = stopping
        self._pending_attempts: dict[str, _PendingAttempt] = {}
        self._cancels = cancels
        self._queue_is_empty = queue_is_empty
        self._on_republished = on_republished
        self._on_taken_back = on_taken_back
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RemoteExecution]:
        """Monitor the live runs of pending attempts while the body runs."""
        async with open_task_group() as self._tasks:
            watching = self._tasks.create_task(self._watch_periodically(), name="runs")
            try:
                yield self
            finally:
                watching.cancel()

    async def __call__(self, job: Job) -> FinishedAttempt:
        """Run an attempt on a node, and return the attempt with its recorded verdict."""
        attempt_id = job.attempt.id
        try:
            with job.trace_step("dispatch") as span:
                flight = _PendingAttempt(job=job, ended=asyncio.get_running_loop().create_future(), span=span)
                self._pending_attempts[attempt_id] = flight
                failure = await self._await_verdict(flight)
                if failure is None:
                    return await flight.ended
            if job.attempt.state is not State.JUDGING:
                job.change_state(State.JUDGING)
            concluded = await self._conclusion.conclude(job, (), None, failure)
            return await self._verdicts.record(concluded, job.timings_s)
        finally:
            del self._pending_attempts[attempt_id]

    async def _await_verdict(self, flight: _PendingAttempt) -> Failure | None:
        """Wait for a node's verdict and return None, or return the reason if the attempt can't get one.

        Raises: AttemptAbandonedError, if the job is abandoned.
        """
        job = flight.job
        try:
            async with job.deadline.scope():
                if job.attempt.run_number == 0 or not await self._watch.is_alive(job.attempt.id):
                    flight.again.set()
                await self._publish_until_ended(flight)
        except TimeoutError:
            if job.abandoned:
                raise AttemptAbandonedError(None) from None
            if not job.deadline.cancelled:
                return Failure(code="attempt.stalled", message="The attempt waited too long for a node.")
            return await self._cancel_at_node(flight)
        return flight.failure

    async def _publish_until_ended(self, flight: _PendingAttempt) -> None:
        """Publish the attempt at each request, until it has a verdict or can no longer get one."""
        attempt_id = flight.job.attempt.id
        while not flight.ended.done() and flight.failure is None:
            if flight.again.is_set():
                flight.again.clear()
                message = await self._dispatches.message(attempt_id)
                if message is None:
                    self._tasks.create_task(self._fetch_verdict(flight), name=f"look-{attempt_id}")
                else:
                    context = flight.span.context
                    trace = context.text if context is not None else None
                    await self._publisher.publish(replace(message, trace=trace))
            await self._wait_for_change(flight)

    async def _wait_for_change(self, flight: _PendingAttempt) -> None:
        again = asyncio.ensure_future(flight.again.wait())
        try:
            await asyncio.wait((again, flight.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            again.cancel()

    async def _cancel_at_node(self, flight: _PendingAttempt) -> Failure | None:
        """Notify a node to end a cancelled attempt, and wait for its verdict.

        Return None if the verdict arrives in time, otherwise the failure.
        """
        attempt_id = flight.job.attempt.id
        await self._dispatches.record_cancellation(attempt_id)
        self._cancels.wake_all()
        if await self._watch.is_alive(attempt_id):
            await asyncio.wait({flight.ended}, timeout=MAX_CANCEL_S)
        if flight.ended.done():
            return None
        return Failure(code=CANCELLED, message="The attempt was cancelled before it ran.")

    def is_pending_here(self, attempt_id: str) -> bool:
        """Return whether this gateway waits for the verdict of an attempt."""
        return attempt_id in self._pending_attempts

    def cancel(self, attempt_id: str) -> None:
        """End an attempt of this gateway whose cancellation was requested at another gateway."""
        flight = self._pending_attempts.get(attempt_id)
        if flight is not None:
            flight.job.cancel()

    def end(self, finished: FinishedAttempt) -> None:
        """Deliver the recorded verdict of an attempt. Ignore attempts of other gateways."""
        flight = self._pending_attempts.get(finished.attempt.id)
        if flight is not None:
            flight.end(finished)

    def publish_again(self, attempt_id: str) -> None:
        """Publish an attempt again, because no node is running it."""
        flight = self._pending_attempts.get(attempt_id)
        if flight is not None:
            flight.again.set()

    def end_without_runs(self, attempt_id: str) -> None:
        """End an attempt that has lost both of its runs."""
        flight = self._pending_attempts.get(attempt_id)
        if flight is not None:
            message = "The attempt was lost twice because its node or daemon stopped."
            flight.failure = Failure(code="run.lost", message=message)
            flight.again.set()

    def publish_event(self, event: AttemptEvent) -> None:
        """Publish an event from a node, and apply any state change in the event."""
        self._hub.deliver(event)
        flight = self._pending_attempts.get(event.attempt_id)
        if flight is not None and event.kind == "state":
            state = State(str(event.body["state"]))
            flight.job.attempt = replace(flight.job.attempt, state=state, run_number=event.run_number)
            # Only the first report of a run counts, so that a node can't extend its time by repeating it.
            if state is State.RUNNING and event.run_number > flight.running[0]:
                flight.running = event.run_number, time.monotonic()

    def check_verdict(self, attempt_id: str) -> None:
        """Check whether an attempt has a verdict, because another gateway has sent a notice about it."""
        flight = self._pending_attempts.get(attempt_id)
        if flight is not None:
            self._tasks.create_task(self._fetch_verdict(flight), name=f"look-{attempt_id}")

    def check_all_verdicts(self) -> None:
        """Check all pending attempts for verdicts, because notices may have been missed."""
        for attempt_id in self._pending_attempts:
            self.check_verdict(attempt_id)

    async def _fetch_verdict(self, flight: _PendingAttempt) -> None:
        attempt_id = flight.job.attempt.id
        try:
            attempt = await self._jobs.get(attempt_id)
            if attempt is None or attempt.state is not State.FINISHED:
                return
            shown = {event.seq for event in self._hub.list_durable_events(attempt_id)}
            for event in await self._jobs.events(attempt_id):
                if event.seq not in shown:
                    self._hub.deliver(event)
        except StoreError as trouble:
            log.error("verdict.not_read", code=trouble.code, attempt_id=attempt_id)
            return
        except Exception:  # the row of one attempt is invalid: continue with the others
            log.exception("verdict.not_read", attempt_id=attempt_id)
            return
        flight.end(FinishedAttempt(attempt=attempt, report=None, execution=None))

    async def _watch_periodically(self) -> None:
        while True:
            await pause(WATCH_INTERVAL_S, unless=self._stopping)
            if self._stopping.is_set():
                return
            try:
                await self.republish_stray_attempts()
            except StoreError as trouble:
                log.error("runs.not_watched", code=trouble.code)

    async def republish_stray_attempts(self) -> None:
        """Republish overdue attempts, and attempts that the broker accepted but that no live node holds."""
        seen = await self._watch.take_snapshot(queue_is_empty=self._queue_is_empty())
        for attempt_id in seen.stray:
            if attempt_id in self._pending_attempts:
                log.warning("attempt.published_again", attempt_id=attempt_id)
                self._on_republished()
                self.publish_again(attempt_id)
        for kept in seen.kept:
            flight = self._pending_attempts.get(kept.attempt_id)
            if flight is not None:
                reason = _describe_delay(kept, flight)
                flight.late_checks[kept.number] = flight.late_checks[kept.number] + 1 if reason else 0
                if flight.late_checks[kept.number] >= LATE_CHECKS:
                    await self._take_back(kept, flight, reason)

    async def _take_back(self, kept: KeptRun, flight: _PendingAttempt, reason: str) -> None:
        """Take a run back from its node, and republish the attempt. Do nothing if the run has ended."""
        if await self._runs.take_back_run(kept.attempt_id, kept.node, kept.number):
            log.warning(
                "run.taken_back",
                reason=reason,
                attempt_id=kept.attempt_id,
                node=kept.node,
                run_number=kept.number,
            )
            self._on_taken_back(reason)
            self.publish_again(kept.attempt_id)
            waited = kept.full and flight.running[0] < kept.number
            # If the database's clock was set forward, the runs of all nodes are overdue at once.
            young = time.monotonic() - flight.began < flight.longest_run_s
            began_s = kept.kept_s if reason == "silent" or waited or young else 0.0
            await self._failing.record_kept_run(kept.node, flight.job.attempt.peer.uid, began_s=began_s)


def _describe_delay(kept: KeptRun, flight: _PendingAttempt) -> str:
    """Return why a run is late: ``overdue`` or ``silent``; empty if it isn't late.

    A first run has its time from the claim, so that its node can't extend it. The time of a second run
    restarts when its node reports the run as running, because the attempt ends if this run is taken back.
    """
    number, began = flight.running
    restarted = number == kept.number == MAX_RUNS
    kept_s = time.monotonic() - began if restarted else kept.kept_s
    if kept_s > flight.longest_run_s:
        return "overdue"
    return "silent" if kept.silent else ""
