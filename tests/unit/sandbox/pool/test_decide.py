"""What the pool decides, state by state; nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from assayd.sandbox.pool.decide import (
    RESERVED,
    Action,
    Assign,
    Create,
    DropCredit,
    Idle,
    Lessee,
    PoolKey,
    PoolLimits,
    PoolState,
    Remove,
    decide,
    target,
    welcome,
)
from support.engines.pool_values import MIB, A, B, idle, key


def decided(
    *,
    waiting: tuple[PoolKey, ...] = (),
    flows: tuple[str, ...] = tuple("abcdefgh"),
    idles: tuple[Idle, ...] = (),
    starting: Mapping[PoolKey, int] | None = None,
    leased: tuple[str, ...] = (),
    removing: int = 0,
    stuck: int = 0,
    busy: int = 0,
    targets: Mapping[PoolKey, int] | None = None,
    limits: PoolLimits | None = None,
    blocked_until: float = 0.0,
    now: float = 1.0,
) -> list[Action]:
    state = PoolState(
        waiting=tuple(Lessee(key=key, flow=(1, flow)) for key, flow in zip(waiting, flows, strict=False)),
        idle=idles,
        starting=starting or {},
        leased=tuple(Lessee(key=A, flow=(1, flow)) for flow in leased),
        removing=removing,
        stuck=stuck,
        busy=busy,
        targets=targets if targets is not None else {A: 1},
        limits=limits or PoolLimits(),
        blocked_until=blocked_until,
    )
    return decide(state, now)


def test_a_full_and_quiet_pool_needs_nothing():
    assert decided(idles=(idle("one"),)) == []


def test_a_pool_is_refilled_to_its_target_one_at_a_time():
    assert decided(idles=(idle("a"), idle("b")), targets={A: 4}) == [Create(key=A, ahead=True)]
    assert decided(idles=(idle("a"), idle("b")), starting={A: 1}, targets={A: 4}) == []


def test_a_pool_that_runs_low_is_refilled_two_at_a_time():
    assert decided(targets={A: 3}) == [Create(key=A, ahead=True)] * 2


def test_a_waiter_gets_the_oldest_idle_container_of_its_key():
    actions = decided(waiting=(A,), idles=(idle("b", B), idle("old"), idle("new")), targets={A: 2, B: 1})
    assert actions == [Assign(waiter=0, ulid="old"), Create(key=A, ahead=True)]


def test_a_waiter_without_an_idle_container_gets_a_cold_start():
    assert decided(waiting=(A,), targets={}) == [Create(key=A)]


def test_a_container_that_is_already_starting_serves_the_waiter():
    assert decided(waiting=(A,), starting={A: 1}, targets={}) == []


def test_waiters_are_served_in_order_when_containers_are_short():
    assert decided(waiting=(B, A, A), idles=(idle("one"),), targets={A: 1}) == [
        Assign(waiter=1, ulid="one", earns_credit=True),
        Create(key=B),
        Create(key=A),
    ]


MUCH = ("batch", "batch")


def test_who_sends_much_leaves_the_last_containers_of_a_key():
    three = (idle("old"), idle("mid"), idle("new"))
    assert decided(waiting=(A, A), flows=MUCH, idles=three, targets={A: 4}) == [
        Assign(waiter=0, ulid="old"),
        Create(key=A),
    ]
    assert decided(waiting=(A,), flows=("batch",), leased=("batch",), idles=(idle("last"),)) == [
        Create(key=A)
    ]


def test_a_newcomer_gets_the_last_container_past_those_who_send_much():
    assert decided(waiting=(A, A, A), flows=(*MUCH, "single"), idles=(idle("last"),), starting={A: 2}) == [
        Assign(waiter=2, ulid="last", earns_credit=True)
    ]


def test_the_last_container_is_handed_out_when_no_other_can_be_made():
    full = PoolLimits(max_containers=2)
    one = {"waiting": (A,), "flows": ("batch",), "leased": ("batch",), "idles": (idle("last"),)}
    assert decided(**one, limits=full) == [Assign(waiter=0, ulid="last")]
    assert decided(**one, blocked_until=2.0, now=1.0) == [Assign(waiter=0, ulid="last")]


def test_nothing_is_kept_back_of_a_key_that_need_not_stand_ready():
    actions = decided(waiting=(A,), flows=("batch",), leased=("batch",), idles=(idle("only"),), targets={})
    assert actions == [Assign(waiter=0, ulid="only")]


BATCH, SINGLE = Lessee(key=A, flow=(1, "batch")), Lessee(key=A, flow=(1, "single"))
DEBT = replace(SINGLE, is_credit=True)


def fresh(*waiting: Lessee, idles: tuple[str, ...] = ("new",), leased: tuple[Lessee, ...] = ()) -> object:
    idle_ones = tuple(idle(name) for name in idles)
    return welcome(PoolState(waiting=waiting, idle=idle_ones, leased=leased, targets={A: 4}), A)


def test_a_fresh_container_serves_who_is_first_in_turn_with_the_oldest():
    assert fresh(BATCH, BATCH, SINGLE, idles=("old", "new")) == Assign(waiter=0, ulid="old")
    assert fresh() is None


def test_a_container_made_in_the_turn_of_a_debt_is_kept_ready():
    assert fresh(DEBT, BATCH) == DropCredit(waiter=0)
    assert fresh(BATCH, DEBT, leased=(BATCH,)) == Assign(waiter=0, ulid="new")
    assert fresh(DEBT, SINGLE, SINGLE, BATCH) == DropCredit(waiter=0)


def test_lanes_of_the_same_name_are_not_the_same_user():
    other = Lessee(key=A, flow=(2, "batch"))
    state = PoolState(waiting=(BATCH, other), leased=(BATCH,), idle=(idle("last"),), targets={A: 4})
    assert decide(state, 1.0)[0] == Assign(waiter=1, ulid="last", earns_credit=True)


def test_what_is_left_to_newcomers_stays_while_there_is_room_for_the_next_starts():
    many = (BATCH,) * 20
    state = PoolState(waiting=many, leased=many[:10], idle=(idle("a"), idle("b", B)), targets={A: 4, B: 1})
    assert decide(state, 1.0) == [Create(key=A)] * state.limits.start_concurrency


def test_a_newcomer_that_is_served_beside_a_crowd_owes_what_is_to_be_ready_for_the_next():
    assert fresh(SINGLE, BATCH) == Assign(waiter=0, ulid="new", earns_credit=True)
    assert fresh(SINGLE) == Assign(waiter=0, ulid="new")
    assert fresh(SINGLE, BATCH, idles=("a", "b", "new")) == Assign(waiter=0, ulid="a")
    assert fresh(SINGLE, SINGLE, BATCH) == Assign(waiter=0, ulid="new")


def test_who_owes_all_that_is_left_to_newcomers_is_none_until_it_is_made_good():
    state = PoolState(
        waiting=(BATCH, *(DEBT,) * RESERVED, SINGLE), idle=(idle("last"),), targets={A: 4}, leased=(BATCH,)
    )
    assert not [action for action in decide(state, 1.0) if isinstance(action, Assign)]
    state = replace(state, waiting=(BATCH, DEBT, SINGLE))
    assert decide(state, 1.0)[0] == Assign(waiter=2, ulid="last", earns_credit=True)


def test_a_debt_is_made_good_but_makes_nobody_go_for_it():
    state = PoolState(waiting=(DEBT,), idle=(idle("b", B),), targets={A: 4, B: 1}, busy=1)
    assert decide(state, 1.0) == [Create(key=A, ahead=True)]
    assert decide(replace(state, limits=PoolLimits(max_containers=1)), 1.0) == [DropCredit(waiter=0)]


def test_a_debt_is_forgotten_where_no_more_may_be_idle():
    state = PoolState(waiting=(BATCH, DEBT), targets={A: 4}, limits=PoolLimits(idle_memory_bytes=0))
    assert decide(state, 1.0) == [DropCredit(waiter=1), Create(key=A)]


def test_what_is_owed_is_made_after_what_is_waited_for():
    state = PoolState(
        waiting=(DEBT, Lessee(key=B, flow=(1, "x"))), targets={A: 4}, limits=PoolLimits(max_containers=1)
    )
    assert decide(state, 1.0) == [Create(key=B)]


def test_a_debt_is_forgotten_when_as_many_are_ready_as_are_left_to_newcomers():
    state = PoolState(waiting=(DEBT,), idle=(idle("a"), idle("b")), targets={A: 2})
    assert decide(state, 1.0) == [DropCredit(waiter=0)]
    assert decide(replace(state, idle=(), targets={}), 1.0) == [DropCredit(waiter=0)]


def test_refill_waits_while_somebody_waits():
    actions = decided(waiting=(B,), starting={B: 1}, targets={A: 5})
    assert actions == []


def test_refill_goes_on_beside_one_removal_and_waits_for_more():
    full_enough = (idle("a"), idle("b"))
    assert decided(idles=full_enough, removing=1, targets={A: 3}) == [Create(key=A, ahead=True)]
    assert decided(idles=full_enough, removing=2, targets={A: 3}) == []


def test_a_container_that_would_not_go_does_not_stop_the_refill():
    assert decided(stuck=1, targets={A: 1}) == [Create(key=A, ahead=True)]


def test_a_container_that_would_not_go_keeps_its_place():
    assert decided(waiting=(A,), stuck=3, targets={}, limits=PoolLimits(max_containers=3)) == []


def test_refill_yields_to_attempts_under_way():
    assert decided(idles=(idle("a"),), busy=1, targets={A: 2}) == []


def test_refill_goes_on_beside_attempts_when_the_pool_runs_low():
    assert decided(busy=1, targets={A: 2})[0] == Create(key=A, ahead=True)


def test_cold_starts_are_bounded():
    limits = PoolLimits(start_concurrency=2)
    actions = decided(waiting=(A,) * 5, targets={}, limits=limits)
    assert actions == [Create(key=A)] * 2


def test_a_full_house_creates_nothing_even_for_waiters():
    assert (
        decided(waiting=(A,), leased=("x", "y", "z"), targets={}, limits=PoolLimits(max_containers=3)) == []
    )


def test_idle_containers_of_other_keys_make_room_for_a_waiter():
    limits = PoolLimits(max_containers=2)
    actions = decided(waiting=(B,), idles=(idle("a1"), idle("a2")), targets={A: 2}, limits=limits)
    assert actions == [Remove(ulid="a1", reason="room")]


def test_room_that_is_being_made_already_is_not_made_twice():
    limits = PoolLimits(max_containers=2)
    actions = decided(waiting=(B,), idles=(idle("a1"),), removing=1, targets={A: 2}, limits=limits)
    assert actions == []


def test_a_dead_container_is_removed_and_never_handed_out():
    actions = decided(waiting=(A,), idles=(idle("dead", alive=False),), targets={})
    assert actions[0] == Remove(ulid="dead", reason="died")
    assert not any(isinstance(action, Assign) for action in actions)


def test_a_container_over_its_age_is_replaced():
    actions = decided(idles=(idle("old"),), limits=PoolLimits(max_idle_s=10), now=11)
    assert actions == [Remove(ulid="old", reason="age"), Create(key=A, ahead=True)]


def test_what_exceeds_a_lowered_target_goes_oldest_first():
    actions = decided(idles=(idle("a"), idle("b"), idle("c")), targets={A: 1})
    assert actions == [Remove(ulid="b", reason="surplus"), Remove(ulid="a", reason="surplus")]


def test_idle_memory_stays_under_its_ceiling():
    limits = PoolLimits(idle_memory_bytes=15 * MIB)
    actions = decided(idles=(idle("a"), idle("b")), targets={A: 2}, limits=limits)
    assert actions == [Remove(ulid="a", reason="memory")]


def test_refill_stops_at_the_memory_ceiling():
    limits = PoolLimits(idle_memory_bytes=15 * MIB)
    assert decided(idles=(idle("a"),), targets={A: 2}, limits=limits) == []


def test_nothing_is_created_while_the_engine_is_left_alone():
    assert decided(waiting=(A,), targets={A: 2}, blocked_until=5.0, now=4.9) == []


def test_the_emptiest_key_is_refilled_first():
    actions = decided(idles=(idle("a"),), targets={A: 2, B: 2})
    assert actions[0] == Create(key=B, ahead=True)


def test_keys_differ_by_everything_that_is_fixed_at_creation():
    assert key(memory_mb=100) != key(memory_mb=128)
    assert key(memory_mb=100).digest != key(memory_mb=128).digest
    assert key().digest == key().digest


@pytest.mark.parametrize(
    ("rate_per_s", "expected"),
    [(0.0, 2), (1.0, 4), (3.5, 7), (1000.0, 16)],
)
def test_targets_follow_the_rate_up_to_a_ceiling(rate_per_s: float, expected: int):
    assert target(2, rate_per_s=rate_per_s, refill_s=0.3, most=16) == expected


def test_without_a_base_and_without_demand_nothing_is_kept():
    assert target(0, rate_per_s=0.0, refill_s=0.3, most=16) == 0
