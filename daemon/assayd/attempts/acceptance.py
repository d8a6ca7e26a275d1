"""Decides whether the daemon accepts attempts, and why not. Every interface reports this decision.

The decision depends on three conditions: the daemon isn't stopping, attempts can be run (`Readiness`), and
there is disk space for their bundles (`DiskQuota`). `/readyz`, the gauge, `doctor`, the service manager, the
log and admission all use this decision.

Two kinds of data fill the disk. Waiting documents in the database can't be removed; therefore, a user's
documents can occupy at most as many bytes as are still free on the disk, or in the limit of a cluster's
database. Bundles can be removed: if space is short, the users with the most data are refused until
`retention` has removed their oldest bundles.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

import structlog

from assayd.clock import Clock
from assayd.errors import RequestError, StoreError
from assayd.model.health import HealthRow, HealthStatus
from assayd.ports.artifacts import ArtifactStore
from assayd.store.attempt_queries import StoredUsage
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

FREE_SPACE_CACHE_S = 1.0
"""The seconds for which a measurement of the free disk space is used, unless space is short."""
USAGE_CACHE_S = 5.0
"""The seconds for which the stored usage of each user is used before it is queried again."""
USAGE_REFRESH_DIVISOR = 16
"""The divisor for the space that can be filled before each user's usage is queried again."""
MIB = 2**20


