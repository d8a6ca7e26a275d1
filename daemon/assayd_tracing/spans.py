"""Creates spans with the OpenTelemetry SDK, and determines the attribute names and span kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import random
from time import time_ns

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace import Span as SdkSpan

from assayd.model.trace_context import TraceContext
from assayd.ports.tracing import Attribute, Span

PREFIX = "assayd."
"""The prefix of attribute names."""

_KINDS = {"attempt": SpanKind.SERVER, "dispatch": SpanKind.PRODUCER, "answer": SpanKind.CLIENT}
"""The kinds of spans by name; all other spans are internal."""

_SECOND_NS = 10**9


class OtelTracing:
    """An implementation of `ports.tracing.Tracing` with OpenTelemetry."""

    is_on = True

    def __init__(self, tracer: Tracer, *, continues_callers: bool, sample_ratio: float) -> None:
        self._tracer = tracer
        self._continues_callers = continues_callers
        self._sample_ratio = sample_ratio

    def read_context(self, context: TraceContext | None) -> TraceContext | None:
        """Return the trace that a request continues, or None if callers' traces aren't continued.

        Of the traces that callers sample, a share stays sampled. The share is chosen at random, because
        callers choose the trace ids and could otherwise influence the choice.
        """
        if context is None or not self._continues_callers:
            return None
        sampled = context.sampled and random() < self._sample_ratio  # noqa: S311 - a sample, no secret
        return replace(context, sampled=sampled)

    def begin(
        self,
        name: str,
        attributes: Mapping[str, Attribute],
        *,
        parent: TraceContext | None = None,
        linked: TraceContext | None = None,
        ago_s: float = 0.0,
    ) -> Span:
        """Begin a span that continues `parent` or a new trace, and that started `ago_s` seconds ago."""
        context = Context()  # the current span of another task isn't its parent
        if parent is not None:
            context = set_span_in_context(NonRecordingSpan(_to_sdk_context(parent)), context)
        began_ns = time_ns() - int(ago_s * _SECOND_NS)
        span = self._tracer.start_span(
            name,
            context=context,
            kind=_KINDS.get(name, SpanKind.INTERNAL),
            attributes=_prefix_attributes(attributes),
            links=[Link(_to_sdk_context(linked))] if linked is not None else [],
            start_time=began_ns,
        )
        return OtelSpan(self._tracer, span, began_ns)


class OtelSpan:
    """An implementation of `ports.tracing.Span`. A span that isn't sampled returns itself as a child."""

    __slots__ = ("_began_ns", "_span", "_tracer", "context")

    def __init__(self, tracer: Tracer, span: SdkSpan, began_ns: int) -> None:
        self._tracer = tracer
        self._span = span
        self._began_ns = began_ns
        self.context = _to_trace_context(span.get_span_context())

    def begin_child(self, name: str, ago_s: float = 0.0, /, **attributes: Attribute) -> Span:
        """Begin a child span, or return this span if it isn't recorded."""
        if not self._span.is_recording():
            return self
        return self._start_child(name, time_ns() - int(ago_s * _SECOND_NS), attributes)

    def add_finished_child(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        """Add a child span that has already ended. Its start isn't before the start of this span."""
        if not self._span.is_recording():
            return
        ended_ns = time_ns() - int(ended_ago_s * _SECOND_NS)
        began_ns = self._began_ns if took_s is None else ended_ns - int(took_s * _SECOND_NS)
        began_ns = max(began_ns, self._began_ns)
        self._start_child(name, began_ns, attributes)._end_at(max(began_ns, ended_ns))

    def end(self, error: str | None = None, ago_s: float = 0.0, /, **attributes: Attribute) -> None:
        """End the span. If a code is passed, record an internal error with this code."""
        if not self._span.is_recording():
            return
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attributes(_prefix_attributes(attributes))
        self._end_at(time_ns() - int(ago_s * _SECOND_NS))

    def _start_child(self, name: str, began_ns: int, attributes: Mapping[str, Attribute]) -> OtelSpan:
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(self._span, Context()),
            kind=_KINDS.get(name, SpanKind.INTERNAL),
            attributes=_prefix_attributes(attributes),
            start_time=began_ns,
        )
        return OtelSpan(self._tracer, span, began_ns)

    def _end_at(self, at_ns: int | None) -> None:
        self._span.end(at_ns)


def _prefix_attributes(attributes: Mapping[str, Attribute]) -> dict[str, str | int | float | bool]:
    return {PREFIX + name: value for name, value in attributes.items() if value is not None}


def _to_sdk_context(context: TraceContext) -> SpanContext:
    return SpanContext(
        trace_id=int(context.trace_id, 16),
        span_id=int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT),
        trace_state=TraceState.from_header([context.state]) if context.state else None,
    )


def _to_trace_context(context: SpanContext) -> TraceContext:
    return TraceContext(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        sampled=context.trace_flags.sampled,
        state=context.trace_state.to_header(),
    )
