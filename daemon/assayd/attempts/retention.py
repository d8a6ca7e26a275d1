"""How long finished attempts are kept, and how many.

Bundles go first: a row without its bundle is found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NoReturn

import structlog

from assayd.errors import StoreError
from assayd.model.attempt import Attempt
from assayd.ports.artifacts import SECOND_RUN, ArtifactStore, disk_bytes
from assayd.ports.batches import BatchStore
from assayd.ports.clock import Clock
from assayd.ports.service import Swept
from assayd.ports.store import JobStore

log = structlog.get_logger()

SWEEP_EVERY_S = 300.0
AT_ONCE = 100
"""Attempts that are removed in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What is kept at most."""

    days: int
    attempts: int
    disk_bytes: int


class Retention:
    """Removes finished attempts with their bundles: the old ones, and the oldest when there are too many."""

    def __init__(
        self, jobs: JobStore, batches: BatchStore, artifacts: ArtifactStore, clock: Clock, keep: Keep
    ) -> None:
        self._jobs = jobs
        self._batches = batches
        self._artifacts = artifacts
        self._clock = clock
        self._keep = keep
        self._sweeping = asyncio.Lock()

    async def keep_sweeping(self) -> NoReturn:
        """Sweep on a timer until cancelled; a store in trouble is tried again next time."""
        while True:
            try:
                swept = await self.sweep()
            except StoreError as trouble:
                log.error("attempts.removal_failed", code=trouble.code)
            else:
                if swept != Swept():
                    log.info(
                        "attempts.removed",
                        count=swept.attempts,
                        bundles=swept.bundles,
                        disk_bytes=swept.disk_bytes,
                    )
            await asyncio.sleep(SWEEP_EVERY_S)

    async def sweep(self, *, dry_run: bool = False) -> Swept:
        """Remove what is too old or too much, and bundles whose place another took; or only count them."""
        async with self._sweeping:
            swept = Swept()
            async with aclosing(self._superfluous(stays=dry_run)) as pages:
                async for page in pages:
                    if not dry_run:
                        await self._remove(page)
                    swept = _add(swept, page)
            if not dry_run:
                await self._batches.expire(self._oldest())
            doubles = await self._superseded()
            if not dry_run:
                for location in doubles:
                    await self._artifacts.remove(location)
            return replace(swept, bundles=len(doubles))

    async def _superfluous(self, *, stays: bool) -> AsyncGenerator[Sequence[Attempt], None]:
        """Return the attempts that are to go; `stays`: they are still there when more is asked for."""
        seen: dict[str, int] = {}
        async for page in self._pages(self._oldest(), stays=stays):
            seen |= {attempt.id: disk_bytes(attempt.artifacts) for attempt in page} if stays else {}
            yield page
        usage = await self._jobs.usage()
        attempts = usage.attempts - len(seen) - self._keep.attempts
        size = usage.disk_bytes - sum(seen.values()) - self._keep.disk_bytes
        if attempts <= 0 and size <= 0:
            return
        async for page in self._pages(None, stays=stays):
            going = []
            for attempt in page:
                if attempt.id not in seen and (attempts > 0 or size > 0):
                    going.append(attempt)
                    attempts -= 1
                    size -= disk_bytes(attempt.artifacts)
            if going:
                yield going
            if attempts <= 0 and size <= 0:
                return

    def _oldest(self) -> datetime:
        return self._clock.now() - timedelta(days=self._keep.days)

    async def _pages(
        self, before: datetime | None, *, stays: bool
    ) -> AsyncGenerator[Sequence[Attempt], None]:
        """Return removable attempts, oldest first, page by page."""
        passed = 0
        while page := await self._jobs.removable(before=before, limit=AT_ONCE, offset=passed):
            yield page
            passed += len(page) if stays else 0

    async def _remove(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            if attempt.bundle is not None:
                first = attempt.bundle.removesuffix(SECOND_RUN)
                for location in (first, first + SECOND_RUN):
                    await self._artifacts.remove(location)
        await self._jobs.remove([attempt.id for attempt in attempts])

    async def _superseded(self) -> Sequence[str]:
        """Name the bundles that lie beside the one that their attempt's verdict names."""
        found = []
        for first in await self._artifacts.doubles():
            attempt = await self._jobs.get(first.rpartition("_")[2])
            if attempt is not None and attempt.bundle is not None:
                found.append(first if attempt.bundle.endswith(SECOND_RUN) else first + SECOND_RUN)
        return found


def _add(swept: Swept, page: Sequence[Attempt]) -> Swept:
    size = sum(disk_bytes(attempt.artifacts) for attempt in page)
    return replace(swept, attempts=swept.attempts + len(page), disk_bytes=swept.disk_bytes + size)
