"""How many requests of one user are worked on while others ask too."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

from assayd.api import few_at_once
from assayd.api.few_at_once import AT_ONCE, FewAtOnce
from assayd.api.peer import Caller
from assayd.model.submission import Peer


class Slow:
    """Works on each request until it is let go."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.append(scope["state"]["caller"].peer.uid)
        await self.go_on.wait()


def ask(
    app: FewAtOnce, user: int, tasks: asyncio.TaskGroup, times: int = 1, *, has_left: bool = False
) -> list[asyncio.Task[None]]:
    async def nothing(*_: object) -> None:
        raise AssertionError("nothing is read or sent")

    caller = Caller(peer=Peer(uid=user, gid=user, pid=1), groups=frozenset())
    scope = {"type": "http", "state": {"caller": caller, "has_left": lambda: has_left}}
    return [tasks.create_task(app(scope, nothing, nothing)) for _ in range(times)]


async def test_user_who_is_alone_has_no_limit() -> None:
    slow = Slow()
    async with asyncio.TaskGroup() as tasks:
        ask(FewAtOnce(slow), 1, tasks, 10 * AT_ONCE)
        await asyncio.sleep(0)
        assert len(slow.begun) == 10 * AT_ONCE
        slow.go_on.set()


async def test_user_beside_another_has_a_few_requests_worked_on_and_all_in_the_end() -> None:
    slow = Slow()
    app = FewAtOnce(slow)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 2, tasks)
        await asyncio.sleep(0)
        ask(app, 1, tasks, 10 * AT_ONCE)
        await asyncio.sleep(0)
        assert slow.begun == [2, *[1] * AT_ONCE]
        ask(app, 2, tasks)
        await asyncio.sleep(0)
        assert slow.begun[-1] == 2
        slow.go_on.set()
    assert slow.begun.count(1) == 10 * AT_ONCE


async def test_request_that_waits_for_long_makes_room_for_others(monkeypatch) -> None:
    monkeypatch.setattr(few_at_once, "COUNTED_S", 0.0)
    slow = Slow()
    app = FewAtOnce(slow)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 2, tasks)
        ask(app, 1, tasks, 3 * AT_ONCE)
        async with asyncio.timeout(10):
            while slow.begun.count(1) < 3 * AT_ONCE:
                await asyncio.sleep(0)
        slow.go_on.set()


async def test_request_that_is_cancelled_while_it_waits_leaves_its_turn_to_the_next() -> None:
    slow = Slow()
    app = FewAtOnce(slow)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 2, tasks)
        await asyncio.sleep(0)
        asked = ask(app, 1, tasks, AT_ONCE + 2)
        await asyncio.sleep(0)
        asked[AT_ONCE].cancel()
        slow.go_on.set()
    assert slow.begun.count(1) == AT_ONCE + 1


async def test_request_whose_client_has_left_is_not_begun_and_leaves_its_turn_to_the_next() -> None:
    slow = Slow()
    slow.go_on.set()
    app = FewAtOnce(slow)
    async with asyncio.TaskGroup() as tasks:
        ask(app, 2, tasks)
        ask(app, 1, tasks, 3 * AT_ONCE, has_left=True)
        ask(app, 1, tasks)
    assert slow.begun == [2, 1]
