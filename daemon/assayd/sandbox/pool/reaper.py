"""Removes unleased containers with this daemon's label: at startup, periodically, and at shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from assayd.errors import EngineError
from assayd.ports.engine import LABEL_CONTAINER, ContainerRef, Engine, OwnedContainer

log = structlog.get_logger()

SWEEP_INTERVAL_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """The result of a sweep: the names of removed containers, and of those that couldn't be removed."""

    removed: tuple[str, ...]
    left: tuple[str, ...]


class Reaper:
    """A remover of this daemon's containers that aren't live.

    `live` returns the containers that the pool knows; `on_gone` is called with the name of each removed
    container.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        daemon_id: str,
        live: Callable[[], frozenset[str]],
        on_gone: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._daemon_id = daemon_id
        self._live = live
        self._on_gone = on_gone
        self._suspects: frozenset[str] = frozenset()

    async def sweep(self, *, patient: bool = True) -> SweepReport:
        """Remove unknown containers.

        The engine lists a new container shortly before the pool does. Therefore, if `patient` is true, only
        containers that were also unknown at the previous sweep are removed.

        Raises: EngineError, if the engine can't be reached.
        """
        owned = await self._engine.list_owned(self._daemon_id)
        live = self._live()
        unknown = [c for c in owned if _container_name(c) not in live]
        due = [c for c in unknown if not patient or c.engine_id in self._suspects]
        self._suspects = frozenset(c.engine_id for c in unknown)
        results = [(_container_name(c), await self._remove_container(c)) for c in due]
        reaped = SweepReport(
            removed=tuple(n for n, gone in results if gone),
            left=tuple(n for n, gone in results if not gone),
        )
        if results:
            log.warning("containers.reaped", removed=len(reaped.removed), left=list(reaped.left))
        return reaped

    async def _remove_container(self, container: OwnedContainer) -> bool:
        try:
            await self._engine.remove(
                ContainerRef(engine_id=container.engine_id, ulid=_container_name(container))
            )
        except EngineError as problem:
            log.critical("container.left_behind", container=_container_name(container), code=problem.code)
            return False
        self._on_gone(_container_name(container))
        return True

    async def keep_sweeping(self) -> None:
        """Sweep periodically until cancellation; if the engine is down, retry after the next interval."""
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            try:
                await self.sweep()
            except EngineError as problem:
                log.error("containers.sweep_failed", code=problem.code)


def _container_name(container: OwnedContainer) -> str:
    return container.labels.get(LABEL_CONTAINER, container.engine_id)
