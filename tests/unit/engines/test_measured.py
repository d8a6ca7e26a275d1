from __future__ import annotations

import inspect

import pytest

from assayd.engines.fake import FakeEngine
from assayd.engines.measured import MeasuredEngine
from assayd.errors import EngineError
from assayd.ids import SystemClock
from assayd.metrics import Metrics
from assayd.ports.engine import ContainerRef, Engine


async def nobody(_: object) -> None:
    """A guest that is never started."""


async def test_call_is_counted_and_its_failure_by_code() -> None:
    metrics = Metrics()
    engine = MeasuredEngine(FakeEngine(nobody, images=[]), metrics, SystemClock())

    await engine.info()
    with pytest.raises(EngineError):
        await engine.image("absent")

    text = metrics.render().decode()
    assert 'assayd_engine_call_duration_seconds_count{call="info"} 1.0' in text
    assert 'assayd_engine_call_duration_seconds_count{call="image"} 1.0' in text
    assert 'assayd_engine_errors_total{call="image",code="image.missing"} 1.0' in text


async def test_call_reaches_the_engine_and_its_answer_comes_back() -> None:
    inner = FakeEngine(nobody, images=[])
    engine = MeasuredEngine(inner, Metrics(), SystemClock())

    await engine.remove(ContainerRef(engine_id="none", ulid=""))

    assert inner.calls == ["remove"]
    assert await engine.list_owned("none") == []


def test_no_call_of_the_port_is_left_out() -> None:
    calls = {name for name, _ in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")}

    assert {name for name in calls if name not in vars(MeasuredEngine)} == set()
