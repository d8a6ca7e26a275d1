"""Records verdicts durably, then publishes them.

This module sets an attempt's finishing time; `model.merge` decides the verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from assayd.aio import pause
from assayd.attempts.attempt_run import Finished
from assayd.attempts.events import EventHub
from assayd.documents.events import finished_body, state_body
from assayd.errors import StoreError
from assayd.model.attempt import Attempt, Failure, State
from assayd.model.bundle import replaced_location
from assayd.model.merge import with_failure
from assayd.model.records import Event
from assayd.ports.artifacts import ArtifactStore
from assayd.ports.clock import Clock
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

RECORD_AGAIN_S = 1.0
"""How long to back off from a store that could not take a verdict."""


def ended(attempt: Attempt, at: datetime, timings_s: Mapping[str, float] | None = None) -> Attempt:
    """Return an attempt with a verdict as finished; avoid negative durations if the clock was set back."""
    total_s = max(0.0, (at - attempt.created_at).total_seconds())
    timings_s = {**(timings_s or {}), "total": total_s}
    return replace(attempt, state=State.FINISHED, finished_at=at, timings_s=timings_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """A recorder of verdicts. Once `stopping` is set, it no longer retries if the store fails."""

    jobs: DatabaseJobStore
    artifacts: ArtifactStore
    clock: Clock
    hub: EventHub
    stopping: asyncio.Event

    async def record(self, finished: Finished, timings_s: Mapping[str, float]) -> Finished:
        """Record a verdict durably, then publish it; return the recorded verdict."""
        attempt = ended(finished.attempt, self.clock.now(), timings_s)
        events = self._last_events(attempt)
        recorded = await self._write_verdict(attempt, events, finished)
        for event in events if recorded is attempt else self._last_events(recorded):
            self.hub.show(event)
        await self._remove_superseded(recorded)
        kept = replace(
            finished, attempt=recorded, cases=(), refusals=()
        )  # on record; large values are in them
        if recorded.bundle != attempt.bundle:  # another run's verdict was first, and has its own documents
            return replace(kept, report=None, execution=None)
        return kept

    def _last_events(self, attempt: Attempt) -> tuple[Event, ...]:
        return self.hub.prepare(
            attempt.id,
            attempt.run_number,
            ("state", state_body(attempt.state)),
            ("finished", finished_body(attempt)),
        )

    async def _write_verdict(self, attempt: Attempt, last: tuple[Event, ...], finished: Finished) -> Attempt:
        """Write the verdict; retry while the store's error is temporary.

        Until the verdict is written, the attempt isn't finished. If the verdict can't be written, the
        attempt gets the verdict `error`, and the next run of the daemon recovers it.
        """
        while True:
            try:
                events = (*self.hub.durable(attempt.id), *last)
                first = await self.jobs.finish(attempt, events, finished.cases, finished.refusals)
                recorded = attempt if first else await self.jobs.get(attempt.id)
            except StoreError as trouble:
                log.critical("verdict.not_recorded", code=trouble.code)
                if self.stopping.is_set() or not trouble.retryable:
                    return with_failure(Failure(code=trouble.code, message=trouble.message), attempt)
                await pause(RECORD_AGAIN_S, unless=self.stopping)
            else:
                return recorded or attempt

    async def _remove_superseded(self, attempt: Attempt) -> None:
        """Remove the bundle of a run that was lost later; a later sweep removes any remaining files."""
        earlier = replaced_location(attempt.bundle) if attempt.bundle else None
        if earlier is not None:
            try:
                await self.artifacts.remove(earlier)
            except StoreError as trouble:
                log.warning("bundle.not_removed", code=trouble.code, bundle=earlier)
