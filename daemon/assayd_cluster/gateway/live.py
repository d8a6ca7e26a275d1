"""Records the events of runs that nodes send, and forwards the events to waiting clients.

Also provides access to attempts that other gateways execute, and so implements
`attempts.execution.RemoteAttempts`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, bindparam, func, select

from assayd.aio import BroadcastEvent
from assayd.attempts.events import OUTPUT, EventHub
from assayd.errors import RequestError, StoreError
from assayd.model.attempt import MAX_RUNS, Attempt, State
from assayd.model.records import AttemptEvent
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import DatabaseJobStore
from assayd_cluster.documents import (
    HEARTBEAT_TIMEOUT_S,
    MAX_EVENT_SEQ,
    MOST_EVENTS,
    Claim,
    ClaimedRun,
    LiveEvent,
    RunLost,
    RunVerdict,
)
from assayd_cluster.gateway.execution import RemoteExecution
from assayd_cluster.gateway.failing_nodes import NodeFailureCounter
from assayd_cluster.gateway.notices import GatewayNotices
from assayd_cluster.gateway.outbox import DispatchOutbox
from assayd_cluster.gateway.runs import HeldRun, NodeIdle, RunHeldElsewhere, RunsExhausted, RunTable
from assayd_cluster.gateway.verdicts import RunVerdictRecorder, renumber_events

log = structlog.get_logger()


ELSEWHERE_S = 0.5
"""Seconds before a message is republished that was delivered to an unsuitable node."""
MAX_UPLOADED_BYTES = 128 * 2**20
MAX_REFUSING_NODES = 1024
"""Maximum number of attempts whose refusing node is stored."""

_SELECT_RECORDED = select(func.count(), func.coalesce(func.max(tables.events.c.seq), 0)).where(
    tables.events.c.attempt_id == bindparam("attempt"),
    tables.events.c.seq.between(bindparam("first"), bindparam("last")),
)
"""The number of recorded durable events of a run, and the number of the newest."""


class OtherGatewayAttempts:
    """The events and verdicts of other gateways' attempts, for callers of this gateway."""

    def __init__(self, jobs: DatabaseJobStore, hub: EventHub, dispatches: DispatchOutbox) -> None:
        self._jobs = jobs
        self._hub = hub
        self._dispatches = dispatches
        self._changed: defaultdict[str, BroadcastEvent] = defaultdict(BroadcastEvent)
        self._attended: set[str] = set()

    async def publish_events(self, attempt: Attempt) -> None:
        """Publish the events of an attempt at this gateway too, beginning with the recorded events."""
        if attempt.id not in self._attended:
            self._attended.add(attempt.id)
            self._hub.open(attempt.id, attempt.peer.uid)
        await self._publish_missing_events(attempt.id)

    async def ended(self, attempt_id: str, timeout_s: float) -> None:
        """Wait until an attempt has a verdict or the timeout expires."""
        changed = self._changed[attempt_id].next  # before the lookup, so that later events aren't missed
        attempt = await self._jobs.get(attempt_id)
        if attempt is not None and attempt.state is not State.FINISHED:
            try:
                async with asyncio.timeout(timeout_s):
                    await changed.wait()
            except TimeoutError:
                return

    async def cancel(self, attempt_id: str) -> bool:
        """Request the cancellation of another gateway's attempt. Return False if the attempt has ended."""
        return await self._dispatches.record_cancellation(attempt_id)

    def has_followers(self, attempt_id: str) -> bool:
        """Return whether a client of this gateway follows an attempt of another gateway."""
        return attempt_id in self._attended

    def publish_if_followed(self, event: AttemptEvent) -> None:
        """Publish an event of an attempt if a client of this gateway follows the attempt."""
        if event.attempt_id in self._attended and self._hub.has_events(event.attempt_id):
            self._hub.deliver(event)

    def wake_waiters(self, attempt_id: str) -> None:
        """Wake the callers that wait for an attempt, because the attempt has a verdict."""
        waiting = self._changed.pop(attempt_id, None)
        if waiting is not None:
            waiting.wake_all()

    def wake_all_waiters(self) -> None:
        """Make all waiting callers check their attempts again, because a notice may have been missed."""
        for attempt_id in list(self._changed):
            self.wake_waiters(attempt_id)

    async def finish(self, attempt_id: str) -> None:
        """Publish the remaining events of a followed attempt, and close its event log."""
        self.wake_waiters(attempt_id)
        if attempt_id in self._attended:
            await self._publish_missing_events(attempt_id)

    async def _publish_missing_events(self, attempt_id: str) -> None:
        """Publish the recorded events that weren't published before.

        If the attempt has a verdict, the event log is closed.
        """
        try:
            attempt = await self._jobs.get(attempt_id)
            events = await self._jobs.events(attempt_id)
        except StoreError as trouble:
            log.error("events.not_read", code=trouble.code, attempt_id=attempt_id)
            return
        shown = {event.seq for event in self._hub.list_durable_events(attempt_id)}
        for event in events:
            if event.seq not in shown:
                self._hub.deliver(event)
        if attempt is None or attempt.state is State.FINISHED:
            self._attended.discard(attempt_id)
            self._hub.close(attempt_id)


