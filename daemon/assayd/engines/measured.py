"""Wraps an engine to count and time every call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import cast

from assayd.errors import EngineError
from assayd.metrics import Metrics, labelled
from assayd.ports.clock import Clock
from assayd.ports.engine import Capabilities, Engine


def measured(engine: Engine, metrics: Metrics, clock: Clock) -> Engine:
    """Return the engine, wrapped so that the durations and error codes of its calls are measured."""
    return cast("Engine", _MeasuredEngine(engine, metrics, clock))


class _MeasuredEngine:
    """A proxy of an engine that measures all awaited calls except `close`."""

    def __init__(self, engine: Engine, metrics: Metrics, clock: Clock) -> None:
        self._engine = engine
        self._metrics = metrics
        self._clock = clock

    def capabilities(self) -> Capabilities:
        """Return the engine's capabilities; a separate method, so that frequent calls need no lookup."""
        return self._engine.capabilities()

    def __getattr__(self, name: str) -> object:
        call = getattr(self._engine, name)
        timed = iscoroutinefunction(call) and name != "close"
        if not timed:
            return call
        measured_call = partial(self._measure_call, name, call)
        setattr(self, name, measured_call)  # so that it is looked up only once
        return measured_call

    async def _measure_call(
        self, name: str, call: Callable[..., Awaitable[object]], *arguments: object
    ) -> object:
        began = self._clock.monotonic()
        try:
            return await call(*arguments)
        except EngineError as problem:
            self._metrics.engine_errors.labels(name, problem.code).inc()
            raise
        finally:
            labelled(self._metrics.engine_call, name).observe(self._clock.monotonic() - began)
