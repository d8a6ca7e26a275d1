"""Request bodies: how they arrive and end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from assayd.api.call import ApiLimits, Call, LargeResponse, LargeResponseSlots, iter_body_chunks, read_body
from assayd.byte_budget import ByteBudget
from assayd.errors import RequestError
from assayd.model.submission import Peer
from support.stores.stored_attempts import Make

PEER = Peer(uid=5, gid=5, pid=1)


def request_of(*messages: Message) -> Request:
    coming: Iterator[Message] = iter(messages)

    async def receive() -> Message:
        return next(coming)

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def test_client_that_goes_away_in_its_body_is_no_trouble_of_ours() -> None:
    begun = {"type": "http.request", "body": b"{", "more_body": True}
    pieces = iter_body_chunks(request_of(begun, {"type": "http.disconnect"}), silence_s=5, total_s=60)
    assert await anext(pieces) == b"{"

    with pytest.raises(RequestError, match="the client disconnected") as ended:
        await anext(pieces)

    assert (ended.value.code, ended.value.retryable) == ("malformed", False)


async def test_replay_is_answered_in_turn_however_small_its_own_documents_are() -> None:
    parts: dict[str, Any] = {each.name: None for each in fields(Call)}
    call = Call(**parts | {"large": LargeResponseSlots(most_s=1), "caller": SimpleNamespace(peer=PEER)})

    replay = replace(Make().finished(), replay_of="01J" + "0" * 23)

    assert isinstance(await call.build_attempt_response(replay), LargeResponse)


MORE = {"type": "http.request", "body": b"x" * 100, "more_body": True}
LAST = {"type": "http.request", "body": b"x" * 100, "more_body": False}


def call_with(**limits: Any) -> Any:
    return SimpleNamespace(limits=ApiLimits(**limits))


async def test_body_is_held_of_the_budget_while_it_comes_and_refused_beyond() -> None:
    budget = ByteBudget(800, operators=frozenset())
    with budget.reserve_growing(1) as held:
        assert len(await read_body(request_of(MORE, MORE, LAST), call_with(), held, max_bytes=1000)) == 300
        assert budget.held == 300
        with budget.reserve_growing(1) as more, pytest.raises(RequestError) as caught:
            await read_body(request_of(*[MORE] * 9), call_with(), more, max_bytes=1000)
        assert (caught.value.code, caught.value.retryable, budget.held) == ("queue.full", True, 300)
    assert budget.held == 0


async def test_body_that_drips_for_longer_than_it_may_take_is_ended() -> None:
    async def drip() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x", "more_body": True}

    request = Request({"type": "http", "method": "POST", "headers": []}, drip)
    with pytest.raises(RequestError, match="wasn't complete within") as caught:
        async for _ in iter_body_chunks(request, silence_s=5, total_s=0.02):
            pass
    assert caught.value.code == "too_slow"
