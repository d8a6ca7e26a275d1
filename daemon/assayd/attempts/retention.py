"""Removes finished attempts by age, number and size, and tracks batches that are being uploaded.

If disk space is short, bundles are removed first; those of approved attempts are removed last. A user's
rows are removed only after all of the user's bundles, since a verdict takes little space, and an attempt
without a bundle can still be looked up. When an attempt is removed, its bundle is removed before its row;
if the removal is interrupted, a later sweep finds the row.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NoReturn

import structlog

from assayd.attempts.acceptance import compute_excess, compute_excess_for_space
from assayd.clock import Clock
from assayd.errors import StoreError
from assayd.model.attempt import SECOND_RUN, Attempt, compute_disk_bytes
from assayd.model.records import SweepResult
from assayd.ports.artifacts import ArtifactStore
from assayd.ports.driving import IsLeader, is_always_leader
from assayd.store.attempt_queries import RemovalQuery, StoredUsage
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

SWEEP_INTERVAL_S = 300.0
FREE_SPACE_CHECK_INTERVAL_S = 2.0
AT_ONCE = 100
"""The maximum number of attempts that are removed in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """The limits of retention. `min_free_bytes` is the disk space that must stay free."""

    days: int
    attempts: int
    disk_bytes: int
    min_free_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removal:
    """A set of attempts to remove entirely, or of attempts whose bundles alone are removed."""

    attempts: Sequence[Attempt]
    bundles_only: bool = False


@dataclass(slots=True, kw_only=True)
class _Excess:
    """The number of attempts or bytes that a user must still release."""

    attempts: int
    bytes: int

    def select_attempts(
        self, page: Sequence[Attempt], sizes: Mapping[str, int], *, by_number: bool = False
    ) -> Sequence[Attempt]:
        """Return the first attempts of a page, as many as must be removed.

        Args:
            page: attempts that may be removed.
            sizes: the bytes that the removal of each attempt releases, by id.
            by_number: whether the number of attempts exceeds its limit; if False, their size does.
        """
        chosen = []
        for attempt in page:
            if self.is_released(by_number=by_number):
                break
            chosen.append(attempt)
            self.attempts -= by_number
            self.bytes -= sizes[attempt.id]
        return chosen

    def is_released(self, *, by_number: bool) -> bool:
        """Return whether no attempts or bytes remain to be released."""
        return (self.attempts if by_number else self.bytes) <= 0


