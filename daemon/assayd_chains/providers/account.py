"""Defines a configured model's account and the HTTP client that the vendor's library uses.

The client doesn't follow redirects, and limits the size of response bodies.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assayd.errors import ConfigError
from assayd.keys import ProviderKey

if TYPE_CHECKING:
    import httpx2

ANSWER_BYTES = 16 * 2**20
"""Of an answer; one that is larger is given up."""
FAILURE_BYTES = 64 * 1024
"""Bytes of an error's body to read, because the library reads it in the daemon; the rest is dropped."""


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


def create_bounded_client() -> httpx2.AsyncClient:
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
    """Replace the stream of a response by one with a size limit. Raises: httpx2.HTTPError."""
    import httpx2

    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise httpx2.DecodingError("the answer is compressed, although the request didn't allow it")
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - an asynchronous client has no other
    body: httpx2.AsyncByteStream = stream

    class BoundedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in _iter_limited_pieces(body, response):
                yield piece

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = BoundedBody()


async def _iter_limited_pieces(
    stream: httpx2.AsyncByteStream, response: httpx2.Response
) -> AsyncIterator[bytes]:
    """Yield a body up to its size limit.

    The body of an error response is truncated at the limit.
    """
    import httpx2

    failure = response.status_code != httpx2.codes.OK
    left = FAILURE_BYTES if failure else ANSWER_BYTES
    async for piece in stream:
        yield piece[:left]
        left -= len(piece)
        if left < 0 and failure:
            return
        if left < 0:
            raise httpx2.ReadError(f"the answer is larger than {ANSWER_BYTES} bytes")
