"""The HTTP client that the vendors' libraries are given: it follows nothing, and reads so much at most."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

ANSWER_BYTES = 16 * 2**20
"""Of an answer; one that is larger is given up."""
FAILURE_BYTES = 64 * 1024
"""Of what comes with a failure, which the library reads in the daemon; the rest is left."""


def bounded_client() -> httpx2.AsyncClient:
    """Open a client for one provider.

    Redirects are answers: a library would send prompt and key on to wherever one leads. Bodies come as they
    are: one that is compressed has no bound in its bytes. Proxies of the environment are used as ever.
    """
    import httpx2

    return httpx2.AsyncClient(
        follow_redirects=False,
        timeout=None,  # each call has a time of its own
        event_hooks={"request": [_ask_plain], "response": [_bound]},
    )


async def _ask_plain(request: httpx2.Request) -> None:
    request.headers["Accept-Encoding"] = "identity"


async def _bound(response: httpx2.Response) -> None:
    """Replace the answer's stream by one that ends in time. Raises: httpx2.HTTPError."""
    import httpx2

    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise httpx2.DecodingError("the answer is compressed, which was not asked for")
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - an asynchronous client has no other
    body: httpx2.AsyncByteStream = stream

    class BoundedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in _up_to(body, response):
                yield piece

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = BoundedBody()


async def _up_to(stream: httpx2.AsyncByteStream, response: httpx2.Response) -> AsyncIterator[bytes]:
    """Return a body up to its bound: what comes with a failure is cut there."""
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
