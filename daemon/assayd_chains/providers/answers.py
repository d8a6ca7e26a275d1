"""Contains the common parts of model APIs: accounts, an HTTP client, answers, and errors of failed calls.

Streamed text is used only for display to followers. Therefore, server-sent events are read line by line, up
to `MAX_STREAMED_BYTES` in total, and invalid events are skipped. Afterwards, `reading.py` parses the complete
answer separately.

The HTTP client, which the vendors' libraries use, doesn't follow redirects, and limits the size of response
bodies.

All APIs use the same errors for failed calls. This module decides which failures can be retried. Because an
API's error text may repeat the request, error messages never contain the text; the log contains the beginning
of the text, without the key.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from assayd.errors import ConfigError, ProviderError
from assayd.keys import ProviderKey
from assayd_chains.model import ReplyCost
from assayd_chains.provider import Heard

log = structlog.get_logger()

if TYPE_CHECKING:
    import httpx2

MAX_TOKEN_COUNT = 2**53
MAX_STREAMED_BYTES = 2**20
_DATA_PREFIX = b"data:"
_DONE_MARKER = b"[DONE]"
Event = dict[str, object]
ExtractText = Callable[[Event], str]
"""A function that returns the text which a vendor's event adds to the answer."""


class StopReason(StrEnum):
    """The reason why a model stopped its output."""

    COMPLETE = "complete"
    """The answer is complete."""
    CUT_OFF = "cut_off"
    """The answer reached the token limit."""
    REFUSED = "refused"
    """The model, or a filter before or after the model, refused to answer."""
    EMPTY = "empty"
    """The provider returned neither an answer nor a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """The parsed answer of an API. `word` is the API's name for the stop reason."""

    text: str
    ending: StopReason
    word: str = ""
    usage: ReplyCost = ReplyCost()


def parse_token_count(value: object) -> int | None:
    """Return a reported token count, or None if the number is invalid or impossibly large."""
    return value if type(value) is int and 0 <= value <= MAX_TOKEN_COUNT else None


async def receive_response_body(response: httpx2.Response, text_of: ExtractText, heard: Heard) -> bytes:
    """Read and return the complete response body, and pass its text to `heard` as the text arrives.

    Raises: httpx2.HTTPError, if the connection fails or the body exceeds its limit.
    """
    listener, whole = StreamingAnswerParser(text_of, heard), bytearray()
    async for piece in response.aiter_raw():
        whole += piece
        listener.add_bytes(piece)
    return bytes(whole)


class StreamingAnswerParser:
    """A parser of a streamed response that passes the text to a callback as the bytes arrive."""

    def __init__(self, text_of: ExtractText, heard: Heard) -> None:
        self._text_of, self._heard = text_of, heard
        self._left = MAX_STREAMED_BYTES
        self._line = bytearray()

    def add_bytes(self, piece: bytes) -> None:
        """Add received bytes, which can end at any position in an event."""
        piece = piece[: max(self._left, 0)]
        self._left -= len(piece)
        self._line += piece
        if b"\n" not in piece:
            return
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            with suppress(ValueError, RecursionError):
                for event in _parse_events([line]):
                    if text := self._text_of(event):
                        self._heard(text)


def is_event_stream(content: bytes) -> bool:
    """Return whether a response body consists of server-sent events; some servers don't stream."""
    return content.lstrip()[:6].startswith((b"event:", b"data:", b":"))


def parse_events(content: bytes) -> list[Event]:
    """Return the events of a complete answer. Raises: ValueError, if an event is malformed."""
    return list(_parse_events(content.split(b"\n")))


def _parse_events(lines: list[bytes]) -> Iterator[Event]:
    for line in lines:
        told = line.strip().removeprefix(_DATA_PREFIX).strip() if line.startswith(_DATA_PREFIX) else b""
        if told and told != _DONE_MARKER:
            event = json.loads(told)
            if not isinstance(event, dict):
                raise ValueError("an event isn't a JSON object")
            yield event


def get_nested_value(event: object, *path: str | int) -> object:
    """Return the value at a path in an event, or None if the path doesn't exist."""
    for step in path:
        if isinstance(step, str) and isinstance(event, dict):
            event = event.get(step)
        elif isinstance(step, int) and isinstance(event, list) and len(event) > step:
            event = event[step]
        else:
            return None
    return event


def get_text(event: object, *path: str | int) -> str:
    """Return the string at a path in an event, or an empty string if the path has no string."""
    found = get_nested_value(event, *path)
    return found if isinstance(found, str) else ""


