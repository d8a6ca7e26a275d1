"""What the core asks of traces, which are a wing: `assayd_tracing`. Without it nothing is traced.

Spans carry ids, kinds, policies, verdicts, counts and times; never source code, or text of users.
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
"""A value of a span; None is omitted."""


class Span(Protocol):
    """A step of an attempt or of a chain, in a trace. One that never ends isn't shown."""

    @property
    def context(self) -> TraceContext | None:
        """The place that others continue; None if nothing is traced."""
        ...

    def child(self, name: str, **attributes: Attribute) -> Span:
        """Begin a step within this one."""
        ...

    def past(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        """Add a step that has ended; it took `took_s`, or all the time since this span began."""
        ...

    def end(self, error: str | None = None, **attributes: Attribute) -> None:
        """End it, by an internal error if its code is passed."""
        ...


class Tracing(Protocol):
    """Begins traces."""

    @property
    def is_on(self) -> bool:
        """Whether anything is traced."""
        ...

    def of_caller(self, context: TraceContext | None) -> TraceContext | None:
        """Return what a request continues, from its caller's headers; None for a new trace."""
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
        """Begin a span that continues `parent`, or a new trace; it began `ago_s` ago."""
        ...


class NoSpan:
    """Implements `Span` if tracing is off."""

    context: TraceContext | None = None

    def child(self, name: str, **attributes: Attribute) -> Span:
        """Return itself."""
        return self

    def past(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        """Do nothing."""

    def end(self, error: str | None = None, **attributes: Attribute) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()


class NoTracing:
    """Implements `Tracing` if tracing is off."""

    is_on = False

    def of_caller(self, context: TraceContext | None) -> TraceContext | None:
        """Return None."""
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
        """Return a span that is never shown."""
        return NO_SPAN


NO_TRACING = NoTracing()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOrigin:
    """What new spans of a task continue, and since when they are under way (by `time.monotonic`)."""

    context: TraceContext | None = None
    since_s: float | None = None

    @property
    def ago_s(self) -> float:
        """Return the seconds since then; 0 if that isn't known."""
        return 0.0 if self.since_s is None else time.monotonic() - self.since_s


_NEW = TraceOrigin()
_ORIGIN: ContextVar[TraceOrigin] = ContextVar("trace_origin", default=_NEW)


def trace_origin() -> TraceOrigin:
    """Return what new spans of this task continue."""
    return _ORIGIN.get()


@contextmanager
def continuing(origin: TraceOrigin) -> Iterator[None]:
    """Have new spans continue an origin while the body runs."""
    token = _ORIGIN.set(origin)
    try:
        yield
    finally:
        _ORIGIN.reset(token)
