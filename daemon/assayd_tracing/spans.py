"""Creates spans with the OpenTelemetry SDK, and sends ended spans to the collector.

This module determines the attribute names and span kinds. One thread sends the spans; spans that don't fit in
its queue are dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import random
from time import time_ns

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace import Span as RecordingSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
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

log = structlog.get_logger()


PREFIX = "assayd."
"""The prefix of attribute names."""

_KIND_BY_NAME = {"attempt": SpanKind.SERVER, "dispatch": SpanKind.PRODUCER, "answer": SpanKind.CLIENT}
"""The kinds of spans by name; all other spans are internal."""

_NS_PER_SECOND = 10**9

BATCH = 512
"""Maximum number of spans in one export."""
EVERY_S = 1.0
"""Maximum number of seconds for which an ended span waits for others."""
SHUTDOWN_TIMEOUT_S = 2.0
"""Maximum number of seconds for which the shutdown waits for the collector."""

Count = Callable[[str, int], None]
"""Called with an outcome (`exported`, `failed` or `dropped`) and a number of spans."""


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
        began_ns = time_ns() - int(ago_s * _NS_PER_SECOND)
        span = self._tracer.start_span(
            name,
            context=context,
            kind=_KIND_BY_NAME.get(name, SpanKind.INTERNAL),
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
        return self._start_child(name, time_ns() - int(ago_s * _NS_PER_SECOND), attributes)

    def add_finished_child(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        """Add a child span that has already ended, if this span is recorded.

        Its start isn't before the start of this span.
        """
        if not self._span.is_recording():
            return
        ended_ns = time_ns() - int(ended_ago_s * _NS_PER_SECOND)
        began_ns = self._began_ns if took_s is None else ended_ns - int(took_s * _NS_PER_SECOND)
        began_ns = max(began_ns, self._began_ns)
        self._start_child(name, began_ns, attributes)._end_at(max(began_ns, ended_ns))

    def end(self, error: str | None = None, ago_s: float = 0.0, /, **attributes: Attribute) -> None:
        """End the span, if it is recorded. If a code is passed, record an internal error with this code."""
        if not self._span.is_recording():
            return
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attributes(_prefix_attributes(attributes))
        self._end_at(time_ns() - int(ago_s * _NS_PER_SECOND))

    def _start_child(self, name: str, began_ns: int, attributes: Mapping[str, Attribute]) -> OtelSpan:
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(self._span, Context()),
            kind=_KIND_BY_NAME.get(name, SpanKind.INTERNAL),
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


class BoundedSpanProcessor(SpanProcessor):
    """A span processor with a bounded queue and a thread that exports the spans."""

    def __init__(self, exporter: SpanExporter, *, most: int, count: Count) -> None:
        self._exporter = exporter
        self._most = most
        self._count = count
        self._queue: deque[ReadableSpan] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._flushing = False
        self._failing = False
        self._delivering = 0
        # A daemon thread, which never keeps the program running.
        self._thread = threading.Thread(target=self._deliver_spans, name="traces", daemon=True)
        self._thread.start()

    def on_start(self, span: RecordingSpan, parent_context: Context | None = None) -> None:
        """Do nothing, because spans are queued only when they end."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span, or drop it if the queue is full."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        with self._changed:
            room = not self._closed and len(self._queue) < self._most
            if room:
                self._queue.append(span)
                if len(self._queue) in {1, BATCH}:
                    self._changed.notify_all()
        if not room:
            self._count("dropped", 1)

    def shutdown(self) -> None:
        """Send the remaining spans, and drop those that can't be sent within `SHUTDOWN_TIMEOUT_S` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(SHUTDOWN_TIMEOUT_S)
        with self._changed:
            left, self._delivering = len(self._queue) + self._delivering, 0
            self._queue.clear()
        if left:
            self._count("dropped", left)
            log.warning("traces.dropped", spans=left)
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until the queue of ended spans is processed. Return False if the timeout expires first."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._flushing, timeout_millis / 1000)

    def _deliver_spans(self) -> None:
        while batch := self._wait_for_batch():
            self._deliver_batch(batch)

    def _wait_for_batch(self) -> list[ReadableSpan]:
        """Wait for spans and return a batch of them, or an empty list after shutdown."""
        with self._changed:
            while not self._queue and not self._closed:
                self._flushing = False
                self._changed.notify_all()
                self._changed.wait()
            if not self._is_batch_due():
                self._changed.wait_for(self._is_batch_due, EVERY_S)
            self._delivering = min(BATCH, len(self._queue))
            return [self._queue.popleft() for _ in range(self._delivering)]

    def _is_batch_due(self) -> bool:
        return len(self._queue) >= BATCH or self._closed or self._flushing

    def _deliver_batch(self, batch: list[ReadableSpan]) -> None:
        try:
            delivered = self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as problem:  # noqa: BLE001 - of a library: the next delivery may succeed
            log.error("traces.broken", problem=type(problem).__name__)
            delivered = False
        with self._changed:
            given_up, self._delivering = not self._delivering, 0
        if given_up:  # the program is ending: count them as dropped
            return
        self._count("exported" if delivered else "failed", len(batch))
        if delivered == self._failing:
            self._failing = not delivered
            log.info("traces.exported_again") if delivered else log.warning("traces.not_exported")