MAX_RESPONSE_BYTES = 16 * 2**20
"""Maximum number of bytes of a response; a larger response is an error."""
MAX_FAILURE_BYTES = 64 * 1024
"""Maximum number of bytes of an error response to read, because the library parses it in the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAccount:
    """The account of one configured model.

    Args:
        type: the API's type, e.g. ``openai``.
        base_url: the address of a server that replaces the vendor's server.
        max_tokens: the maximum length of an answer; None uses the API's default if it has one.
        timeout_s: the timeout of one call, within the remaining time.
    """

    name: str
    type: str
    model: str
    key: ProviderKey
    base_url: str | None = None
    max_tokens: int | None = None
    timeout_s: float = 120.0


def import_vendor_library(module: str, *, account: ModelAccount, loggers: Sequence[str]) -> None:
    """Import a vendor's library, and prevent it from writing requests to the daemon's log.

    Raises: ConfigError ``repair.extra`` if the library isn't installed.
    """
    try:
        importlib.import_module(module)
    except ImportError as problem:
        message = (
            f"repair.providers.{account.name}: the type {account.type} needs an extra that is not installed: "
            f"pip install 'assayd[{account.type}]'"
        )
        raise ConfigError("repair.extra", message, field=f"repair.providers.{account.name}.type") from problem
    for name in (*loggers, "httpx2", "httpcore2", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def create_size_limited_client() -> httpx2.AsyncClient:
    """Create an HTTP client for one provider, with limits on the size of responses.

    Redirects are returned without being followed, because a library would send the prompt and the key to
    the redirect's target. Compressed bodies are rejected, because their decompressed size is unbounded. The
    environment's proxy settings apply.
    """
    import httpx2

    return httpx2.AsyncClient(
        follow_redirects=False,
        timeout=None,  # each call has a separate deadline
        event_hooks={"request": [_disable_compression], "response": [_limit_body]},
    )


async def _disable_compression(request: httpx2.Request) -> None:
    request.headers["Accept-Encoding"] = "identity"


async def _limit_body(response: httpx2.Response) -> None:
    """Wrap a response's stream in a size limit, and reject compressed bodies.

    Raises: httpx2.DecodingError, if the body is compressed.
    """
    import httpx2

    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise httpx2.DecodingError("the answer is compressed, although the request didn't allow it")
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - an asynchronous client has no other
    body: httpx2.AsyncByteStream = stream

    class BoundedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in _iter_limited_chunks(body, response):
                yield piece

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = BoundedBody()


async def _iter_limited_chunks(
    stream: httpx2.AsyncByteStream, response: httpx2.Response
) -> AsyncIterator[bytes]:
    """Yield a body up to its size limit.

    The body of an error response is truncated at the limit.
    """
    import httpx2

    failure = response.status_code != httpx2.codes.OK
    left = MAX_FAILURE_BYTES if failure else MAX_RESPONSE_BYTES
    async for piece in stream:
        yield piece[:left]
        left -= len(piece)
        if left < 0 and failure:
            return
        if left < 0:
            raise httpx2.ReadError(f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")


KEY_REFUSED_STATUSES = frozenset({401, 403})
BUSY = 429
RETRYABLE_STATUSES = frozenset({408, 409, 425, BUSY})
"""Statuses to retry, in addition to 5xx."""
FINAL_REASONS = frozenset({"insufficient_quota"})
"""Failures that a retry can't resolve, whatever the HTTP status is."""
SAID_CHARS = 300
MAX_RETRY_DELAY_S = 86_400.0
"""Maximum number of seconds of a requested pause."""


def build_http_status_error(
    account: ModelAccount,
    status: int,
    *,
    said: str = "",
    reason: str | None = None,
    again_in_s: float | None = None,
) -> ProviderError:
    """Return the error for a response whose HTTP status isn't 200.

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
    if status in KEY_REFUSED_STATUSES:
        return ProviderError("provider.key", f"{where}: it does not accept the key from {account.key.source}")
    retryable = (status in RETRYABLE_STATUSES or status >= 500) and reason not in FINAL_REASONS
    code = "provider.busy" if status == BUSY else "provider.status"
    if 300 <= status < 400:
        remedy = "; redirects aren't followed: set the redirect's target in repair.providers"
    else:
        remedy = "" if retryable else "; see the daemon's log for its message"
    return ProviderError(code, where + remedy, retryable=retryable, retry_after_s=again_in_s)


def build_invalid_key_error(account: ModelAccount) -> ProviderError:
    """Return the error for an invalid key that the API reports with a status other than 401."""
    return build_http_status_error(account, 401)


def timeout_error(account: ModelAccount, timeout_s: float) -> ProviderError:
    """Return the error for a call that timed out."""
    return ProviderError(
        "provider.timeout", f"{account.type} did not answer within {timeout_s:.0f} s", retryable=True
    )


def build_unreachable_error(account: ModelAccount, problem: Exception) -> ProviderError:
    """Return the error for a connection that failed or was interrupted."""
    kind = type(problem.__cause__ or problem).__name__
    return ProviderError("provider.unreachable", f"{account.type} can't be reached: {kind}", retryable=True)


def build_malformed_answer_error(account: ModelAccount) -> ProviderError:
    """Return the error for a response that is incomplete or in an unexpected format."""
    message = f"{account.type} sent an unreadable answer"
    return ProviderError("provider.garbled", message, retryable=True)


def build_broken_library_error(account: ModelAccount, problem: Exception) -> ProviderError:
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
            return min(float(wanted), MAX_RETRY_DELAY_S)
        until, now = parsedate_to_datetime(wanted), parsedate_to_datetime(headers.get("date", ""))
        return min(max((until - now).total_seconds(), 0.0), MAX_RETRY_DELAY_S)
    except (ValueError, TypeError, OverflowError):
        return None


def _sanitize_name(reason: str) -> str:
    """Return an API's name for a failure without invalid characters, truncated to 64 characters."""
    return "".join(c for c in reason if c.isalnum() or c in "_-.")[:64]
