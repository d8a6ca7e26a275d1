"""Executors divide the limits that a daemon without executors has for itself."""

from __future__ import annotations

import pytest

from assayd.sandbox.pool_decisions import PoolDemand, PoolKey
from assayd.settings import Settings
from assayd.wiring.limits import MAX_OWN_CONTAINERS, Part, build_pool_demand, derive_limits

KEY = PoolKey(
    image="i",
    image_digest="d",
    memory_bytes=1,
    pids=1,
    cpus=1.0,
    work_bytes=1,
    work_files=1,
    open_files=1,
    network="none",
    seccomp="{}",
)


def parts(count: int) -> list[Part]:
    return [Part(number=number, count=count, is_executor=True) for number in range(count)]


def base_target(demand: PoolDemand) -> int:
    """Return the number of containers that are kept for a kind in use, half an hour after an attempt."""
    demand.keep(frozenset({KEY}))
    demand.asked(KEY, 0.0)
    return demand.targets(1800.0).get(KEY, 0)


@pytest.mark.parametrize("count", range(1, 9))
def test_limits_of_the_daemon_and_its_executors_add_up_to_those_without_executors(count: int) -> None:
    whole = derive_limits(Settings()).pool
    settings = Settings(executors=count)
    own = derive_limits(settings).pool
    divided = [derive_limits(settings, part).pool for part in parts(count)]

    assert own.max_containers == MAX_OWN_CONTAINERS
    assert own.max_containers + sum(one.max_containers for one in divided) == whole.max_containers
    assert sum(one.idle_memory_bytes for one in divided) == whole.idle_memory_bytes
    assert all(one.max_containers and one.start_concurrency and one.processors for one in divided)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_executors_together_keep_the_set_number_of_warm_containers(count: int) -> None:
    settings = Settings(executors=count, pool={"default_target": 4, "unused_target": 1})

    targets = [base_target(build_pool_demand(settings, quick=False, part=part)) for part in parts(count)]

    assert sum(targets) == 4


def test_each_executor_keeps_a_warm_container_unless_a_number_is_set() -> None:
    settings = Settings(executors=8)
    targets = [base_target(build_pool_demand(settings, quick=True, part=part)) for part in parts(8)]
    assert set(targets) == {1}


def test_daemon_with_executors_keeps_no_warm_container_itself() -> None:
    assert base_target(build_pool_demand(Settings(executors=2), quick=True)) == 0
    assert base_target(build_pool_demand(Settings(), quick=True)) > 0
