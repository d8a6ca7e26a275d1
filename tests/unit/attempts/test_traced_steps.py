"""A job binds the ids of a step's span to log lines, but only with tracing: it costs time in each step."""

from __future__ import annotations

import pytest
import structlog

from assayd.attempts.execution import Job
from assayd.model.trace_context import TraceContext
from assayd.ports.tracing import NO_SPAN, Attribute, NoOpSpan, Span


class _TracedSpan(NoOpSpan):
    context = TraceContext(trace_id="a" * 32, span_id="b" * 16, sampled=True)

    def begin_child(self, name: str, ago_s: float = 0.0, /, **attributes: Attribute) -> Span:
        return self


def _job(span: Span) -> Job:
    job = object.__new__(Job)  # A step needs only the attempt's span.
    job.span = span
    return job


def test_step_with_tracing_binds_its_ids() -> None:
    with _job(_TracedSpan()).trace_step("run"):
        bound = structlog.contextvars.get_contextvars()

    assert (bound["trace_id"], bound["span_id"]) == ("a" * 32, "b" * 16)
    assert "trace_id" not in structlog.contextvars.get_contextvars()


def test_step_without_tracing_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(structlog.contextvars, "bound_contextvars")

    with _job(NO_SPAN).trace_step("run") as span:
        assert span is NO_SPAN
