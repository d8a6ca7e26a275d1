"""Any engine, with every call of it counted and timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from assayd.errors import EngineError
from assayd.metrics import Metrics
from assayd.ports.clock import Clock
from assayd.ports.engine import (
    Capabilities,
    ContainerRef,
    ContainerSpec,
    Duplex,
    EndFacts,
    Engine,
    EngineInfo,
    ImageFacts,
    OwnedContainer,
)


class MeasuredEngine:
    """Passes every call on to an engine, and tells the metrics how long it took and how it failed."""

    def __init__(self, engine: Engine, metrics: Metrics, clock: Clock) -> None:
        self._engine = engine
        self._metrics = metrics
        self._clock = clock

    @contextmanager
    def _measured(self, call: str) -> Iterator[None]:
        began = self._clock.monotonic()
        try:
            yield
        except EngineError as problem:
            self._metrics.engine_errors.labels(call, problem.code).inc()
            raise
        finally:
            self._metrics.engine_call.labels(call).observe(self._clock.monotonic() - began)

    async def info(self) -> EngineInfo:
        """Ask the engine who it is."""
        with self._measured("info"):
            return await self._engine.info()

    def capabilities(self) -> Capabilities:
        """Tell how this engine behaves where engines differ."""
        return self._engine.capabilities()

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Create a container."""
        with self._measured("create"):
            return await self._engine.create(spec)

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare what was created with what was asked."""
        with self._measured("verify"):
            await self._engine.verify(ref, spec)

    async def start(self, ref: ContainerRef) -> Duplex:
        """Attach, then start."""
        with self._measured("start"):
            return await self._engine.start(ref)

    async def kill(self, ref: ContainerRef) -> None:
        """End the container now."""
        with self._measured("kill"):
            await self._engine.kill(ref)

    async def remove(self, ref: ContainerRef) -> None:
        """Remove the container."""
        with self._measured("remove"):
            await self._engine.remove(ref)

    async def facts(self, ref: ContainerRef) -> EndFacts:
        """Ask how a container ended."""
        with self._measured("facts"):
            return await self._engine.facts(ref)

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """List every container that carries our daemon's label."""
        with self._measured("list_owned"):
            return await self._engine.list_owned(daemon_id)

    async def image(self, name: str) -> ImageFacts:
        """Look an image up."""
        with self._measured("image"):
            return await self._engine.image(name)

    async def load_image(self, archive: Path) -> ImageFacts:
        """Load an image archive."""
        with self._measured("load_image"):
            return await self._engine.load_image(archive)

    async def export_image(self, name: str, target: Path) -> None:
        """Write the image's root filesystem as a tar file."""
        with self._measured("export_image"):
            await self._engine.export_image(name, target)

    async def close(self) -> None:
        """Release connections and threads."""
        await self._engine.close()
