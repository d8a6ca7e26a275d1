"""Taking turns: owners in turn, and the lanes of each owner in turn.

An owner is a user, a lane one of its batches, or what it sends singly. Whoever comes with little is soon
through, whatever others have waiting.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

LANES_REMEMBERED = 256


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
        owner, lanes = next(iter(self._turns.items()), (None, None))
        if owner is None or lanes is None:
            raise KeyError("the queue is empty")
        lane, items = next(iter(lanes.items()))
        item = self.remove(next(iter(items)))
        # Whoever has been served goes to the end, unless nothing of it waits any more.
        if lane in lanes:
            lanes.move_to_end(lane)
        if owner in self._turns:
            self._turns.move_to_end(owner)
        return item

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


@dataclass(slots=True)
class Turns:
    """In which order lanes were served last; remembers a bounded number of them."""

    _served: OrderedDict[Hashable, None] = field(default_factory=OrderedDict)

    def serve(self, lane: Hashable) -> None:
        """Note that a lane was served now."""
        self._served[lane] = None
        self._served.move_to_end(lane)
        if len(self._served) > LANES_REMEMBERED:
            self._served.popitem(last=False)

    def order(self, waiting: Iterable[T], lane_of: Callable[[T], Hashable]) -> list[T]:
        """Put those who wait, oldest first, into their turn.

        The first of each lane comes before the second of any; among them the lane served longest ago.
        """
        last = {lane: place for place, lane in enumerate(self._served)}
        ahead: Counter[Hashable] = Counter()
        turns = []
        for one in waiting:
            lane = lane_of(one)
            turns.append((ahead[lane], last.get(lane, -1), one))
            ahead[lane] += 1
        return [one for _, _, one in sorted(turns, key=lambda turn: turn[:2])]


class FairSlots:
    """So many places, which those who wait get in turn."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    @asynccontextmanager
    async def hold(self, owner: int, lane: str, key: str) -> AsyncIterator[None]:
        """Hold a place while the body runs. The key must not wait already."""
        await self._take(owner, lane, key)
        try:
            yield
        finally:
            self._give()

    async def _take(self, owner: int, lane: str, key: str) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, lane, key, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give()  # the place came at the same moment
            elif key in self._waiting:
                self._waiting.remove(key)
            raise

    def _give(self) -> None:
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():  # else its owner was cancelled, and is just about to notice
                turn.set_result(None)
                return
        self._free += 1
