"""Calls a provider, retries if a retry can help, and receives the answer as a stream.

The pauses between calls grow exponentially, with random jitter, within the time limit of the chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import monotonic

import structlog
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_random_exponential,
)

from assayd.errors import ProviderError
from assayd.ports.clock import Clock
from assayd_chains.prompts import remove_unprintable
from assayd_chains.provider import FixRequest, Provider, Reply

log = structlog.get_logger()

Sleep = Callable[[float], Awaitable[None]]

MOST_CALLS = 4
_TOLD_CHARS = 300
MOST_CHARS = 64 * 1024
"""Of one answer that are shown while it comes."""
EVERY_S = 0.25
"""The shortest time between two wakings of those who follow."""
_JITTER = wait_random_exponential(multiplier=1, max=20)


async def ask_provider(
    provider: Provider, request: FixRequest, *, timeout_s: float, clock: Clock, sleep: Sleep = asyncio.sleep
) -> Reply:
    """Call the provider until it returns a fix, and return the fix.

    Raises: ProviderError, if the last call failed, a retry can't help, or the provider requests a pause
    that exceeds the remaining time; TimeoutError.
    """
    ends_at = clock.monotonic() + timeout_s
    wording = request

    def should_stop(state: RetryCallState) -> bool:
        too_late = clock.monotonic() + state.upcoming_sleep >= ends_at
        return too_late or state.attempt_number >= MOST_CALLS

    async with asyncio.timeout(timeout_s):
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(_is_retryable),
            stop=should_stop,
            wait=_retry_pause_s,
            before_sleep=_log_failure,
            sleep=sleep,
            reraise=True,
        ):
            with attempt:
                wording.heard("")
                try:
                    reply = await provider.fix(wording, timeout_s=max(ends_at - clock.monotonic(), 0.001))
                    _refuse_question(request, reply)
                    return reply
                except ProviderError as problem:
                    wording = _add_form_error(request, problem)
                    raise
    raise AssertionError("a retry loop without an end")


def _refuse_question(request: FixRequest, reply: Reply) -> None:
    """Reject an answer that is a question, if the request doesn't allow questions.

    Raises: ProviderError ``provider.reply``.
    """
    if reply.question and not request.questions:
        raise ProviderError("provider.reply", "the reply is a question; answer with code", retryable=True)


def _is_retryable(problem: BaseException) -> bool:
    return isinstance(problem, ProviderError) and problem.retryable


def _add_form_error(request: FixRequest, problem: ProviderError) -> FixRequest:
    """Return the request, extended by the format error of the last answer, if any."""
    if problem.code != "provider.reply":
        return request
    told = f"{request.user}\nYOUR LAST ANSWER HAD THE WRONG FORM\n{problem.message[:_TOLD_CHARS]}.\n"
    return replace(request, user=told)


def _retry_pause_s(state: RetryCallState) -> float:
    """Return the seconds until the next call, as the provider requests or with exponential growth."""
    problem = state.outcome.exception() if state.outcome is not None else None
    asked_for = problem.retry_after_s if isinstance(problem, ProviderError) else None
    return _JITTER(state) if asked_for is None else asked_for


def _log_failure(state: RetryCallState) -> None:
    problem = state.outcome.exception() if state.outcome is not None else None
    code = getattr(problem, "code", None)
    log.warning("provider.call_failed", code=code, again_in_s=round(state.upcoming_sleep, 1))


class StreamedAnswer:
    """The text received so far of a streamed answer. An empty piece restarts the answer."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.text = ""
        self._wake = wake
        self._woke_at = 0.0

    def append(self, piece: str) -> None:
        """Append received text, and wake the waiting followers unless they were woken very recently."""
        self.text = self.text + remove_unprintable(piece[: MOST_CHARS - len(self.text)]) if piece else ""
        if monotonic() - self._woke_at >= EVERY_S:
            self._woke_at = monotonic()
            self._wake()

    def forget(self) -> None:
        """Discard the text after the answer was recorded or has failed."""
        self.text = ""