class RunUpdateRecorder:
    """A recorder of the results that nodes send, which also forwards them to waiting and following clients.

    Args:
        cancels: notified when any gateway cancels an attempt.
        on_passed_on: called when an attempt is republished because a node that accepts no work claimed it.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        access: DatabaseAccess,
        runs: RunTable,
        verdicts: RunVerdictRecorder,
        *,
        execution: RemoteExecution,
        others: OtherGatewayAttempts,
        notices: GatewayNotices,
        failing: NodeFailureCounter,
        cancels: BroadcastEvent,
        on_passed_on: Callable[[], None],
    ) -> None:
        self._access = access
        self._runs = runs
        self._verdicts = verdicts
        self._execution = execution
        self._others = others
        self._notices = notices
        self._add_events = access.build_list_inserter(tables.events)
        self._failing = failing
        self._cancels = cancels
        self._on_passed_on = on_passed_on
        self._refused: OrderedDict[str, str] = OrderedDict()
        """The node that refused an attempt, by attempt id, for the newest refusals."""

    async def claim(self, node: str, claim: Claim) -> ClaimedRun:
        """Assign a node the run to which its message refers.

        Raises: the errors of `RunTable.claim`; RequestError ``run.over``, if another node must run the
        attempt.
        """
        try:
            return await self._runs.claim(node, claim)
        except RunsExhausted:
            await self._end_lost_attempt(claim.attempt)
            raise
        except NodeIdle as idle:
            log.warning("claim.refused", node=node, attempt_id=claim.attempt, why=idle.message)
            self._on_passed_on()
            await asyncio.sleep(ELSEWHERE_S)
            self.publish_again(claim.attempt)
            await self._runs.request_republish(claim.attempt)
            if idle.tenant is not None:
                await self._failing.record_kept_run(node, idle.tenant, began_s=HEARTBEAT_TIMEOUT_S)
            raise
        except RunHeldElsewhere as held:
            if not held.elsewhere:
                raise
            # If it were put back, the message would be first in the queue and come to this node repeatedly.
            await asyncio.sleep(ELSEWHERE_S)
            self.publish_again(claim.attempt)
            await self._runs.notify_run_returned(claim.attempt)
            raise RequestError(
                "run.over", "another node runs it for another message; drop this one"
            ) from held

    async def _end_lost_attempt(self, attempt_id: str) -> None:
        self._runs.forget(attempt_id)
        if self._execution.is_pending_here(attempt_id):
            self._execution.end_without_runs(attempt_id)
        else:
            await self._runs.notify_runs_exhausted(attempt_id)

    async def require_run_holder(self, node: str, attempt_id: str, run: int) -> None:
        """Check that a run belongs to a node before its body is read.

        Raises: the errors of `RunTable.require_run_holder`.
        """
        await self._runs.require_run_holder(node, attempt_id, run)

    async def record_events(self, node: str, attempt_id: str, run: int, brought: Sequence[LiveEvent]) -> None:
        """Record and publish the events of a run.

        Raises: RequestError ``too_large``, if the run has too many events; ``run.over``, if another run is
        needed; the errors of `RunTable.held`.
        """
        held = await self._require_unfinished_run(node, attempt_id, run)
        before = (run - 1) * MAX_EVENT_SEQ
        numbers = {"attempt": attempt_id, "first": before + 2, "last": before + MAX_EVENT_SEQ}

        def apply(connection: Connection) -> Sequence[AttemptEvent]:
            count, newest = connection.execute(_SELECT_RECORDED, numbers).one()
            events = list(_iter_unpublished_events(renumber_events(held, brought), newest))
            durable = [tables.build_event_values(event) for event in events if event.kind not in OUTPUT]
            if count + len(durable) > MOST_EVENTS:
                raise RequestError("too_large", f"a run has at most {MOST_EVENTS} lasting events")
            if durable:
                self._add_events(connection, durable)
            if not self._execution.is_pending_here(attempt_id):
                for event in events:  # too large for a notice: other gateways show a gap
                    self._notices.send_notice(connection, "event", **build_event_notice(event))
            return events

        for event in await self._access.write(apply, durable=False):
            self.publish_event(event)

    def publish_event(self, event: AttemptEvent) -> None:
        """Publish an event to the clients that follow the attempt at this gateway."""
        if self._execution.is_pending_here(event.attempt_id):
            self._execution.publish_event(event)
        else:
            self._others.publish_if_followed(event)

    async def store_file(self, node: str, attempt_id: str, run: int, sha256: str, content: bytes) -> None:
        """Store a large file of a bundle.

        Raises: RequestError ``too_large``, if the files of the run are too large; ``run.over``, if another
        run is needed; the errors of `RunTable.held`.
        """
        held = await self._require_unfinished_run(node, attempt_id, run)
        await self._runs.store_file(held, sha256, content, most_bytes=MAX_UPLOADED_BYTES)

    async def _require_unfinished_run(self, node: str, attempt_id: str, run: int) -> HeldRun:
        held = await self._runs.held(node, attempt_id, run)
        if held.finished:
            raise RequestError("run.over", f"attempt {attempt_id} no longer needs run {run}")
        return held

    async def record_verdict(self, node: str, attempt_id: str, run: int, brought: RunVerdict) -> bool:
        """Record a verdict. Return False if another verdict was recorded first.

        Raises: RequestError, if the verdict is invalid or the node doesn't hold the run.
        """
        held = await self._runs.get_claimed_run(node, attempt_id, run)
        try:
            counted = await self._verdicts.record_verdict(held, brought)
        finally:
            self._runs.forget(attempt_id)
        if counted:
            self._failing.record_verdict(node)
            await self._count_refusal_against_node(attempt_id, held)
        await self._others.finish(attempt_id)
        return counted

    async def record_lost_run(self, node: str, attempt_id: str, run: int, lost: RunLost) -> None:
        """Record that a run ended without a verdict. The attempt's second run, if unused, follows."""
        held = await self._require_unfinished_run(node, attempt_id, run)
        log.warning("run.lost", attempt_id=attempt_id, node=node, run_number=run, reason=lost.reason)
        spent = await self._runs.record_lost_run(held, started=lost.started, refused=lost.refused)
        if spent and run >= MAX_RUNS:
            await self._end_lost_attempt(attempt_id)
        else:
            self.publish_again(attempt_id)
        if lost.refused:
            self.note_refusal(attempt_id, node)
        else:
            await self._failing.record_lost_run(node, held.attempt.peer.uid)

    def note_refusal(self, attempt_id: str, node: str) -> None:
        """Remember which node's daemon refused a submission, until another node judges it."""
        self._refused[attempt_id] = node
        if len(self._refused) > MAX_REFUSING_NODES:
            self._refused.popitem(last=False)

    async def _count_refusal_against_node(self, attempt_id: str, held: HeldRun) -> None:
        """Count a refusal as a lost run if another node has judged the attempt."""
        node = self._refused.pop(attempt_id, held.node)
        if node != held.node:
            log.warning("run.refused", attempt_id=attempt_id, node=node, judged_by=held.node)
            await self._failing.record_lost_run(node, held.attempt.peer.uid)

    async def distrust(self, node: str, since: int) -> tuple[int, int]:
        """Mark a node's verdicts of runs since a time (in microseconds), and take back the node's runs.

        Return the number of newly marked verdicts, and the number of runs taken from the node.
        """
        marked, taken = await self._runs.distrust_node(node, since)
        for attempt_id in taken:
            self.publish_again(attempt_id)
        log.warning("node.distrusted", node=node, marked=marked, taken_back=len(taken))
        return marked, len(taken)

    async def is_known(self, node: str) -> bool:
        """Return whether a node with this name has had a run of a recorded attempt."""
        return await self._runs.is_known(node)

    def forget(self, attempt_id: str | None = None) -> None:
        """Remove an attempt's run, or all runs, from the cache, because another gateway has newer data."""
        self._runs.forget(attempt_id)

    def publish_again(self, attempt_id: str) -> None:
        """Republish an attempt that a node returned, if the attempt belongs to this gateway."""
        self._runs.forget(attempt_id)
        self._execution.publish_again(attempt_id)

    async def wait_for_cancelled(self, node: str, wait_s: float) -> Sequence[str]:
        """Wait until a node holds attempts that it must end, and return their ids.

        Return an empty sequence if there are none within `wait_s` seconds.
        """
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    changed = self._cancels.next
                    found = await self._runs.list_cancelled(node)
                    if found:
                        return found
                    await changed.wait()
        except TimeoutError:
            return ()


def _iter_unpublished_events(events: Sequence[AttemptEvent], newest: int) -> Iterator[AttemptEvent]:
    """Yield the events that weren't published before, including all output, which has no numbers."""
    for event in events:
        if event.kind in OUTPUT:
            yield event
        elif event.seq > newest:
            newest = event.seq
            yield event


def build_event_notice(event: AttemptEvent) -> dict[str, object]:
    """Convert an event to the content of a notice."""
    values = tables.build_event_values(event)
    return {"event": values.pop("kind"), **values}


def parse_event_notice(notice: Mapping[str, Any]) -> AttemptEvent:
    """Convert the content of a notice to an event."""
    return tables.read_event({**notice, "kind": notice["event"]})