class DiskQuota:
    """The disk quota of each user, and its enforcement.

    Args:
        jobs: the store that returns the size of each user's data.
        artifacts: measures the free space.
        clock: returns the time of the measurements.
        min_free_bytes: the space to keep free.
        operators: users to whom only `min_free_bytes` applies.
        database_bytes: the maximum size of the waiting documents in a remote database.
    """

    def __init__(
        self,
        jobs: DatabaseJobStore,
        artifacts: ArtifactStore,
        clock: Clock,
        *,
        min_free_bytes: int,
        operators: frozenset[int] | None = None,
        database_bytes: int | None = None,
    ) -> None:
        self._jobs = jobs
        self._artifacts = artifacts
        self._clock = clock
        self.min_free_bytes = min_free_bytes
        self._operators = frozenset({0, os.geteuid()}) if operators is None else operators
        self._database = database_bytes
        self.free_bytes = 0
        """The free bytes of the bundles' file system when it was last measured."""
        self.trouble = ""
        """The reason why the bundle directory can't be used, or an empty string. Only operators see it,
        because it may contain paths.
        """
        self._reserved_bytes = 0
        self._free_until = 0.0
        self._held: Mapping[int, StoredUsage] = {}
        self._waiting = 0
        self._held_at: float | None = None
        self._refresh_lock = asyncio.Lock()
        self._added: Counter[int] = Counter()

    async def require_disk_space(self) -> None:
        """Check that the disk has space for a bundle.

        Raises: RequestError ``not_ready``, if space is short or the bundle directory can't be used.
        """
        if await self._measure_free_space() < 0:
            message = (
                "the artifacts' disk has less free space than limits.min_free_mb "
                f"({self.min_free_bytes // MIB}); remove bundles (`assay gc`) or lower the limit"
            )
            raise RequestError("not_ready", message, retryable=True)

    async def require(self, uid: int, *, document_bytes: int = 0) -> None:
        """Check that a user may add a bundle and a document of the given size, and count the document.

        For operators, check only the disk space.

        Raises: RequestError ``not_ready``; ``quota.disk``, if the user holds too much data.
        """
        await self.require_disk_space()
        if uid in self._operators:
            return
        if refusal := await self._find_refusal_reason(uid, document_bytes):
            raise RequestError("quota.disk", refusal, retryable=True)
        self._added[uid] += document_bytes
        self._reserved_bytes += 2 * document_bytes  # in the database, and in the bundle

    async def free_document_bytes(self) -> int:
        """Return the free bytes for documents beyond the reserve: on the disk, or in the database.

        They are negative if the reserve is in use.
        """
        room = await self._measure_free_space()
        return min(room, self._measure_document_space(room)[0])

    async def _measure_free_space(self) -> int:
        """Return the free bytes beyond the reserve. Measure them every second, more often if few are left.

        Raises: RequestError ``not_ready``, if the bundle directory can't be used.
        """
        now = self._clock.monotonic()
        if now >= self._free_until or self.free_bytes - self._reserved_bytes < 2 * self.min_free_bytes:
            try:
                self.free_bytes, self._reserved_bytes = await self._artifacts.free_bytes(), 0
            except StoreError as trouble:
                self._free_until, self.trouble = 0.0, trouble.message
                message = f"bundles can't be written ({trouble.code}); operators: run `assay doctor`"
                raise RequestError("not_ready", message, retryable=True) from trouble
            self.trouble = ""
            self._free_until = now + FREE_SPACE_CACHE_S
        return self.free_bytes - self.min_free_bytes

    async def _find_refusal_reason(self, uid: int, document_bytes: int) -> str | None:
        room = self.free_bytes - self.min_free_bytes
        added = self._added.total() + document_bytes
        if (
            room < self.min_free_bytes
            or added > self._measure_document_space(room)[0] // USAGE_REFRESH_DIVISOR
            or not self._is_usage_known()
        ):
            await self._refresh_usage()
        if (
            document_bytes
            and self._get_document_bytes(uid) + document_bytes > self._measure_document_space(room)[0]
        ):
            await self._refresh_usage()
            left, place = self._measure_document_space(room)
            if self._get_document_bytes(uid) + document_bytes > left:
                return (
                    f"submissions of this user take {self._get_document_bytes(uid) / MIB:.0f} MB, and "
                    f"{left / MIB:.0f} MB are left {place}; no user may hold more than "
                    "that: wait until some have run and were removed"
                )
        held = {holder: usage.held_bytes for holder, usage in self._held.items()}
        if uid in compute_excess_for_space(held, self.min_free_bytes - room, untouched=self.min_free_bytes):
            return (
                f"{room / MIB:.0f} MB of the disk are left above limits.min_free_mb, and this user's bundles "
                f"and submissions take {held[uid] / MIB:.0f} MB, more than those of others; the oldest are "
                "being removed, try again then"
            )
        return None

    def _measure_document_space(self, room: int) -> tuple[int, str]:
        """Return the free bytes for documents, and the name of the limit that determines them."""
        if self._database is not None:
            if (left := self._database - self._waiting - self._added.total()) < room:
                return left, f"of cluster.database_mb ({self._database // MIB})"
        return room, "on the disk above limits.min_free_mb"

    def _is_usage_known(self) -> bool:
        """Return whether the usage of a shared database is known (True if no database is shared)."""
        return self._database is None or self._held_at is not None

    def _get_document_bytes(self, uid: int) -> int:
        usage = self._held.get(uid)
        return self._added[uid] + (usage.document_bytes if usage is not None else 0)

    async def _refresh_usage(self) -> None:
        """Update the usage of each user, unless it is recent. Concurrent callers await the same update.

        Raises: StoreError, if the store fails; the next call tries again.
        """
        async with self._refresh_lock:
            now = self._clock.monotonic()
            if self._held_at is None or now >= self._held_at + USAGE_CACHE_S:
                before = self._added.copy()
                self._held = await self._jobs.usage()
                self._waiting = sum(usage.document_bytes for usage in self._held.values())
                self._added -= before
                self._held_at = now


def share(held: Iterable[int], limit: int) -> int:
    """Return the highest per-user cap for which the capped sizes in `held` fit into `limit` bytes.

    The cap affects only users who hold more.
    """
    left, level = max(limit, 0), 0
    sizes = sorted(held)
    for index, size in enumerate(sizes):
        level = left // (len(sizes) - index)
        if size > level:
            return level
        left -= size
    return max(sizes, default=level)


def compute_excess(held: Mapping[int, int], limit: int) -> dict[int, int]:
    """Return the bytes by which each user exceeds the fair share of `limit`. Omit all other users."""
    level = share(held.values(), limit)
    return {uid: size - level for uid, size in held.items() if size > level}


