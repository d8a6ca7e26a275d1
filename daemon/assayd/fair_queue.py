"""Taking turns: owners in turn, and the lanes of each owner in turn.

An owner is a user, a lane one of its batches, or what one of its programs sends singly. Whoever comes with
little is soon through, whatever others have waiting.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """What waits. `pop` serves the owner that was served longest ago, then its lane likewise."""

    def __init__(self) -> None:
        self._turns: OrderedDict[int, OrderedDict[str, OrderedDict[str, T]]] = OrderedDict()
        self._places: dict[str, tuple[int, str]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def put(self, owner: int, lane: str, key: str, item: T) -> None:
        """Put an item at the end of its lane. The key must be new."""
        self._turns.setdefault(owner, OrderedDict()).setdefault(lane, OrderedDict())[key] = item
        self._places[key] = owner, lane

    def pop(self) -> T:
        """Take the item whose turn it is. Raises: KeyError when there is none."""
        for lanes in self._turns.values():
            for items in lanes.values():
                return self.serve(next(iter(items)))
        raise KeyError("the queue is empty")

    def serve(self, key: str) -> T:
        """Take this item, as if it were its turn. Raises: KeyError when it does not wait."""
        owner, lane = self._places[key]
        item = self.remove(key)
        # Whoever has been served goes to the end, unless nothing of it waits any more.
        if owner in self._turns:
            self._turns.move_to_end(owner)
            if lane in self._turns[owner]:
                self._turns[owner].move_to_end(lane)
        return item

    def in_turn(self) -> list[T]:
        """Return everything in the order in which `pop` would; it goes on waiting."""
        copy: FairQueue[T] = FairQueue()
        copy._places = dict(self._places)
        copy._turns = OrderedDict(
            (owner, OrderedDict((lane, items.copy()) for lane, items in lanes.items()))
            for owner, lanes in self._turns.items()
        )
        return copy.clear()

    def remove(self, key: str) -> T:
        """Take an item out of its turn. Raises: KeyError when it does not wait."""
        owner, lane = self._places.pop(key)
        lanes = self._turns[owner]
        item = lanes[lane].pop(key)
        if not lanes[lane]:
            del lanes[lane]
        if not lanes:
            del self._turns[owner]
        return item

    def clear(self) -> list[T]:
        """Take everything."""
        return [self.pop() for _ in range(len(self))]


@dataclass(frozen=True, slots=True)
class _Waiter:
    key: str
    lane: tuple[int, str]
    turn: asyncio.Future[None]


class FairSlots:
    """So many places, which those who wait get in turn.

    Of four or more, the last is for an owner who has none; while one owner has all others, for a lane of it
    that has none.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._kept = min(1, count // 4)
        self._held: Counter[tuple[int, str]] = Counter()
        self._waiting: FairQueue[_Waiter] = FairQueue()

    @asynccontextmanager
    async def hold(self, owner: int, lane: str, key: str) -> AsyncIterator[None]:
        """Hold a place while the body runs. The key must not wait already."""
        waiter = _Waiter(key, (owner, lane), asyncio.get_running_loop().create_future())
        await self._take(waiter)
        try:
            yield
        finally:
            self._give_back(waiter)

    async def _take(self, waiter: _Waiter) -> None:
        self._waiting.put(*waiter.lane, waiter.key, waiter)
        self._hand_out()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self._give_back(waiter)  # the place came at the same moment
            elif waiter.key in self._waiting:
                self._waiting.remove(waiter.key)
            raise

    def _give_back(self, waiter: _Waiter) -> None:
        self._free += 1
        self._held[waiter.lane] -= 1
        if not self._held[waiter.lane]:
            del self._held[waiter.lane]
        self._hand_out()

    def _hand_out(self) -> None:
        for waiter in self._waiting.in_turn():
            if not self._free:
                break
            if waiter.turn.done():  # its owner was cancelled, and is just about to notice
                self._waiting.remove(waiter.key)
            elif self._free > (0 if self._is_new(waiter) else self._kept):
                self._waiting.serve(waiter.key)
                self._free -= 1
                self._held[waiter.lane] += 1
                waiter.turn.set_result(None)

    def _is_new(self, waiter: _Waiter) -> bool:
        owners = {owner for owner, _ in self._held}
        return waiter.lane[0] not in owners or (len(owners) == 1 and waiter.lane not in self._held)
