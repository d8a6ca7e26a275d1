"""How long to leave an engine alone that has just failed."""

from __future__ import annotations

from tenacity import RetryCallState, Retrying, wait_exponential_jitter

_BACK_OFF = wait_exponential_jitter(0.5, 30.0, jitter=0.5)


def back_off_s(failures: int) -> float:
    """Return how many seconds to wait after so many failures in a row: exponential, with jitter."""
    call = RetryCallState(Retrying(), None, (), {})
    call.attempt_number = failures
    return _BACK_OFF(call)
