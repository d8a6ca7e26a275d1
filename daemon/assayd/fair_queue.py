"""Fairness between users: queues in which they take turns, and a share of the event loop for each.

Queueing is hierarchical round-robin: users take turns, and so do each user's flows. A flow contains the
items of one of a user's batches, or the single submissions of one of the user's programs. A user with few
submissions is served soon, regardless of how many submissions of other users are waiting.

`UserThrottle` limits each user's share of the event loop's time while other users make requests. Otherwise,
a user with a hundred clients could keep the event loop busy all the time and delay every step of other
users' attempts. After using the event loop, a user must wait in proportion to the time used.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Container, Hashable, Iterator, KeysView
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue in which users take turns, as do the flows of each user."""

    def __init__(self) -> None:
        self._users: OrderedDict[int, OrderedDict[str, OrderedDict[str, T]]] = OrderedDict()
        self._flows: dict[str, tuple[int, str]] = {}

    def __len__(self) -> int:
        return len(self._flows)

    def __contains__(self, key: str) -> bool:
        return key in self._flows

    def put(self, user: int, flow: str, key: str, item: T) -> None:
        """Add an item at the end of its flow. The item's key must not already be in the queue."""
        self._users.setdefault(user, OrderedDict()).setdefault(flow, OrderedDict())[key] = item
        self._flows[key] = user, flow

    def pop(self) -> T:
        """Remove and return the next item. Raises: KeyError, if the queue is empty."""
        for flows in self._users.values():
            for items in flows.values():
                return self.pop_item(next(iter(items)))
        raise KeyError("the queue is empty")

    def pop_other_user(self, users: Container[int]) -> T | None:
        """Remove and return the next item of a user who isn't in `users`, or None if there is none."""
        for user, flows in self._users.items():
            if user not in users:
                return self.pop_item(next(iter(next(iter(flows.values())))))
        return None

    def waiting_users(self) -> KeysView[int]:
        """Return the users with waiting items, in the order of their turns."""
        return self._users.keys()

    def pop_item(self, key: str) -> T:
        """Remove and return this item as if its turn had come. Raises: KeyError, if it isn't waiting."""
        user, flow = self._flows[key]
        item = self.remove(key)
        # A served flow moves to the end, unless it has no more waiters.
        if user in self._users:
            self._users.move_to_end(user)
            if flow in self._users[user]:
                self._users[user].move_to_end(flow)
        return item

    def list_in_order(self) -> list[T]:
        """Return all items in the order of `pop`, without removing them."""
        if not self._flows:
            return []
        copy: FairQueue[T] = FairQueue()
        copy._flows = dict(self._flows)
        copy._users = OrderedDict(
            (user, OrderedDict((flow, items.copy()) for flow, items in flows.items()))
            for user, flows in self._users.items()
        )
        return copy.clear()

    def items(self) -> Iterator[T]:
        """Return all waiting items in arbitrary order, without removing them."""
        flows = (items for user in self._users.values() for items in user.values())
        return (item for items in flows for item in items.values())

    def remove(self, key: str) -> T:
        """Remove and return an item before its turn. Raises: KeyError, if it isn't in the queue."""
        user, flow = self._flows.pop(key)
        flows = self._users[user]
        item = flows[flow].pop(key)
        if not flows[flow]:
            del flows[flow]
        if not flows:
            del self._users[user]
        return item

    def clear(self) -> list[T]:
        """Remove and return all items, in the order of `pop`."""
        return [self.pop() for _ in range(len(self))]


@dataclass(frozen=True, slots=True)
class _Waiter:
    key: str
    flow: tuple[int, str]
    turn: asyncio.Future[None]


