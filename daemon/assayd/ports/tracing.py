"""The core's interface to tracing, which the wing `assayd_tracing` implements.

Spans contain ids, kinds, policies, verdicts, counts and times, but never source code or text of users.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from assayd.model.trace_context import TraceContext

Attribute = str | int | float | bool | None
"""The value of a span's attribute; None is omitted."""


class Span(Protocol):
    """A step of an attempt or a chain in a trace. A span that is never ended isn't exported."""

    @property
    def context(self) -> TraceContext | None:
        """Return this span's context for spans that continue it, or None if tracing is off."""
        ...

    def begin_child(self, name: str, ago_s: float = 0.0, /, **attributes: Attribute) -> Span:
        """Begin a child span of this span, which started `ago_s` seconds ago."""
        ...

    def add_finished_child(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        """Add a finished child span with the duration `took_s` (default: since this span began)."""
        ...

    def end(self, error: str | None = None, ago_s: float = 0.0, /, **attributes: Attribute) -> None:
        """End the span, which ended `ago_s` seconds ago. Args: error: the code of an internal error."""
        ...


class Tracing(Protocol):
    """A factory of spans."""

    @property
    def is_on(self) -> bool:
        """Return whether tracing is on."""
        ...

    def read_context(self, context: TraceContext | None) -> TraceContext | None:
        """Return the trace context in a request's headers, or None if the request begins a new trace."""
        ...

    def begin(
        self,
        name: str,
        attributes: Mapping[str, Attribute],
        *,
        parent: TraceContext | None = None,
        linked: TraceContext | None = None,
        ago_s: float = 0.0,
    ) -> Span:
        """Begin a span that started `ago_s` seconds ago and continues `parent`, or begins a new trace."""
        ...


class NoOpSpan:
    """An implementation of `Span`, used if tracing is off."""

    context: TraceContext | None = None

    def begin_child(self, name: str, ago_s: float = 0.0, /, **attributes: Attribute) -> Span:
        """Return this span."""
        return self

    def add_finished_child(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        """Ignore the finished step."""

    def end(self, error: str | None = None, ago_s: float = 0.0, /, **attributes: Attribute) -> None:
        """Ignore the end of the span."""


NO_SPAN = NoOpSpan()


class NoOpTracing:
    """An implementation of `Tracing`, used if tracing is off."""

    is_on = False

    def read_context(self, context: TraceContext | None) -> TraceContext | None:
        """Return None, because no trace is continued."""
        return None

    def begin(
        self,
        name: str,
        attributes: Mapping[str, Attribute],
        *,
        parent: TraceContext | None = None,
        linked: TraceContext | None = None,
        ago_s: float = 0.0,
    ) -> Span:
        """Return a span that is never exported."""
        return NO_SPAN


NO_TRACING = NoOpTracing()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOrigin:
    """The context that a task's new spans continue, and the task's start time (`time.monotonic`)."""

    context: TraceContext | None = None
    since_s: float | None = None

    @property
    def ago_s(self) -> float:
        """Return the seconds since the start, or 0 if the start is unknown."""
        return 0.0 if self.since_s is None else time.monotonic() - self.since_s


_NEW = TraceOrigin()
_CURRENT_ORIGIN: ContextVar[TraceOrigin] = ContextVar("trace_origin", default=_NEW)


def get_trace_origin() -> TraceOrigin:
    """Return the context that new spans of this task continue."""
    return _CURRENT_ORIGIN.get()


@contextmanager
def continue_trace(origin: TraceOrigin) -> Iterator[None]:
    """Make new spans of this task continue `origin` while the body runs."""
    token = _CURRENT_ORIGIN.set(origin)
    try:
        yield
    finally:
        _CURRENT_ORIGIN.reset(token)
