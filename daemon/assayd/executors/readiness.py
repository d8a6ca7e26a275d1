"""The readiness of a daemon with executors, and its health rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from assayd.executors.front import ExecutorSet
from assayd.metrics import Metrics
from assayd.model.health import HealthRow, HealthStatus
from assayd.sandbox.readiness import ReadinessSupervisor


class ExecutorReadiness:
    """The readiness of the daemon and all of its executors. It implements `execution.Readiness`.

    The daemon's own sandbox runs samples and tests images; it keeps no idle containers.
    """

    def __init__(self, local: ReadinessSupervisor, executors: ExecutorSet) -> None:
        self._local = local
        self._executors = executors
        self.tried = executors.tried

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can run and, if not, the reason."""
        problem = self._local.ready()[1] or self._executors.problem()
        return not problem, problem

    async def prepare(self) -> None:
        """Prepare the daemon's sandbox, and wait until each executor has tried to become ready."""
        await self._local.prepare()
        await self.tried.wait()

    async def keep_ready(self) -> NoReturn:
        """Keep the daemon's sandbox ready; executors do the same with theirs."""
        await self._local.keep_ready()

    async def keep_sweeping(self) -> None:
        """Remove leftover containers of the daemon, and of executors that a former setting started."""
        await self._local.keep_sweeping()

    def image_problem(self, name: str) -> str:
        """Return the reason why an image can't be used, or "" if no reason is known."""
        return self._local.image_problem(name)

    async def image_digest(self, name: str) -> str:
        """Return the digest of the image with this name. Raises: EngineError."""
        return await self._local.image_digest(name)

    def update_gauges(self, metrics: Metrics) -> None:
        """Update the gauges of the daemon's pool; executors send their values."""
        self._local.update_gauges(metrics)

    async def run_health_checks(self) -> Sequence[HealthRow]:
        """Check the engine, the images, leftover containers and all executors."""
        return [*await self._local.run_health_checks(), *self._executors.health_rows()]

    async def check_isolation(self) -> HealthRow:
        """Test the isolation of the daemon's and all executors' containers; return the first failed row."""
        rows = [await self._local.check_isolation(), *await self._executors.check_isolation()]
        return next((row for row in rows if row.status is not HealthStatus.OK), rows[0])
