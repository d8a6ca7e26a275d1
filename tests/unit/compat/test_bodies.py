from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect, Request

from assayd_compat.bodies import token_of, unless_gone


def request(headers: dict[str, str] | None = None, *, gone: asyncio.Event | None = None) -> Request:
    async def receive() -> dict[str, str]:
        if gone is not None:
            await gone.wait()
            return {"type": "http.disconnect"}
        raise AssertionError("nothing is received")

    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    return Request({"type": "http", "headers": pairs}, receive)


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"Authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"X-Auth-Token": "abc"}, "abc"),
        ({"Authorization": "Basic abc"}, None),
        ({"Authorization": "Bearer"}, None),
        ({}, None),
    ],
)
def test_token_is_a_bearer_or_in_judge0s_header(headers: dict[str, str], token: str | None) -> None:
    assert token_of(request(headers)) == token


async def test_work_is_returned_while_the_client_waits() -> None:
    async def work() -> int:
        return 42

    assert await unless_gone(request(gone=asyncio.Event()), work()) == 42


async def test_work_is_cancelled_when_the_client_hangs_up() -> None:
    gone, started, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.create_task(unless_gone(request(gone=gone), work()))
    await started.wait()
    gone.set()
    with pytest.raises(ClientDisconnect):
        await waiting
    assert cancelled.is_set()
