"""Bodies as they come, and as they end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.types import Message

from assayd.api.call import body_pieces
from assayd.errors import RequestError


def request_of(*messages: Message) -> Request:
    coming: Iterator[Message] = iter(messages)

    async def receive() -> Message:
        return next(coming)

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def test_client_that_goes_away_in_its_body_is_no_trouble_of_ours() -> None:
    begun = {"type": "http.request", "body": b"{", "more_body": True}
    pieces = body_pieces(request_of(begun, {"type": "http.disconnect"}), silence_s=5)
    assert await anext(pieces) == b"{"

    with pytest.raises(RequestError, match="the client went away") as ended:
        await anext(pieces)

    assert (ended.value.code, ended.value.retryable) == ("malformed", False)
