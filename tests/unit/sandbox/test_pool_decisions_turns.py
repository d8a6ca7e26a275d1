"""Everyone who waits for a container is served eventually, whatever the limits and the other callers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.fair_queue import FairQueue
from assayd.sandbox.pool_decisions import (
    Action,
    AssignContainer,
    CreateContainer,
    LeaseHolder,
    PoolKey,
    PoolLimits,
    PoolState,
    RemoveContainer,
    decide_actions,
)
from support.engines.pool_values import MIB, A, B, idle


class House:
    """Carries out decisions immediately; when there is nothing else to do, a start or a lease ends."""

    def __init__(self, targets: Mapping[PoolKey, int], limits: PoolLimits) -> None:
        self.queue: FairQueue[tuple[str, LeaseHolder]] = FairQueue()
        self.state = PoolState(targets=targets, limits=limits)
        self.names = (f"n{number}" for number in count())
        self.served: list[LeaseHolder] = []

    def ask(self, lease_holder: LeaseHolder) -> None:
        name = next(self.names)
        self.queue.put(*lease_holder.flow, name, (name, lease_holder))

    def act(self) -> None:
        for _ in range(100):
            waiting = self._look()
            actions = decide_actions(self.state, 0.0)
            if not actions:
                return
            for action in actions:
                self._do(action, waiting)
            self._look()
            assert self.state.containers <= self.state.limits.max_containers
        pytest.fail("it does not come to rest")

    def go_on(self) -> bool:
        if self.state.creating:
            starting, refilling = Counter(self.state.starting), Counter(self.state.refilling)
            under_way = starting or refilling
            key = next(iter(under_way))
            under_way[key] -= 1
            ready = (*self.state.idle, idle(next(self.names), key, ahead=under_way is refilling))
            self.state = replace(self.state, starting=+starting, refilling=+refilling, idle=ready)
        elif self.state.leased:
            self.state = replace(self.state, leased=self.state.leased[1:])
        else:
            return False
        return True

    def _look(self) -> list[tuple[str, LeaseHolder]]:
        waiting = self.queue.list_in_order()
        self.state = replace(self.state, waiting=tuple(lease_holder for _, lease_holder in waiting))
        return waiting

    def _do(self, action: Action, waiting: list[tuple[str, LeaseHolder]]) -> None:
        match action:
            case AssignContainer(waiter=place, ulid=ulid):
                name, lease_holder = waiting[place]
                self.queue.pop_item(name)
                self.served.append(lease_holder)
                self._drop(ulid)
                self.state = replace(self.state, leased=(*self.state.leased, lease_holder))
            case RemoveContainer(ulid=ulid):
                self._drop(ulid)
            case CreateContainer(key=key, ahead=True):
                refilling = Counter(self.state.refilling) + Counter([key])
                self.state = replace(self.state, refilling=refilling, since_refill=0)
            case CreateContainer(key=key):
                starting, since = Counter(self.state.starting) + Counter([key]), self.state.since_refill
                self.state = replace(self.state, starting=starting, since_refill=since + 1)

    def _drop(self, ulid: str) -> None:
        left = tuple(one for one in self.state.idle if one.ulid != ulid)
        assert len(left) == len(self.state.idle) - 1
        self.state = replace(self.state, idle=left)


LESSEES = st.builds(
    LeaseHolder, key=st.sampled_from([A, B]), flow=st.sampled_from([(1, "a"), (1, "b"), (2, "a")])
)


@given(
    asked=st.lists(LESSEES, min_size=1, max_size=20),
    target_each=st.sampled_from([0, 1, 4]),
    limits=st.builds(
        PoolLimits,
        max_containers=st.sampled_from([1, 2, 3, 8, 32]),
        start_concurrency=st.sampled_from([1, 4]),
        idle_memory_bytes=st.sampled_from([0, 10 * MIB, 30 * MIB, 1024 * MIB]),
    ),
    pauses=st.lists(st.integers(0, 4), min_size=20, max_size=20),
)
def test_everybody_is_served_in_the_end(
    asked: list[LeaseHolder], target_each: int, limits: PoolLimits, pauses: list[int]
):
    house = House({A: target_each, B: target_each}, limits)
    for lease_holder, pause in zip(asked, pauses, strict=False):
        house.ask(lease_holder)
        house.act()
        for _ in range(pause):
            house.go_on()
            house.act()
    for _ in range(500):
        if not house.go_on():
            break
        house.act()
    assert Counter(house.served) == Counter(asked)