def compute_excess_for_space(held: Mapping[int, int], needed: int, *, untouched: int) -> dict[int, int]:
    """Return the bytes that each user must release so that `needed` bytes become free.

    Args:
        held: the bytes that each user holds.
        needed: the additional bytes that must become free; if not positive, nothing has to be released.
        untouched: the bytes that each user can always keep, whatever `needed` is.
    """
    if needed <= 0:
        return {}
    beyond = {uid: size - untouched for uid, size in held.items() if size > untouched}
    return compute_excess(beyond, sum(beyond.values()) - needed)


DISK_CHECK_INTERVAL_S = 1.0
STOPPING = "the daemon is stopping"


class AcceptanceGate:
    """The check that decides whether the daemon accepts new attempts.

    Args:
        runs: a function that returns whether attempts can be run, and why not.
        quota: measures the space for bundles.
        image_problem: a function that returns why nothing can be run in the image with a given name.
    """

    def __init__(
        self,
        runs: Callable[[], tuple[bool, str]],
        quota: DiskQuota,
        image_problem: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._runs = runs
        self._image_problem = image_problem
        self._quota = quota
        self._disk_problem = ""
        self._told = ""
        self._stopping = False

    def stop(self) -> None:
        """Stop accepting attempts."""
        self._stopping = True
        self._log_change()

    def now(self) -> tuple[bool, str]:
        """Return whether attempts are accepted, and the reason if not, based on the last disk check."""
        if self._stopping:
            return False, STOPPING
        runs, reason = self._runs()
        return (False, reason) if not runs else (not self._disk_problem, self._disk_problem)

    async def check(self) -> tuple[bool, str]:
        """Check the disk. Return whether attempts are accepted, and the reason if they aren't."""
        try:
            await self._quota.require_disk_space()
        except RequestError as refusal:
            self._disk_problem = refusal.message
        else:
            self._disk_problem = ""
        self._log_change()
        return self.now()

    async def require_accepting(self) -> None:
        """Check the disk, and check that attempts are accepted.

        Raises: RequestError ``not_ready``, if they aren't.
        """
        accepts, reason = await self.check()
        if not accepts:
            raise RequestError("not_ready", reason, retryable=True)

    def require_image(self, name: str) -> None:
        """Check that attempts can be run in an image. Raises: RequestError ``not_ready``, if they can't."""
        if problem := self._image_problem(name):
            raise RequestError("not_ready", problem, retryable=True)

    async def check_periodically(self) -> NoReturn:
        """Check the disk periodically, so that `now` returns a recent result."""
        while True:
            await self.check()
            await asyncio.sleep(DISK_CHECK_INTERVAL_S)

    async def rows(self) -> list[HealthRow]:
        """Return the rows for `doctor`: one about the disk, and another while the daemon is stopping."""
        await self.check()
        free_mb, min_free_mb = self._quota.free_bytes // MIB, self._quota.min_free_bytes // MIB
        remedy = (
            "free space on the artifacts' disk, remove bundles (`assay gc`), or check that the "
            "folder is writable"
        )
        if self._disk_problem:
            detail = self._quota.trouble or self._disk_problem
            disk = HealthRow(check="disk", status=HealthStatus.FAIL, detail=detail, remedy=remedy)
        elif free_mb < 2 * min_free_mb:
            detail = (
                f"{free_mb} MB free; below {min_free_mb} MB (limits.min_free_mb) all submissions are refused"
            )
            disk = HealthRow(check="disk", status=HealthStatus.WARN, detail=detail, remedy=remedy)
        else:
            disk = HealthRow(check="disk", status=HealthStatus.OK, detail=f"{free_mb} MB free for bundles")
        stopping = HealthRow(check="stopping", status=HealthStatus.FAIL, detail=STOPPING)
        return [disk, stopping] if self._stopping else [disk]

    def _log_change(self) -> None:
        """Log when attempts are no longer accepted, with the reason, and when they are accepted again."""
        _, reason = self.now()
        if reason == self._told:
            return
        self._told = reason
        if reason:
            log.warning("daemon.accepts_nothing", reason=reason, trouble=self._quota.trouble or None)
        else:
            log.warning("daemon.accepts_attempts")  # clients that saw the beginning see the end