class Retention:
    """The removal of finished attempts and their bundles by age and size.

    Excess bundles are removed from the users with the most data, beginning with the oldest, so that no user
    loses bundles because of another user's data. Bundles are removed even if an unfinished batch needs
    their verdicts. Bundles of approved attempts are removed after all others.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        jobs: DatabaseJobStore,
        batches: DatabaseBatchStore,
        artifacts: ArtifactStore,
        clock: Clock,
        keep: RetentionLimits,
        uploads: UploadTracker,
        *,
        leads: IsLeader = is_always_leader,
        removed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._removed = removed
        self._jobs = jobs
        self._batches = batches
        self._artifacts = artifacts
        self._clock = clock
        self._keep = keep
        self._uploads = uploads
        self._sweeping = asyncio.Lock()
        self.leads = leads
        """Returns whether this process sweeps periodically. Of several processes with one database, only one
        does.
        """

    async def sweep_periodically(self) -> NoReturn:
        """Sweep periodically, and when disk space is short, until cancelled. Retry after store errors."""
        due = 0.0
        while True:
            try:
                if self.leads() and (
                    self._clock.monotonic() >= due or await self._compute_missing_space() > 0
                ):
                    due = self._clock.monotonic() + SWEEP_INTERVAL_S
                    _log_removed(await self.sweep())
            except StoreError as trouble:
                log.error("attempts.removal_failed", code=trouble.code)
            await asyncio.sleep(FREE_SPACE_CHECK_INTERVAL_S)

    async def sweep(self, *, dry_run: bool = False) -> SweepResult:
        """Remove old or excess attempts, and superseded bundles. In a dry run, only count them.

        Return the counts.
        """
        async with self._sweeping:
            swept = SweepResult()
            async with aclosing(self._select_removals(stays=dry_run)) as pages:
                async for page in pages:
                    if not dry_run:
                        await self._remove(page)
                    swept = _add_removal(swept, page)
            if not dry_run:
                await self._batches.delete_expired(
                    self._compute_retention_cutoff(), unless=self._uploads.active
                )
            doubles = await self._list_superseded_bundles()
            if not dry_run:
                for location in doubles:
                    await self._artifacts.remove(location)
            return replace(swept, bundles=swept.bundles + len(doubles))

    async def _select_removals(self, *, stays: bool) -> AsyncGenerator[_Removal, None]:
        """Yield the attempts to remove. `stays` is True if they will still exist at the next query."""
        going: dict[str, Attempt] = {}
        async for page in self._iter_pages(
            RemovalQuery(before=self._compute_retention_cutoff()), stays=stays
        ):
            going |= {attempt.id: attempt for attempt in page}
            yield _Removal(attempts=page)
        held = _subtract_usage(await self._jobs.usage(), going.values() if stays else ())
        too_many = compute_excess({uid: usage.attempts for uid, usage in held.items()}, self._keep.attempts)
        too_much = await self._compute_bytes_to_release(held)
        rows_gone = set(going)
        for uid in sorted(too_many.keys() | too_much.keys()):
            over = _Excess(attempts=too_many.get(uid, 0), bytes=too_much.get(uid, 0))
            async for page in self._select_excess(
                RemovalQuery(uid=uid), over, stays=stays, unless=rows_gone, by_number=True
            ):
                yield _Removal(attempts=page)
            bundles_gone = set(rows_gone)
            for approved in (False, True):
                wanted = RemovalQuery(uid=uid, bundled=True, approved=approved)
                async for page in self._select_excess(wanted, over, stays=stays, unless=bundles_gone):
                    yield _Removal(attempts=page, bundles_only=True)
            async for page in self._select_excess(
                RemovalQuery(uid=uid), over, stays=stays, unless=rows_gone, stripped=bundles_gone
            ):
                yield _Removal(attempts=page)

    async def _select_excess(
        self,
        wanted: RemovalQuery,
        over: _Excess,
        *,
        stays: bool,
        unless: set[str],
        stripped: Container[str] = (),
        by_number: bool = False,
    ) -> AsyncGenerator[Sequence[Attempt], None]:
        """Yield the attempts to remove, page by page, and add them to `unless`.

        `stripped` contains the attempts whose bundles have already been removed.
        """
        if over.is_released(by_number=by_number):
            return
        async for found in self._iter_pages(wanted, stays=stays, unless=unless):
            page = [_copy_without_bundle(attempt) if attempt.id in stripped else attempt for attempt in found]
            sizes = await self._compute_release_sizes(page, bundles_only=wanted.bundled)
            if chosen := over.select_attempts(page, sizes, by_number=by_number):
                unless.update(attempt.id for attempt in chosen)
                yield chosen
            if over.is_released(by_number=by_number):
                return

    async def _compute_release_sizes(
        self, page: Sequence[Attempt], *, bundles_only: bool
    ) -> Mapping[str, int]:
        """Return the bytes that removing each attempt releases, with its row or only its bundle."""
        bundles = {attempt.id: compute_disk_bytes(attempt.artifacts) for attempt in page}
        rows = {} if bundles_only else await self._jobs.estimate_row_bytes(list(bundles))
        return {attempt_id: size + rows.get(attempt_id, 0) for attempt_id, size in bundles.items()}

    async def _compute_bytes_to_release(self, held: Mapping[int, StoredUsage]) -> Mapping[int, int]:
        """Return the number of bytes that each user must release.

        It is the excess over the quota for bundles or, if disk space is short, the user's share of the
        missing space (bundles and rows), whichever is larger.
        """
        bundles = {uid: usage.disk_bytes for uid, usage in held.items()}
        over = compute_excess(bundles, self._keep.disk_bytes)
        freed = sum(over.values())
        for_room = compute_excess_for_space(
            {uid: usage.held_bytes for uid, usage in held.items()},
            await self._compute_missing_space() - freed,
            untouched=self._keep.min_free_bytes,
        )
        return {uid: max(over.get(uid, 0), for_room.get(uid, 0)) for uid in over.keys() | for_room.keys()}

    async def _compute_missing_space(self) -> int:
        """Return the bytes that are missing to twice the reserve; negative if there is more free space."""
        return 2 * self._keep.min_free_bytes - await self._artifacts.free_bytes()

    def _compute_retention_cutoff(self) -> datetime:
        return self._clock.now() - timedelta(days=self._keep.days)

    async def _iter_pages(
        self, wanted: RemovalQuery, *, stays: bool, unless: Container[str] = ()
    ) -> AsyncGenerator[Sequence[Attempt], None]:
        """Yield removable attempts in pages, beginning with the oldest."""
        passed = 0
        while page := await self._jobs.list_removable(
            replace(wanted, uploads=self._uploads.active, limit=AT_ONCE, offset=passed)
        ):
            yield [attempt for attempt in page if not stays or attempt.id not in unless]
            passed += len(page) if stays else 0

    async def _remove(self, going: _Removal) -> None:
        for attempt in going.attempts:
            if attempt.bundle is not None:
                first = attempt.bundle.removesuffix(SECOND_RUN)
                for location in (first, first + SECOND_RUN):
                    await self._artifacts.remove(location)
        ids = [attempt.id for attempt in going.attempts]
        self._removed(sum(attempt.bundle is not None for attempt in going.attempts))
        await self._jobs.strip(ids)
        if not going.bundles_only:
            # Checked again: a client may have started sending to one of the batches meanwhile.
            await self._jobs.remove(ids, unless=self._uploads.active)

    async def _list_superseded_bundles(self) -> Sequence[str]:
        """Return the superseded bundles of attempts, i.e. those to which their verdict doesn't refer."""
        found = []
        for first in await self._artifacts.list_superseded():
            attempt = await self._jobs.get(first.rpartition("_")[2])
            if attempt is not None and attempt.bundle is not None:
                found.append(first if attempt.bundle.endswith(SECOND_RUN) else first + SECOND_RUN)
        return found


