"""Manages a chain's spans: one for the chain and, in a generation, one for each repair.

The spans of attempts and answers are children of the innermost span, whose ids are added to log lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog

from assayd.attempts.execution import get_loggable_error_name
from assayd.log import build_trace_log_fields
from assayd.model.trace_context import TraceContext, parse_text
from assayd.ports.tracing import NO_SPAN, Span, TraceOrigin, Tracing, continue_trace, get_trace_origin
from assayd_chains.model import Chain, Strategy

LEFT = "chain.left"
"""The error of a span whose chain continues in the daemon's next run."""


class TraceContextSource(Protocol):
    """A source of the trace contexts of attempts."""

    async def trace(self, attempt_id: str) -> str | None:
        """Return the context of an attempt's span (see `model.trace_context`), or None if it has none."""
        ...


class ChainSpans:
    """The trace spans of one chain that runs in this process."""

    def __init__(self) -> None:
        self._chain: Span = NO_SPAN
        self._repair: Span = NO_SPAN
        self._repair_id: str | None = None

    @property
    def context(self) -> TraceContext | None:
        """Return the context of the innermost open span, which is the parent of attempts' spans.

        Return None if tracing is off.
        """
        return self._innermost_span.context

    @property
    def _innermost_span(self) -> Span:
        return self._chain if self._repair is NO_SPAN else self._repair

    async def begin(self, chain: Chain, tracing: Tracing, attempts: TraceContextSource) -> None:
        """Begin the chain's span in the caller's trace or, without one, in the last attempt's trace."""
        parent = get_trace_origin().context
        if parent is None and tracing.is_on and chain.last_attempt_id is not None:
            parent = parse_text(await attempts.trace(chain.last_attempt_id))
        name = "repair" if chain.words is None else "generation"
        facts = {"chain_id": chain.id, "kind": chain.kind, "provider": chain.provider}
        self._chain = tracing.begin(name, facts, parent=parent)

    @contextmanager
    def activate(self, chain: Chain) -> Iterator[None]:
        """Make the span of the chain or of its repair the parent of attempts' spans while the body runs."""
        self._begin_repair_span(chain)
        origin = TraceOrigin(context=self.context)
        with (
            continue_trace(origin),
            structlog.contextvars.bound_contextvars(**build_trace_log_fields(self.context)),
        ):
            yield

    @contextmanager
    def record_answer_span(self, provider: str, strategy: Strategy, number: int) -> Iterator[Span]:
        """Record a span for one request to a provider while the body runs."""
        facts = {"provider": provider, "strategy": strategy.value, "number": number}
        span, error = self._innermost_span.begin_child("answer", **facts), None
        try:
            yield span
        except BaseException as problem:
            error = get_loggable_error_name(problem)
            raise
        finally:
            span.end(error)

    def end(self, chain: Chain | None) -> None:
        """End all open spans. `chain` is None if the chain continues in the daemon's next run."""
        error, outcome = (LEFT, None) if chain is None else (None, chain.outcome)
        facts = {
            "outcome": outcome.value if outcome is not None else None,
            "answers": len(chain.answers) if chain is not None else None,
        }
        self._end_repair_span(chain, error)
        self._chain.end(error, **facts)

    def _begin_repair_span(self, chain: Chain) -> None:
        """Begin the span of a repair in a generation, after an attempt has failed."""
        repair = chain.repair if chain.words is not None else None
        if repair is None or repair.id == self._repair_id:
            return
        self._end_repair_span(chain)
        self._repair_id = repair.id
        self._repair = self._chain.begin_child(
            "repair", chain_id=repair.id, kind=chain.kind, provider=chain.provider
        )

    def _end_repair_span(self, chain: Chain | None, error: str | None = None) -> None:
        ended = [each for each in chain.repairs if each.id == self._repair_id] if chain is not None else []
        outcome = ended[0].outcome if ended else None
        facts = {
            "outcome": outcome.repair_outcome_name if outcome is not None else None,
            "answers": len(ended[0].fixes) if ended else None,
        }
        self._repair.end(error, **facts)
        self._repair = NO_SPAN
