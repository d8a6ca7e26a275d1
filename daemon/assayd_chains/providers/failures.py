"""Creates the errors for failed calls to a model's API. All APIs use the same errors.

This module decides which failures can be retried. Because an API's error text may repeat the request, error
messages never contain the text; the log contains the beginning of the text, without the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import structlog

from assayd.errors import ProviderError
from assayd_chains.providers.account import ModelAccount

log = structlog.get_logger()

KEY_REFUSED = frozenset({401, 403})
BUSY = 429
RETRYABLE = frozenset({408, 409, 425, BUSY})
"""Statuses to retry, in addition to 5xx."""
FINAL = frozenset({"insufficient_quota"})
"""Reasons that waiting does not help, whatever the status says."""
SAID_CHARS = 300
MOST_DELAY_S = 86_400.0
"""A longer one is as good as none."""


def refused_call_error(
    account: ModelAccount,
    status: int,
    *,
    said: str = "",
    reason: str | None = None,
    again_in_s: float | None = None,
) -> ProviderError:
    """Return the error for an answer whose status isn't 200.

    Args:
        account: the account that made the call.
        status: the HTTP status.
        said: the API's error text, which is logged.
        reason: the API's name for the failure.
        again_in_s: the pause that the API requests.
    """
    where = f"{account.type} answered {status}" + (f" ({_sanitize_name(reason)})" if reason else "")
    log.warning(
        "provider.refused",
        provider=account.name,
        status=status,
        said=said.replace(account.key.text, "…")[:SAID_CHARS],
    )
    if status in KEY_REFUSED:
        return ProviderError("provider.key", f"{where}: it does not accept the key from {account.key.source}")
    retryable = (status in RETRYABLE or status >= 500) and reason not in FINAL
    code = "provider.busy" if status == BUSY else "provider.status"
    if 300 <= status < 400:
        remedy = "; redirects aren't followed: set the redirect's target in repair.providers"
    else:
        remedy = "" if retryable else "; see the daemon's log for its message"
    return ProviderError(code, where + remedy, retryable=retryable, retry_after_s=again_in_s)


def key_error(account: ModelAccount) -> ProviderError:
    """Return the error for an invalid key, if the API reports it with a status other than 401."""
    return refused_call_error(account, 401)


def timeout_error(account: ModelAccount, timeout_s: float) -> ProviderError:
    """Return the error for a call that timed out."""
    return ProviderError(
        "provider.timeout", f"{account.type} did not answer within {timeout_s:.0f} s", retryable=True
    )


def unreachable_error(account: ModelAccount, problem: Exception) -> ProviderError:
    """Return the error for a connection that failed or was interrupted."""
    kind = type(problem.__cause__ or problem).__name__
    return ProviderError("provider.unreachable", f"{account.type} can't be reached: {kind}", retryable=True)


def malformed_answer_error(account: ModelAccount) -> ProviderError:
    """Return the error for an answer that is incomplete or in an unexpected format."""
    message = f"{account.type} sent an unreadable answer"
    return ProviderError("provider.garbled", message, retryable=True)


def broken_library_error(account: ModelAccount, problem: Exception) -> ProviderError:
    """Log an undocumented exception of a vendor's library, and return the error ``provider.broken``."""
    kind = type(problem).__name__
    log.error("provider.broken", provider=account.name, problem=kind)
    return ProviderError("provider.broken", f"the library for {account.type} failed: {kind}")


def parse_retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in a Retry-After header (RFC 9110, 10.2.3), or None without a valid header.

    The header contains a number or a date. A date is compared with the server's Date header, so that clocks
    needn't be synchronized.
    """
    wanted = headers.get("retry-after", "").strip()
    try:
        if wanted.isascii() and wanted.isdigit():
            return min(float(wanted), MOST_DELAY_S)
        until, now = parsedate_to_datetime(wanted), parsedate_to_datetime(headers.get("date", ""))
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _sanitize_name(reason: str) -> str:
    """Remove all invalid characters from an API's name for a failure."""
    return "".join(c for c in reason if c.isalnum() or c in "_-.")[:64]