def _copy_without_bundle(attempt: Attempt) -> Attempt:
    """Return an attempt without the reference to its bundle."""
    return replace(attempt, bundle=None, artifacts=())


def _subtract_usage(held: Mapping[int, StoredUsage], gone: Iterable[Attempt]) -> dict[int, StoredUsage]:
    """Return each user's usage minus the usage of the given attempts."""
    left = dict(held)
    for attempt in gone:
        usage = left[attempt.peer.uid]
        size = usage.disk_bytes - compute_disk_bytes(attempt.artifacts)
        left[attempt.peer.uid] = replace(usage, attempts=usage.attempts - 1, disk_bytes=size)
    return left


def _add_removal(swept: SweepResult, going: _Removal) -> SweepResult:
    size = swept.disk_bytes + sum(compute_disk_bytes(attempt.artifacts) for attempt in going.attempts)
    count = len(going.attempts)
    if going.bundles_only:
        return replace(swept, bundles=swept.bundles + count, disk_bytes=size)
    return replace(swept, attempts=swept.attempts + count, disk_bytes=size)


def _log_removed(swept: SweepResult) -> None:
    if swept != SweepResult():
        log.info("attempts.removed", count=swept.attempts, bundles=swept.bundles, disk_bytes=swept.disk_bytes)


class UploadTracker:
    """The batches that have been uploaded to this daemon since it started."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: Counter[str] = Counter()
        self._ended: dict[str, datetime] = {}

    @property
    def active(self) -> frozenset[str]:
        """Return the ids of the batches that are being uploaded."""
        return frozenset(self._active)

    @contextmanager
    def mark_active(self, batch_id: str) -> Iterator[None]:
        """Mark a batch as being uploaded while the body runs."""
        self._active[batch_id] += 1
        try:
            yield
        finally:
            self._active[batch_id] -= 1
            if not self._active[batch_id]:
                del self._active[batch_id]
                self._ended[batch_id] = self._clock.now()

    def get_received_since(self, moment: datetime) -> frozenset[str]:
        """Return the batches that are being uploaded or received lines since `moment`.

        Forget all other batches.
        """
        self._ended = {batch: ended for batch, ended in self._ended.items() if ended >= moment}
        return self.active | self._ended.keys()
