"""The pool's decisions, state by state, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from assayd.sandbox import pool_decisions as decisions
from assayd.sandbox.pool_decisions import (
    RATE_EXPIRY_S,
    RESERVED_COUNT,
    UNUSED_AFTER_S,
    Action,
    AssignContainer,
    CreateContainer,
    IdleContainer,
    LeaseHolder,
    PoolDemand,
    PoolKey,
    PoolLimits,
    PoolState,
    RemoveContainer,
    compute_idle_target,
    decide_actions,
    find_idle_spare,
)
from support.engines.pool_values import MIB, A, B, idle, key

LESSEE = LeaseHolder(key=A, flow=(1, "a"))


def decided(
    *,
    waiting: tuple[PoolKey, ...] = (),
    flows: tuple[str, ...] = tuple("abcdefgh"),
    idles: tuple[IdleContainer, ...] = (),
    starting: Mapping[PoolKey, int] | None = None,
    refilling: Mapping[PoolKey, int] | None = None,
    since_refill: int = 3,
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
        waiting=tuple(
            LeaseHolder(key=key, flow=(1, flow)) for key, flow in zip(waiting, flows, strict=False)
        ),
        idle=idles,
        starting=starting or {},
        refilling=refilling or {},
        since_refill=since_refill,
        leased=tuple(LeaseHolder(key=A, flow=(1, flow)) for flow in leased),
        removing=removing,
        stuck=stuck,
        busy=busy,
        targets=targets if targets is not None else {A: 1},
        limits=limits or PoolLimits(),
        blocked_until=blocked_until,
    )
    return decide_actions(state, now)


def test_a_full_and_quiet_pool_needs_nothing():
    assert decided(idles=(idle("one"),)) == []


def test_a_pool_is_refilled_to_its_target_one_at_a_time():
    assert decided(idles=(idle("a"), idle("b")), targets={A: 4}) == [CreateContainer(key=A, ahead=True)]
    assert decided(idles=(idle("a"), idle("b")), starting={A: 1}, targets={A: 4}) == []


def test_a_pool_that_runs_low_is_refilled_two_at_a_time():
    assert decided(targets={A: 3}) == [CreateContainer(key=A, ahead=True)] * 2


def test_a_waiter_gets_the_oldest_idle_container_of_its_key():
    actions = decided(waiting=(A,), idles=(idle("b", B), idle("old"), idle("new")), targets={A: 2, B: 1})
    assert actions == [AssignContainer(waiter=0, ulid="old"), CreateContainer(key=A, ahead=True)]


def test_a_waiter_without_an_idle_container_gets_a_cold_start():
    assert decided(waiting=(A,), targets={}) == [CreateContainer(key=A)]


def test_a_container_that_is_already_starting_serves_the_waiter():
    assert decided(waiting=(A,), starting={A: 1}, targets={}) == []


def test_waiters_are_served_in_order_when_containers_are_short():
    assert decided(waiting=(B, A, A), idles=(idle("one"),), targets={A: 1}) == [
        AssignContainer(waiter=1, ulid="one"),
        CreateContainer(key=B),
        CreateContainer(key=A),
        CreateContainer(key=A, ahead=True),
    ]


MUCH = ("batch", "batch")


def test_who_sends_much_leaves_the_last_containers_of_a_key():
    three = (idle("old"), idle("mid"), idle("new"))
    assert decided(waiting=(A, A), flows=MUCH, idles=three, targets={A: 4}) == [
        AssignContainer(waiter=0, ulid="old"),
        CreateContainer(key=A),
    ]
    assert decided(waiting=(A,), flows=("batch",), leased=("batch",), idles=(idle("last"),)) == [
        CreateContainer(key=A)
    ]


def test_a_newcomer_gets_the_last_container_past_those_who_send_much():
    assert decided(waiting=(A, A, A), flows=(*MUCH, "single"), idles=(idle("last"),), starting={A: 2}) == [
        AssignContainer(waiter=2, ulid="last"),
        CreateContainer(key=A, ahead=True),
    ]


def test_the_last_container_is_handed_out_when_no_other_can_be_made():
    full = PoolLimits(max_containers=2)
    one = {"waiting": (A,), "flows": ("batch",), "leased": ("batch",), "idles": (idle("last"),)}
    assert decided(**one, limits=full) == [AssignContainer(waiter=0, ulid="last")]
    assert decided(**one, blocked_until=2.0, now=1.0) == [AssignContainer(waiter=0, ulid="last")]


def test_nothing_is_kept_back_of_a_key_that_need_not_stand_ready():
    actions = decided(waiting=(A,), flows=("batch",), leased=("batch",), idles=(idle("only"),), targets={})
    assert actions == [AssignContainer(waiter=0, ulid="only")]


BATCH, SINGLE = LeaseHolder(key=A, flow=(1, "batch")), LeaseHolder(key=A, flow=(1, "single"))


def handed_out(*waiting: LeaseHolder, idles: tuple[IdleContainer, ...]) -> list[Action]:
    state = PoolState(waiting=waiting, leased=(BATCH,), idle=idles, targets={A: 4})
    return [action for action in decide_actions(state, 1.0) if isinstance(action, AssignContainer)]


def test_container_that_was_made_for_who_waits_goes_to_who_is_first_in_turn():
    made = idle("new", ahead=False)
    assert handed_out(BATCH, BATCH, SINGLE, idles=(made,)) == [AssignContainer(waiter=0, ulid="new")]
    assert handed_out(SINGLE, BATCH, idles=(made,)) == [AssignContainer(waiter=0, ulid="new")]
    assert handed_out(BATCH, BATCH, idles=(idle("reserved"), made)) == [AssignContainer(waiter=0, ulid="new")]


def test_idle_flow_behind_others_gets_what_is_reserved():
    both = (idle("reserved"), idle("new", ahead=False))
    assert handed_out(BATCH, SINGLE, idles=both) == [
        AssignContainer(waiter=0, ulid="new"),
        AssignContainer(waiter=1, ulid="reserved"),
    ]


def test_flows_of_the_same_name_are_not_the_same_user():
    other = LeaseHolder(key=A, flow=(2, "batch"))
    assert handed_out(BATCH, other, idles=(idle("last"),)) == [AssignContainer(waiter=1, ulid="last")]


def test_what_is_reserved_stays_while_there_is_room_for_the_next_starts():
    many = (BATCH,) * 20
    ready = (idle("a"), idle("c"), idle("b", B))
    state = PoolState(waiting=many, leased=many[:10], idle=ready, targets={A: 4, B: 1})
    assert decide_actions(state, 1.0) == [CreateContainer(key=A)] * state.limits.start_concurrency


def test_one_start_of_several_fills_the_reserve_while_others_wait():
    much = {"waiting": (A,) * 9, "flows": ("batch",) * 9, "targets": {A: 4}}
    assert decided(**much) == [*[CreateContainer(key=A)] * 3, CreateContainer(key=A, ahead=True)]
    assert decided(**much, refilling={A: 1}, starting={A: 3}) == []
    ended = {"refilling": {A: 1}, "starting": {A: 2}}
    assert decided(**much, **ended, since_refill=1) == [CreateContainer(key=A)]
    assert decided(**much, **ended, since_refill=2) == [CreateContainer(key=A, ahead=True)]
    assert decided(**much, starting={A: 2}, refilling={A: 2}, since_refill=2) == []


def test_reserve_takes_neither_the_only_start_nor_the_last_room_from_who_waits():
    one_at_a_time = PoolLimits(start_concurrency=1)
    assert decided(waiting=(A, A), targets={A: 4}, limits=one_at_a_time) == [CreateContainer(key=A)]
    assert (
        decided(waiting=(A, A), targets={A: 4}, limits=PoolLimits(max_containers=2))
        == [CreateContainer(key=A)] * 2
    )


def test_reserve_is_not_filled_where_no_more_may_be_idle():
    assert decided(waiting=(A,), targets={A: 4}, limits=PoolLimits(idle_memory_bytes=0)) == [
        CreateContainer(key=A)
    ]


def test_container_that_comes_for_the_reserve_is_not_counted_for_who_waits():
    assert decided(waiting=(A,), targets={A: 1}, refilling={A: 1}) == [CreateContainer(key=A)]
    assert decided(waiting=(A,), targets={A: 1}, refilling={A: 2}) == []


def test_refill_beyond_the_reserve_waits_while_somebody_waits():
    ready = (idle("a"), idle("b"))
    assert decided(waiting=(B,), starting={B: 1}, idles=ready, targets={A: 5}) == []


def test_refill_goes_on_beside_one_removal_and_waits_for_more():
    full_enough = (idle("a"), idle("b"))
    assert decided(idles=full_enough, removing=1, targets={A: 3}) == [CreateContainer(key=A, ahead=True)]
    assert decided(idles=full_enough, removing=2, targets={A: 3}) == []


def test_a_container_that_would_not_go_does_not_stop_the_refill():
    assert decided(stuck=1, targets={A: 1}) == [CreateContainer(key=A, ahead=True)]


def test_a_container_that_would_not_go_keeps_its_place():
    assert decided(waiting=(A,), stuck=3, targets={}, limits=PoolLimits(max_containers=3)) == []


def test_refill_yields_to_attempts_under_way():
    assert decided(idles=(idle("a"),), busy=1, targets={A: 2}) == []


def test_refill_goes_on_beside_attempts_when_the_pool_runs_low():
    assert decided(busy=1, targets={A: 2})[0] == CreateContainer(key=A, ahead=True)


def test_cold_starts_are_bounded():
    limits = PoolLimits(start_concurrency=2)
    actions = decided(waiting=(A,) * 5, targets={}, limits=limits)
    assert actions == [CreateContainer(key=A)] * 2


def test_a_full_house_creates_nothing_even_for_waiters():
    assert (
        decided(waiting=(A,), leased=("x", "y", "z"), targets={}, limits=PoolLimits(max_containers=3)) == []
    )


def test_idle_containers_of_other_keys_make_room_for_a_waiter():
    limits = PoolLimits(max_containers=2)
    actions = decided(waiting=(B,), idles=(idle("a1"), idle("a2")), targets={A: 2}, limits=limits)
    assert actions == [RemoveContainer(ulid="a1", reason="room")]


def test_room_that_is_being_made_already_is_not_made_twice():
    limits = PoolLimits(max_containers=2)
    actions = decided(waiting=(B,), idles=(idle("a1"),), removing=1, targets={A: 2}, limits=limits)
    assert actions == []


def test_a_dead_container_is_removed_and_never_handed_out():
    actions = decided(waiting=(A,), idles=(idle("dead", alive=False),), targets={})
    assert actions[0] == RemoveContainer(ulid="dead", reason="died")
    assert not any(isinstance(action, AssignContainer) for action in actions)


def test_a_container_over_its_age_is_replaced():
    actions = decided(idles=(idle("old"),), limits=PoolLimits(max_idle_s=10), now=11)
    assert actions == [RemoveContainer(ulid="old", reason="age"), CreateContainer(key=A, ahead=True)]


def test_what_exceeds_a_lowered_target_goes_oldest_first():
    actions = decided(idles=(idle("a"), idle("b"), idle("c")), targets={A: 1})
    assert actions == [
        RemoveContainer(ulid="b", reason="surplus"),
        RemoveContainer(ulid="a", reason="surplus"),
    ]


def test_idle_memory_stays_under_its_ceiling():
    limits = PoolLimits(idle_memory_bytes=15 * MIB)
    actions = decided(idles=(idle("a"), idle("b")), targets={A: 2}, limits=limits)
    assert actions == [RemoveContainer(ulid="a", reason="memory")]


def test_refill_stops_at_the_memory_ceiling():
    limits = PoolLimits(idle_memory_bytes=15 * MIB)
    assert decided(idles=(idle("a"),), targets={A: 2}, limits=limits) == []


def test_nothing_is_created_while_the_engine_is_left_alone():
    assert decided(waiting=(A,), targets={A: 2}, blocked_until=5.0, now=4.9) == []


def test_the_emptiest_key_is_refilled_first():
    actions = decided(idles=(idle("a"),), targets={A: 2, B: 2})
    assert actions[0] == CreateContainer(key=B, ahead=True)


def test_keys_differ_by_everything_that_is_fixed_at_creation():
    assert key(memory_mb=100) != key(memory_mb=128)
    assert key(memory_mb=100).digest != key(memory_mb=128).digest
    assert key().digest == key().digest


@pytest.mark.parametrize(
    ("rate_per_s", "expected"),
    [(0.0, 2), (1.0, 4), (3.5, 7), (1000.0, 16)],
)
def test_targets_follow_the_rate_up_to_a_ceiling(rate_per_s: float, expected: int):
    assert compute_idle_target(2, rate_per_s=rate_per_s, refill_s=0.3, most=16) == expected


def test_without_a_base_and_without_demand_nothing_is_kept():
    assert compute_idle_target(0, rate_per_s=0.0, refill_s=0.3, most=16) == 0


def test_a_kept_key_has_few_until_somebody_asks_for_it():
    demand = PoolDemand(base=4, unused=1, most=16)
    demand.keep(frozenset({A, B}))
    assert demand.targets(0.0) == {A: 1, B: 1}
    demand.asked(A, 0.0)
    targets = demand.targets(RATE_EXPIRY_S + 1.0)
    assert targets == {A: 4, B: 1}


def test_a_key_that_nobody_asked_for_lately_has_few_again():
    demand = PoolDemand(base=4, unused=1, most=16)
    demand.keep(frozenset({A}))
    demand.asked(A, 0.0)
    assert demand.targets(UNUSED_AFTER_S - 1.0)[A] == 4
    assert demand.targets(UNUSED_AFTER_S + 1.0)[A] == 1


def test_what_was_asked_for_before_the_key_changed_is_forgotten():
    demand = PoolDemand(base=4, unused=1, most=16)
    demand.keep(frozenset({A}))
    demand.asked(A, 0.0)
    demand.keep(frozenset({B}))
    demand.keep(frozenset({A}))
    assert demand.targets(RATE_EXPIRY_S + 1.0) == {A: 1}


def test_an_unused_key_has_never_more_than_one_in_use():
    demand = PoolDemand(base=2, unused=3, most=16)
    demand.keep(frozenset({A}))
    assert demand.targets(0.0) == {A: 2}


def test_a_key_that_is_asked_for_often_gets_more():
    demand = PoolDemand(base=2, unused=2, most=16)
    demand.keep(frozenset({A}))
    for second in range(60):
        for _ in range(3):
            demand.asked(A, float(second))
    assert 4 <= demand.targets(60.0)[A] <= 8


def test_slow_creations_ask_for_more_in_store():
    fast, slow = PoolDemand(base=2, unused=2, most=16), PoolDemand(base=2, unused=2, most=16)
    for demand, took_s in ((fast, 0.1), (slow, 2.0)):
        demand.record_creation(A, took_s)
        for _ in range(60):
            demand.asked(A, 0.0)
    assert slow.targets(1.0)[A] > fast.targets(1.0)[A]


def test_a_key_of_one_request_has_no_base_and_is_forgotten():
    demand = PoolDemand(base=2, unused=2, most=16)
    demand.asked(B, 0.0)
    demand.record_creation(B, 0.3)
    assert demand.targets(1.0)[B] == 1
    assert demand.targets(RATE_EXPIRY_S + 1.0) == {}
    assert demand.refill_s() == {}


def test_a_pool_that_is_switched_off_keeps_nothing():
    demand = PoolDemand(base=0, unused=1, most=0)
    demand.keep(frozenset({A}))
    demand.asked(A, 0.0)
    assert demand.targets(1.0) == {A: 0}


def test_what_can_be_started_is_determined_once_per_decision(monkeypatch: pytest.MonkeyPatch):
    asked: list[PoolState] = []
    startable = decisions._list_startable_keys

    def counted(state: PoolState) -> list[PoolKey]:
        asked.append(state)
        return startable(state)

    monkeypatch.setattr(decisions, "_list_startable_keys", counted)

    assert CreateContainer(key=A) in decided(waiting=(A, B))

    assert len(asked) == 1


def test_a_second_container_is_spared_while_a_processor_is_free_and_nobody_waits():
    spare = PoolState(idle=(idle("one"),), leased=(LESSEE,), limits=PoolLimits(processors=2))
    assert find_idle_spare(spare, A, quick=True) == "one"
    assert find_idle_spare(spare, B, quick=True) is None
    assert find_idle_spare(replace(spare, leased=(LESSEE, LESSEE)), A, quick=True) is None
    assert find_idle_spare(replace(spare, waiting=(LESSEE,)), A, quick=True) is None
    assert find_idle_spare(replace(spare, idle=(idle("one", alive=False),)), A, quick=True) is None


def test_the_reserve_is_not_spared_where_a_successor_takes_long():
    idles = tuple(idle(str(number)) for number in range(RESERVED_COUNT + 1))
    spare = PoolState(idle=idles, leased=(LESSEE,), limits=PoolLimits(processors=2))
    assert find_idle_spare(spare, A, quick=False) == "0"
    assert find_idle_spare(replace(spare, idle=idles[1:]), A, quick=False) is None
