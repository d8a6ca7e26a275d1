"""When a user's requests start while others send some too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, MutableMapping
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from assayd.api.events import EventStream
from assayd.api.middleware import NODES_SHARE, ThrottledStream, ThrottlingMiddleware
from assayd.api.peer import NOBODY, Caller
from assayd.documents.attempts import EventDocument
from assayd.fair_queue import UserThrottle
from assayd.model.submission import Peer


class Work:
    """Work of two steps that starts, waits for a release, and ends; each step takes a given time."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.go_on = asyncio.Event()
        self.now = 0.0
        self.step_s = step_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = scope["state"]["caller"].peer.uid
        self.begun.append(user)
        self.now += self.step_s
        await self.go_on.wait()
        self.now += self.step_s
        self.ended.append(user)

    def clock(self) -> float:
        return self.now


def paced(work: Work, monkeypatch: pytest.MonkeyPatch) -> tuple[ThrottlingMiddleware, UserThrottle]:
    monkeypatch.setattr("assayd.api.middleware.perf_counter", work.clock)
    pace = UserThrottle(clock=work.clock)
    return ThrottlingMiddleware(work, pace, UserThrottle(NODES_SHARE, clock=work.clock)), pace


def ask(
    app: ThrottlingMiddleware,
    user: int,
    tasks: asyncio.TaskGroup,
    times: int = 1,
    *,
    has_left: bool = False,
    is_node: bool = False,
    token: str | None = None,
) -> list[asyncio.Task[None]]:
    async def nothing(*_: object) -> None:
        raise AssertionError("nothing is read or sent")

    caller = Caller(peer=Peer(uid=user, gid=user, pid=1), groups=frozenset(), is_node=is_node, token=token)
    scope = {"type": "http", "state": {"caller": caller, "has_left": lambda: has_left}}
    return [tasks.create_task(app(scope, nothing, nothing)) for _ in range(times)]


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0)


async def test_user_who_is_alone_has_all_requests_started(monkeypatch) -> None:
    work = Work(step_s=0.1)
    app, _ = paced(work, monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 1, tasks, 20)
        await asyncio.sleep(0)
        assert len(work.begun) == 20
        work.go_on.set()


async def test_each_step_of_a_request_counts_and_waiting_does_not(monkeypatch) -> None:
    work = Work(step_s=0.1)
    app, pace = paced(work, monkeypatch)
    used: list[float] = []
    monkeypatch.setattr(pace, "record_use", lambda user, seconds: used.append(round(seconds, 3)))
    async with asyncio.TaskGroup() as tasks:
        ask(app, 1, tasks)
        await asyncio.sleep(0)
        work.now += 7
        work.go_on.set()
    assert used == [0.1, 0.1]


async def test_user_who_rests_waits_while_another_is_served_and_goes_on_later(monkeypatch) -> None:
    work = Work()
    work.go_on.set()
    app, pace = paced(work, monkeypatch)
    pace.note(2)
    pace.note(1)
    pace.record_use(1, 0.01)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 1, tasks, 3)
        ask(app, 2, tasks)
        await until(lambda: bool(work.ended))
        assert work.ended == [2]
        work.now += 0.1
    assert work.ended == [2, 1, 1, 1]


