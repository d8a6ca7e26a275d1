"""How long finished attempts are kept. Bundles go first: a row without its bundle is found again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import NoReturn

import structlog

from assayd.errors import StoreError
from assayd.model.attempt import Attempt
from assayd.ports.artifacts import ArtifactStore
from assayd.ports.clock import Clock
from assayd.ports.store import JobStore

log = structlog.get_logger()

SWEEP_EVERY_S = 3600.0
AT_ONCE = 100
"""Attempts that are removed in one transaction."""

_SECOND_RUN = ".run2"


class Retention:
    """Removes attempts, with their bundles, some days after they were accepted."""

    def __init__(self, jobs: JobStore, artifacts: ArtifactStore, clock: Clock, *, days: int) -> None:
        self._jobs = jobs
        self._artifacts = artifacts
        self._clock = clock
        self._age = timedelta(days=days)

    async def keep_sweeping(self) -> NoReturn:
        """Sweep on a timer until cancelled; a store in trouble is tried again next time."""
        while True:
            try:
                removed = await self.sweep()
            except StoreError as trouble:
                log.error("attempts.removal_failed", code=trouble.code)
            else:
                if removed:
                    log.info("attempts.removed", count=removed)
            await asyncio.sleep(SWEEP_EVERY_S)

    async def sweep(self) -> int:
        """Remove all finished attempts that are too old; give how many."""
        removed = 0
        while old := await self._jobs.expired(self._clock.now() - self._age, AT_ONCE):
            for attempt in old:
                await self._remove_bundles(attempt)
            await self._jobs.remove([attempt.id for attempt in old])
            removed += len(old)
        return removed

    async def _remove_bundles(self, attempt: Attempt) -> None:
        """Remove the bundle, and that of a first run that was lost after it was written."""
        if attempt.bundle is not None:
            first = attempt.bundle.removesuffix(_SECOND_RUN)
            for location in (first, first + _SECOND_RUN):
                await self._artifacts.remove(location)
