from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect, Request

from assayd_compat.bodies import BadRequest, RequestByteBudget, get_token, parse_body, run_while_connected
from assayd_compat.judge0 import BatchRequest
from assayd_compat.piston import ExecuteRequest


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
    assert get_token(request(headers)) == token


async def test_work_is_returned_while_the_client_waits() -> None:
    async def work() -> int:
        return 42

    assert await run_while_connected(request(gone=asyncio.Event()), work()) == 42


async def test_work_is_cancelled_when_the_client_hangs_up() -> None:
    gone, started, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.create_task(run_while_connected(request(gone=gone), work()))
    await started.wait()
    gone.set()
    with pytest.raises(ClientDisconnect):
        await waiting
    assert cancelled.is_set()


def test_caller_never_holds_more_than_is_free_for_others() -> None:
    room = RequestByteBudget(100)
    room.reserve(40, "first")

    with pytest.raises(BadRequest, match="holds too many requests"):
        room.reserve(30, "first")
    room.reserve(30, "second")
    room.release(40, "first")
    assert room.free == 70


async def test_text_of_too_many_values_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(BadRequest, match="too many") as caught:
        await parse_body(b'{"submissions":[' + b"[]," * 300_000 + b"[]]}", BatchRequest)
    assert caught.value.status == 413


@pytest.mark.parametrize("limit", ["Infinity", "NaN", '"inf"'])
async def test_memory_limit_that_is_not_a_number_is_refused(limit: str) -> None:
    body = f'{{"language":"python","version":"3","files":[{{"content":"1"}}],"run_memory_limit":{limit}}}'
    with pytest.raises(BadRequest):
        await parse_body(body.encode(), ExecuteRequest)