async def test_request_that_was_let_in_has_its_first_step_before_the_next(monkeypatch) -> None:
    work = Work()
    work.go_on.set()
    app, pace = paced(work, monkeypatch)
    pace.note(2)
    pace.note(1)
    pace.record_use(1, 0.01)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 1, tasks, 2)
        await asyncio.sleep(0)
        work.now, work.step_s = 0.1, 0.05
        await until(lambda: len(work.begun) == 1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(work.begun) == 1
        work.now += 10


async def test_request_that_is_cancelled_while_it_waits_leaves_its_turn_to_the_next(monkeypatch) -> None:
    work = Work()
    work.go_on.set()
    app, pace = paced(work, monkeypatch)
    pace.note(2)
    pace.note(1)
    pace.record_use(1, 0.01)
    async with asyncio.TaskGroup() as tasks:
        asked = ask(app, 1, tasks, 2)
        await asyncio.sleep(0)
        asked[0].cancel()
        await asyncio.sleep(0)
        work.now += 0.1
    assert work.ended == [1]
    assert asked[0].cancelled()


async def test_cancellation_reaches_the_request(monkeypatch) -> None:
    work = Work()
    app, _ = paced(work, monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        (asked,) = ask(app, 1, tasks)
        await asyncio.sleep(0)
        asked.cancel()
    assert asked.cancelled()
    assert (work.begun, work.ended) == ([1], [])


async def test_request_whose_client_has_left_is_not_begun(monkeypatch) -> None:
    work = Work()
    work.go_on.set()
    app, _ = paced(work, monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 1, tasks, 3, has_left=True)
        ask(app, 1, tasks)
    assert work.begun == [1]


async def test_node_that_uses_more_than_its_share_waits_while_others_are_served(monkeypatch) -> None:
    work = Work(step_s=0.1)
    work.go_on.set()
    app, _ = paced(work, monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 2, tasks)
        ask(app, 7, tasks, is_node=True, token="captured")
        await until(lambda: len(work.ended) == 2)
        ask(app, 7, tasks, is_node=True, token="captured")
        ask(app, 7, tasks, is_node=True, token="honest")
        ask(app, 2, tasks)
        await until(lambda: len(work.ended) == 4)
        assert work.ended == [2, 7, 7, 2]
        work.now += 1
    assert work.ended == [2, 7, 7, 2, 7]


async def test_user_is_alone_among_nodes_and_a_node_is_not_alone_beside_a_user(monkeypatch) -> None:
    work = Work(step_s=0.1)
    work.go_on.set()
    app, _ = paced(work, monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 7, tasks, is_node=True, token="node")
        await until(lambda: len(work.ended) == 1)
        ask(app, 1, tasks, 5)
        await until(lambda: work.ended == [7, 1, 1, 1, 1, 1])


async def test_caller_without_a_token_does_not_end_the_being_alone_of_a_user(monkeypatch) -> None:
    work = Work(step_s=0.1)
    work.go_on.set()
    app, pace = paced(work, monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        ask(app, NOBODY, tasks)
    assert pace.is_only_user(1)


async def stream(app: ThrottlingMiddleware, user: int, sent: list[object]) -> None:
    """Send an answer in pieces, like the server, to a client that reads to the end."""

    async def receive() -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body"))

    caller = Caller(peer=Peer(uid=user, gid=user, pid=1), groups=frozenset())
    scope = {"type": "http", "asgi": {"spec_version": "2.3"}, "state": {"caller": caller}}
    await app(scope, receive, send)


def pieces_of(now: list[float], kind: str, step_s: float = 0.01) -> ThrottledStream | EventStream:
    """Return an answer of three pieces, each of which takes a given time of the clock."""

    async def pieces() -> AsyncGenerator[Any, None]:
        for number in range(3):
            now[0] += step_s
            yield b"piece" if kind == "stream" else EventDocument.model_construct(id=number, kind="state")

    return ThrottledStream(pieces()) if kind == "stream" else EventStream(pieces(), heartbeat_s=60)


def pieces_in(sent: list[object]) -> list[object]:
    """Return the sent pieces without start, end and heartbeats."""
    return [piece for piece in sent if piece not in {None, b"", b": still here\n\n"}]


@pytest.mark.parametrize("kind", ["stream", "events"])
async def test_pieces_of_a_stream_count_and_each_waits_while_its_user_rests(monkeypatch, kind: str) -> None:
    """Regression: separate tasks sent the pieces, and nobody counted their time."""
    now, sent = [0.0], list[object]()
    monkeypatch.setattr("assayd.api.middleware.perf_counter", lambda: now[0])
    pace = UserThrottle(clock=lambda: now[0])

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await pieces_of(now, kind)(scope, receive, send)

    app = ThrottlingMiddleware(answer, pace)
    pace.note(2)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stream(app, 1, sent))
        await until(lambda: pace.get_throttle_delay_s(1) > 0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert pace.get_throttle_delay_s(1) == pytest.approx(0.04)
        assert len(pieces_in(sent)) == 1
        now[0] += 2.0  # the other user has gone
    assert len(pieces_in(sent)) == 3
