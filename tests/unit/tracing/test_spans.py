"""Spans of the SDK: names, times, kinds, and sampling."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from assayd.metrics import Metrics
from assayd.model.trace_context import TraceContext, parse_headers
from assayd.settings.model import TracingSettings
from assayd_tracing.spans import OtelTracing
from assayd_tracing.wiring import build_tracing

CALLER = parse_headers(["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"], ["rojo=1"])
UNSAMPLED = parse_headers(["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"])


class Traced:
    """A tracer and its delivered spans."""

    def __init__(self, **settings: object) -> None:
        self.exporter = InMemorySpanExporter()
        self.stack = AsyncExitStack()
        self.tracing: OtelTracing = build_tracing(
            TracingSettings(endpoint="http://127.0.0.1:1/v1/traces", **settings),  # type: ignore[arg-type]
            self.stack,
            Metrics(),
            daemon_id="01DAEMON",
            exporter=self.exporter,
        )

    async def spans(self) -> dict[str, ReadableSpan]:
        """Close the tracer; return the delivered spans by name."""
        await self.stack.aclose()
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def traced() -> Traced:
    return Traced()


async def test_span_continues_its_caller(traced: Traced) -> None:
    span = traced.tracing.begin("attempt", {"kind": "code", "warm": None}, parent=CALLER, ago_s=1.0)
    span.end(verdict="validated")
    found = (await traced.spans())["attempt"]
    assert found.parent is not None
    assert f"{found.parent.span_id:016x}" == "b7ad6b7169203331"
    assert found.attributes == {"assayd.kind": "code", "assayd.verdict": "validated"}
    assert found.end_time - found.start_time >= 10**9  # type: ignore[operator]
    assert found.resource.attributes["service.instance.id"] == "01DAEMON"
    assert span.context is not None
    assert (span.context.trace_id, span.context.state) == ("0af7651916cd43dd8448eb211c80319c", "rojo=1")


async def test_steps_are_children_and_keep_their_times(traced: Traced) -> None:
    span = traced.tracing.begin("attempt", {}, ago_s=0.5)
    step = span.begin_child("run")
    step.add_finished_child("unit", 0.2, index=0)
    step.end()
    span.add_finished_child("accept", 0.1, ended_ago_s=0.1)
    span.end()
    found = await traced.spans()
    assert found["run"].parent == found["attempt"].context
    assert found["unit"].parent == found["run"].context
    assert found["unit"].start_time == found["run"].start_time  # no earlier than the step that it is in
    took_s = (found["accept"].end_time - found["accept"].start_time) / 1e9  # type: ignore[operator]
    assert took_s == pytest.approx(0.1, abs=0.001)
    assert found["accept"].end_time < found["attempt"].end_time  # type: ignore[operator]


async def test_past_step_without_a_time_takes_all_so_far(traced: Traced) -> None:
    span = traced.tracing.begin("attempt", {}, ago_s=0.5)
    span.add_finished_child("accept")
    span.end()
    found = await traced.spans()
    assert found["accept"].start_time == found["attempt"].start_time


async def test_internal_error_is_a_status(traced: Traced) -> None:
    span = traced.tracing.begin("attempt", {})
    span.end("run.lost")
    found = (await traced.spans())["attempt"]
    assert found.status.status_code.name == "ERROR"
    assert found.status.description is None
    assert found.attributes == {"error.type": "run.lost"}


async def test_span_ends_once(traced: Traced) -> None:
    span = traced.tracing.begin("attempt", {})
    span.end(verdict="failed")
    span.end("late", verdict="validated")
    span.add_finished_child("later", 0.1)
    assert [each.name for each in (await traced.spans()).values()] == ["attempt"]


async def test_caller_decides_that_nothing_is_sampled(traced: Traced) -> None:
    span = traced.tracing.begin("attempt", {}, parent=UNSAMPLED)
    step = span.begin_child("run")
    step.add_finished_child("unit", 0.1)
    step.end()
    span.end()
    assert await traced.spans() == {}
    assert isinstance(span.context, TraceContext)
    assert not span.context.sampled
    assert span.context.trace_id == "0af7651916cd43dd8448eb211c80319c"  # others continue it


async def test_ratio_counts_for_traces_without_a_caller() -> None:
    none = Traced(sample_ratio=0.0)
    none.tracing.begin("attempt", {}).end()
    none.tracing.begin("followed", {}, parent=CALLER).end()
    assert list(await none.spans()) == ["followed"]


async def test_linked_span_has_a_trace_of_its_own(traced: Traced) -> None:
    span = traced.tracing.begin("attempt", {}, linked=CALLER)
    span.end()
    found = (await traced.spans())["attempt"]
    assert found.parent is None
    assert [f"{link.context.trace_id:032x}" for link in found.links] == ["0af7651916cd43dd8448eb211c80319c"]


async def test_long_value_is_cut(traced: Traced) -> None:
    traced.tracing.begin("attempt", {"kind": "k" * 10_000}).end()
    found = (await traced.spans())["attempt"]
    assert found.attributes == {"assayd.kind": "k" * 256}


@pytest.mark.parametrize(("ratio", "sampled"), [(0.0, False), (1.0, True)])
async def test_ratio_bounds_what_callers_sample(ratio: float, sampled: bool) -> None:
    traced = Traced(sample_ratio=ratio)
    context = traced.tracing.read_context(CALLER)
    assert context is not None
    assert (context.trace_id, context.sampled) == ("0af7651916cd43dd8448eb211c80319c", sampled)
    traced.tracing.begin("attempt", {}, parent=context).end()
    assert ("attempt" in await traced.spans()) is sampled


async def test_ratio_is_kept_for_any_trace_id_of_a_caller() -> None:
    """The caller chooses the id: an id of zeros would always be sampled if the id decided."""
    chosen = parse_headers([f"00-{1:032x}-b7ad6b7169203331-01"])
    tracing = Traced(sample_ratio=0.5).tracing
    decisions = [tracing.read_context(chosen) for _ in range(1000)]
    assert 400 < sum(each is not None and each.sampled for each in decisions) < 600


async def test_what_a_caller_does_not_sample_is_not_traced(traced: Traced) -> None:
    assert traced.tracing.read_context(UNSAMPLED) == UNSAMPLED


async def test_callers_are_ignored_if_the_setting_says_so() -> None:
    assert Traced(continue_callers=False).tracing.read_context(CALLER) is None
