from __future__ import annotations

import inspect

import pytest

from assayd.engines.measured import measured
from assayd.errors import EngineError
from assayd.ids import SystemClock
from assayd.metrics import Metrics
from assayd.ports.engine import ContainerRef, Engine
from support.fakes.engine import FakeEngine


class Answering:
    """An engine that has every call and accepts all arguments."""

    def __getattr__(self, name: str) -> object:
        async def call(*_: object) -> None:
            """Do nothing."""

        return call


async def nobody(_: object) -> None:
    """Do nothing, as a guest that is never started."""


async def test_call_is_counted_and_its_failure_by_code() -> None:
    metrics = Metrics()
    engine = measured(FakeEngine(nobody, images=[]), metrics, SystemClock())

    await engine.info()
    with pytest.raises(EngineError):
        await engine.image("absent")

    text = metrics.render().decode()
    assert 'assayd_engine_call_duration_seconds_count{call="info"} 1.0' in text
    assert 'assayd_engine_call_duration_seconds_count{call="image"} 1.0' in text
    assert 'assayd_engine_errors_total{call="image",code="image.missing"} 1.0' in text


async def test_call_reaches_the_engine_and_its_answer_comes_back() -> None:
    inner = FakeEngine(nobody, images=[])
    engine = measured(inner, Metrics(), SystemClock())

    await engine.remove(ContainerRef(engine_id="none", ulid=""))

    assert inner.calls == ["remove"]
    assert await engine.list_owned("none") == []


async def test_every_awaited_call_of_the_port_is_measured() -> None:
    metrics = Metrics()
    calls = [
        name for name, call in inspect.getmembers(Engine, inspect.iscoroutinefunction) if name != "close"
    ]
    engine = measured(Answering(), metrics, SystemClock())

    for name in calls:
        await getattr(engine, name)(name)

    counted = metrics.render().decode()
    assert all(f'assayd_engine_call_duration_seconds_count{{call="{name}"}} 1.0' in counted for name in calls)
    assert len(calls) > 5
