"""Sends ended spans to the collector in one thread, and drops spans that don't fit in the queue.

The SDK's own processor drops spans without counting them, and can delay the end of the program by 30
seconds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = structlog.get_logger()

BATCH = 512
"""Maximum number of spans in one export."""
EVERY_S = 1.0
"""Maximum number of seconds for which an ended span waits for others."""
CLOSING_S = 2.0
"""Maximum number of seconds for which the shutdown waits for the collector."""

Count = Callable[[str, int], None]
"""Called with an outcome (`exported`, `failed` or `dropped`) and a number of spans."""


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

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
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
        """Send the remaining spans, and drop those that can't be sent within `CLOSING_S` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(CLOSING_S)
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
