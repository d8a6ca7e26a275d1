"""Asks a provider, again where that can help: exponential back-off with jitter, within the repair's time."""

from __future__ import annotations

import asyncio

import structlog
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from assayd.errors import ProviderError
from assayd.ports.clock import Clock
from assayd.ports.llm import Provider, Reply, Request

log = structlog.get_logger()

MOST_CALLS = 4
_JITTER = wait_random_exponential(multiplier=1, max=20)


async def ask(provider: Provider, request: Request, *, timeout_s: float, clock: Clock) -> Reply:
    """Give the provider's fix.

    Raises: ProviderError, when the last call failed too or another can't help; TimeoutError.
    """
    ends_at = clock.monotonic() + timeout_s
    async with asyncio.timeout(timeout_s):
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(_can_help),
            stop=stop_after_attempt(MOST_CALLS),
            wait=_wait_s,
            reraise=True,
        ):
            with attempt:
                return await provider.fix(request, timeout_s=max(ends_at - clock.monotonic(), 0.001))
    raise AssertionError("a retry loop without an end")


def _can_help(problem: BaseException) -> bool:
    return isinstance(problem, ProviderError) and problem.retryable


def _wait_s(state: RetryCallState) -> float:
    """Give the pause before the next call: what the provider asks for, else more each time."""
    problem = state.outcome.exception() if state.outcome is not None else None
    asked_for = problem.retry_after_s if isinstance(problem, ProviderError) else None
    wait_s = _JITTER(state) if asked_for is None else asked_for
    log.warning("provider.call_failed", code=getattr(problem, "code", None), again_in_s=round(wait_s, 1))
    return wait_s