class FairSemaphore:
    """A semaphore whose slots are given to waiting flows in turn.

    If there are at least four slots (or `reserve_from`), the last slot is reserved for users without a
    slot. A flow of a user who already holds a slot can't get it, because a user could otherwise start a
    process, and thus a flow, to get it.
    """

    def __init__(self, count: int, *, reserve_from: int = 4) -> None:
        self._free = count
        self._reserved = 1 if count >= reserve_from else 0
        self._held: Counter[tuple[int, str]] = Counter()
        self._waiting: FairQueue[_Waiter] = FairQueue()

    @property
    def is_contended(self) -> bool:
        """Return whether a caller might have to wait for a slot."""
        return self._free <= self._reserved or bool(self._waiting)

    @asynccontextmanager
    async def hold(self, user: int, flow: str, key: str) -> AsyncIterator[None]:
        """Hold a slot while the body runs. The key must not already be waiting."""
        waiter = _Waiter(key, (user, flow), asyncio.get_running_loop().create_future())
        await self._acquire(waiter)
        try:
            yield
        finally:
            self._release(waiter)

    async def _acquire(self, waiter: _Waiter) -> None:
        self._waiting.put(*waiter.flow, waiter.key, waiter)
        self._assign_slots()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self._release(waiter)  # the slot was assigned at the same moment
            elif waiter.key in self._waiting:
                self._waiting.remove(waiter.key)
            raise

    def _release(self, waiter: _Waiter) -> None:
        self._free += 1
        self._held[waiter.flow] -= 1
        if not self._held[waiter.flow]:
            del self._held[waiter.flow]
        self._assign_slots()

    def _assign_slots(self) -> None:
        while self._free:
            is_reserved = self._free <= self._reserved
            waiter = self._waiting.pop_other_user({user for user, _ in self._held} if is_reserved else ())
            if waiter is None:
                break
            if waiter.turn.done():  # its task was cancelled, which it notices soon
                continue
            self._free -= 1
            self._held[waiter.flow] += 1
            waiter.turn.set_result(None)


ALONE_S = 1.0
"""A user is the only user if no other user has made a request for this many seconds, and isn't throttled
then.
"""
SHARE = 0.2
"""The share of the time for each user while others are active: enough for 70 submissions per second."""
MAX_THROTTLE_S = 1.0
"""The longest wait in seconds, regardless of the time used."""
LOOK_S = 0.1
"""The seconds after which a throttled user is checked again, because other users may have become inactive."""
MAX_TRACKED_USERS = 64


class UserThrottle:
    """A throttle that records the last request and the end of the wait of the last `MAX_TRACKED_USERS` users.

    Args:
        share: the share of the time that a user can use while other users make requests.
        clock: returns the time in seconds.
    """

    def __init__(self, share: float = SHARE, clock: Callable[[], float] = perf_counter) -> None:
        self._throttle_ratio = 1 / share - 1
        self._seen: dict[Hashable, float] = {}
        self._throttled_until: dict[Hashable, float] = {}
        self._clock = clock

    def note(self, user: Hashable) -> None:
        """Record a user's request, so that other users are throttled."""
        self._seen.pop(user, None)
        if len(self._seen) >= MAX_TRACKED_USERS:
            del self._seen[next(iter(self._seen))]
        self._seen[user] = self._clock()

    def is_only_user(self, user: Hashable) -> bool:
        """Return whether no other user has made a request for `ALONE_S`."""
        now = self._clock()
        return all(each == user or now - at > ALONE_S for each, at in self._seen.items())

    def record_use(self, user: Hashable, seconds: float) -> None:
        """Record the seconds that a user has used. The user must then wait if other users are active."""
        if self.is_only_user(user):
            return
        now = self._clock()
        rests_until = max(self._throttled_until.pop(user, 0), now) + seconds * self._throttle_ratio
        if len(self._throttled_until) >= MAX_TRACKED_USERS:
            del self._throttled_until[next(iter(self._throttled_until))]
        self._throttled_until[user] = min(rests_until, now + MAX_THROTTLE_S)

    def get_throttle_delay_s(self, user: Hashable) -> float:
        """Return the seconds until a throttled user is checked again, or 0 if the user needn't wait."""
        left_s = self._throttled_until.get(user, 0) - self._clock()
        return 0 if left_s <= 0 or self.is_only_user(user) else min(left_s, LOOK_S)
