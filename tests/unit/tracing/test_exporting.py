"""Spans while the collector is slow or unavailable."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from assayd_tracing.spans import BATCH, SHUTDOWN_TIMEOUT_S, BoundedSpanProcessor

MOST = 600


class Exporter(SpanExporter):
    """Delivers when it is released, with a result that the test sets."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.free = threading.Event()
        self.busy = threading.Event()
        self.result = result
        self.batches: list[int] = []
        self.problem: Exception | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.busy.set()
        self.free.wait(20)
        self.batches.append(len(spans))
        if self.problem is not None:
            raise self.problem
        return self.result

    def shutdown(self) -> None:
        self.free.set()


class Spans:
    """Ends spans, and counts their outcomes."""

    def __init__(self, exporter: Exporter) -> None:
        self.counts: Counter[str] = Counter()
        self.export = BoundedSpanProcessor(exporter, most=MOST, count=self._count)
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(self.export)
        self._tracer = self._provider.get_tracer("test")

    def _count(self, outcome: str, spans: int) -> None:
        self.counts[outcome] += spans

    def end(self, count: int) -> None:
        for _ in range(count):
            self._tracer.start_span("step").end()


def test_spans_are_delivered() -> None:
    exporter = Exporter()
    exporter.free.set()
    spans = Spans(exporter)
    spans.end(3)
    assert spans.export.force_flush(10_000)
    assert spans.counts == {"exported": 3}
    spans.export.shutdown()


def test_full_queue_drops_and_counts_without_waiting() -> None:
    exporter = Exporter()
    spans = Spans(exporter)
    spans.end(BATCH)
    assert exporter.busy.wait(10)
    began = time.monotonic()
    spans.end(MOST + 50)
    assert time.monotonic() - began < 5
    assert spans.counts == {"dropped": 50}
    exporter.free.set()
    assert spans.export.force_flush(10_000)
    assert spans.counts == {"dropped": 50, "exported": BATCH + MOST}
    spans.export.shutdown()


def test_end_does_not_wait_for_a_collector_that_hangs() -> None:
    exporter = Exporter()
    spans = Spans(exporter)
    spans.end(BATCH)
    assert exporter.busy.wait(10)
    spans.end(10)
    began = time.monotonic()
    spans.export.shutdown()
    assert time.monotonic() - began < SHUTDOWN_TIMEOUT_S + 2
    assert spans.counts == {"dropped": BATCH + 10}
    spans.end(1)
    assert spans.counts == {"dropped": BATCH + 11}


def test_rest_is_delivered_at_the_end() -> None:
    exporter = Exporter()
    exporter.free.set()
    spans = Spans(exporter)
    spans.end(7)
    spans.export.shutdown()
    assert spans.counts == {"exported": 7}


def test_failed_and_broken_deliveries_are_counted() -> None:
    exporter = Exporter(SpanExportResult.FAILURE)
    exporter.free.set()
    spans = Spans(exporter)
    spans.end(2)
    assert spans.export.force_flush(10_000)
    exporter.problem = RuntimeError("broken")
    spans.end(3)
    assert spans.export.force_flush(10_000)
    exporter.problem, exporter.result = None, SpanExportResult.SUCCESS
    spans.end(4)
    assert spans.export.force_flush(10_000)
    assert spans.counts == {"failed": 5, "exported": 4}
    spans.export.shutdown()
