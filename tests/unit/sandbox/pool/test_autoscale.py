"""How many containers should stand ready, by how often they are asked for."""

from __future__ import annotations

from assayd.sandbox.pool.autoscale import FORGET_S, USED_S, PoolDemand
from support.engines.pool_values import A, B


def test_a_kept_key_has_few_until_somebody_asks_for_it():
    demand = PoolDemand(base=4, unused=1, most=16)
    demand.keep(frozenset({A, B}))
    assert demand.targets(0.0) == {A: 1, B: 1}
    demand.asked(A, 0.0)
    targets = demand.targets(FORGET_S + 1.0)
    assert targets == {A: 4, B: 1}


def test_a_key_that_nobody_asked_for_lately_has_few_again():
    demand = PoolDemand(base=4, unused=1, most=16)
    demand.keep(frozenset({A}))
    demand.asked(A, 0.0)
    assert demand.targets(USED_S - 1.0)[A] == 4
    assert demand.targets(USED_S + 1.0)[A] == 1


def test_what_was_asked_for_before_the_key_changed_is_forgotten():
    demand = PoolDemand(base=4, unused=1, most=16)
    demand.keep(frozenset({A}))
    demand.asked(A, 0.0)
    demand.keep(frozenset({B}))
    demand.keep(frozenset({A}))
    assert demand.targets(FORGET_S + 1.0) == {A: 1}


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
    assert demand.targets(FORGET_S + 1.0) == {}
    assert demand.refill_s() == {}


def test_a_pool_that_is_switched_off_keeps_nothing():
    demand = PoolDemand(base=0, unused=1, most=0)
    demand.keep(frozenset({A}))
    demand.asked(A, 0.0)
    assert demand.targets(1.0) == {A: 0}
