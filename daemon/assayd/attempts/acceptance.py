"""Decides whether the daemon accepts attempts, and why not; every interface reports this decision.

The decision depends on three conditions: the daemon isn't stopping, attempts can be run (`Readiness`), and
there is disk space for their bundles (`DiskQuota`). `/readyz`, the gauge, `doctor`, the service manager,
the log and admission all use this decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import structlog

from assayd.attempts.disk_quota import MIB, DiskQuota
from assayd.errors import RequestError
from assayd.model.health import HealthRow, HealthStatus

log = structlog.get_logger()

LOOKED_EVERY_S = 1.0
STOPPING = "the daemon is stopping"


class Acceptance:
    """The decision whether new attempts are accepted.

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
        """Return whether attempts are accepted, and why not, based on the last check of the disk."""
        if self._stopping:
            return False, STOPPING
        runs, reason = self._runs()
        return (False, reason) if not runs else (not self._disk_problem, self._disk_problem)

    async def look(self) -> tuple[bool, str]:
        """Check the disk, and return whether attempts are accepted, and why not."""
        try:
            await self._quota.require_room()
        except RequestError as refusal:
            self._disk_problem = refusal.message
        else:
            self._disk_problem = ""
        self._log_change()
        return self.now()

    async def require(self) -> None:
        """Check that attempts are accepted. Raises: RequestError ``not_ready``."""
        accepts, reason = await self.look()
        if not accepts:
            raise RequestError("not_ready", reason, retryable=True)

    def require_image(self, name: str) -> None:
        """Check that attempts can be run in an image. Raises: RequestError ``not_ready``."""
        if problem := self._image_problem(name):
            raise RequestError("not_ready", problem, retryable=True)

    async def check_periodically(self) -> NoReturn:
        """Check the disk periodically, so that the other methods can use the last result."""
        while True:
            await self.look()
            await asyncio.sleep(LOOKED_EVERY_S)

    async def rows(self) -> list[HealthRow]:
        """Return the rows for `doctor`: one about the disk, and another while the daemon is stopping."""
        await self.look()
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
        """Log the reason why attempts aren't accepted whenever it changes."""
        _, reason = self.now()
        if reason == self._told:
            return
        self._told = reason
        if reason:
            log.warning("daemon.accepts_nothing", reason=reason, trouble=self._quota.trouble or None)
        else:
            log.warning("daemon.accepts_attempts")  # who saw the beginning sees the end
