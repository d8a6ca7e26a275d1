"""Answers that are large: made a few at a time, users in turn, and not held for who does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from starlette.types import Message

from assayd.api.call import AT_ONCE, SHARE, LargeResponse, LargeResponseSlots, ResponseCache

BODY = bytes(2**20)


class Client:
    """One who takes so many messages of an answer, and no more."""

    def __init__(self, takes: int = 100) -> None:
        self.messages: list[Message] = []
        self.takes = takes

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        if len(self.messages) > self.takes:
            await asyncio.Event().wait()

    @property
    def body(self) -> bytes:
        """What came."""
        return b"".join(message.get("body", b"") for message in self.messages)


async def receive() -> Message:
    """Say nothing."""
    return await asyncio.Event().wait() or {}


class Asked:
    """Answers that were asked for; `made` counts those that were made."""

    def __init__(self, most_s: float = 60.0) -> None:
        self._answers = LargeResponseSlots(most_s=most_s)
        self.made = 0

    async def make(self) -> bytes:
        self.made += 1
        return BODY

    async def ask(self, uid: int, client: Client) -> None:
        answer = LargeResponse(self._answers, uid, self.make, status=200, headers={"Location": "/a"})
        await answer({"type": "http"}, receive, client.send)


async def test_answer_comes_in_pieces_with_its_length() -> None:
    client = Client()
    await Asked().ask(1, client)
    start, *pieces = client.messages
    headers = dict(start["headers"])
    assert (start["status"], headers[b"content-length"], headers[b"location"]) == (200, b"1048576", b"/a")
    assert headers[b"content-type"] == b"application/json"
    assert (client.body, max(len(piece["body"]) for piece in pieces)) == (BODY, 2**18)


async def test_who_reads_nothing_keeps_few_answers_in_memory_and_leaves_one_slot_to_others() -> None:
    asked, stranger = Asked(), Client()
    async with asyncio.TaskGroup() as group:
        stalled = [group.create_task(asked.ask(1, Client(takes=0))) for _ in range(50)]
        await asyncio.sleep(0)
        await asked.ask(2, stranger)
        made = asked.made
        for task in stalled:
            task.cancel()
    assert (stranger.body, made) == (BODY, AT_ONCE)


async def test_who_takes_too_long_is_cut_off() -> None:
    asked = Asked(most_s=0.01)
    with pytest.raises(TimeoutError):
        await asked.ask(1, Client(takes=2))
    await asked.ask(1, Client())
    assert asked.made == 2


class Costly:
    """Makes answers that take two seconds of a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made = 0

    def __call__(self) -> int:
        self.now += 2
        self.made += 1
        return self.made


def test_answer_is_kept_for_ten_times_as_long_as_it_took() -> None:
    costly = Costly()
    kept = ResponseCache(lambda: costly.now)
    assert [kept.get("a", costly) for _ in range(3)] == [1, 1, 1]
    costly.now += 2 * SHARE - 0.1
    assert kept.get("a", costly) == 1
    costly.now += 0.1
    assert kept.get("a", costly) == 2


def test_answer_that_never_changes_is_made_once() -> None:
    costly = Costly()
    kept = ResponseCache(lambda: costly.now)
    kept.get("a", costly, changes=False)
    costly.now += 1_000_000
    assert kept.get("a", costly, changes=False) == 1


def test_answers_of_other_names_are_their_own() -> None:
    makes: list[Callable[[], str]] = [lambda: "a", lambda: "b"]
    kept = ResponseCache(lambda: 0.0)
    assert [kept.get(str(number), make) for number, make in enumerate(makes)] == ["a", "b"]
