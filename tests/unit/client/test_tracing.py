"""Requests continue the caller's trace, and send nothing else from the environment."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider

from assayd_client.exchange import build_trace_headers

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    monkeypatch.delenv("TRACESTATE", raising=False)


def test_nothing_is_sent_outside_of_a_trace() -> None:
    assert build_trace_headers() == {}


def test_trace_of_the_environment_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    assert build_trace_headers() == {"traceparent": PARENT}
    monkeypatch.setenv("TRACESTATE", "rojo=1")
    assert build_trace_headers() == {"traceparent": PARENT, "tracestate": "rojo=1"}


def test_current_span_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    with tracer.start_as_current_span("deploy") as span:
        context = span.get_span_context()
        expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
        assert build_trace_headers() == {"traceparent": expected}


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "\x00", " ", "é", "x" * 5000])
def test_text_that_can_not_be_a_header_is_not_sent(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    if "\x00" not in value:  # no variable can have it
        monkeypatch.setenv("TRACEPARENT", value)
    assert build_trace_headers() == {}
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACESTATE", value.replace("\x00", "\x01"))
    assert build_trace_headers() == {"traceparent": PARENT}
