"""Provides access to attempts that other gateways execute. Implements `attempts.execution.RemoteAttempts`."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import structlog

from assayd.aio import BroadcastEvent
from assayd.attempts.events import EventHub
from assayd.errors import StoreError
from assayd.model.attempt import Attempt, State
from assayd.model.records import AttemptEvent
from assayd.store.jobs import DatabaseJobStore
from assayd_cluster.gateway.dispatches import DispatchOutbox

log = structlog.get_logger()


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
        if event.attempt_id in self._attended and self._hub.holds_events(event.attempt_id):
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
        shown = {event.seq for event in self._hub.durable_events(attempt_id)}
        for event in events:
            if event.seq not in shown:
                self._hub.deliver(event)
        if attempt is None or attempt.state is State.FINISHED:
            self._attended.discard(attempt_id)
            self._hub.close(attempt_id)
