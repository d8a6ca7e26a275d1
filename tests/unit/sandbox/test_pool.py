"""The warm pool on the fake engine: what is created, leased and removed, and when it fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from assayd.clock import SystemClock
from assayd.errors import EngineError
from assayd.guest.frames import MAX_HEADER_BYTES
from assayd.ports.engine import LABEL_CONTAINER, ContainerRef, ContainerSpec
from assayd.sandbox.container import Container, ContainerOrigin, open_container
from assayd.sandbox.pool import STUCK_REMOVAL_RETRY_S, ContainerPool
from assayd.sandbox.pool_decisions import RESERVED_COUNT
from support.engines.warm_pool import IMAGE, READY, A, B, owned, polite_guest, running, until
from support.fakes.engine import FakeEngine, Peer


async def mute_guest(peer: Peer) -> None:
    """End without an answer."""


async def dying_guest(peer: Peer) -> None:
    """Answer the greeting, then end."""
    await peer.read()
    await peer.write(READY)


class FrozenClock(SystemClock):
    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at


async def test_an_empty_pool_starts_a_container_for_who_asks():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        container, warm = await pool.acquire(A)
        assert (container.key, warm) == (A, False)
        assert container.ready.python == "3.11.2"
        pool.release(container)
        await until(lambda: not pool.state().containers)
        assert await owned(engine) == 0


async def test_a_used_container_stays_while_attempts_find_warm_ones():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=8, keep=[A]) as pool:
        pool.schedule_update()
        await until(lambda: len(pool.state().idle) == 8)
        with pool.attempt():
            first, _ = await pool.acquire(A)
            pool.release(first)
            second, warm = await pool.acquire(A)
            for _ in range(50):
                await asyncio.sleep(0)
            assert (warm, pool.state().removing, await owned(engine)) == (True, 1, 8)
        pool.release(second)
        await until(lambda: not pool.state().removing)


async def test_clones_come_and_go_after_an_attempt_and_not_beside_it():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    engine.quick = True
    async with running(engine, base=2, keep=[A]) as pool:
        pool.schedule_update()
        await until(lambda: len(pool.state().idle) == 2)
        with pool.attempt():
            container, _ = await pool.acquire(A)
            pool.release(container)
            for _ in range(50):
                await asyncio.sleep(0)
            assert (pool.state().creating, pool.state().removing) == (0, 1)
        await until(lambda: len(pool.state().idle) == 2 and not pool.state().removing)


async def test_a_used_clone_does_not_wait_for_the_end_of_a_long_attempt():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    engine.quick = True
    async with running(engine, base=8, keep=[A]) as pool:
        pool.schedule_update()
        await until(lambda: len(pool.state().idle) == 8)
        with pool.attempt():
            container, _ = await pool.acquire(A)
            pool.release(container)
            await until(lambda: not pool.state().removing)


async def test_a_kept_key_is_warm_and_refilled_after_a_lease():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=1, keep=[A]) as pool:
        pool.schedule_update()
        await until(lambda: len(pool.state().idle) == 1)
        first, warm = await pool.acquire(A)
        assert warm
        pool.release(first)
        await until(lambda: len(pool.state().idle) == 1)
        second, warm = await pool.acquire(A)
        assert warm
        assert second.ref.ulid != first.ref.ulid
        pool.release(second)


async def test_a_container_is_never_handed_out_twice():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=2, keep=[A]) as pool:
        leased: list[Container] = []
        for _ in range(10):
            container, _ = await pool.acquire(A)
            leased.append(container)
            pool.release(container)
    assert len({c.ref.ulid for c in leased}) == 10


async def test_leaving_the_pool_removes_every_container():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=3, keep=[A, B]) as pool:
        pool.schedule_update()
        await until(lambda: len(pool.state().idle) == 6)
    assert await owned(engine) == 0


async def test_an_idle_container_that_dies_is_noticed_and_not_leased():
    engine = FakeEngine(dying_guest, images=[IMAGE])
    async with running(engine, base=1, keep=[A], clock=FrozenClock()) as pool:
        pool.schedule_update()
        await until(lambda: engine.calls.count("remove") >= 1)
        assert all(idle.alive for idle in pool.state().idle) or not pool.state().idle


async def test_who_waits_hears_of_a_failing_engine_and_later_attempts_succeed():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    clock = FrozenClock()
    engine.fail_next("create", EngineError("engine.unreachable", "gone", retryable=True))
    async with running(engine, clock=clock) as pool:
        with pytest.raises(EngineError, match="gone"):
            await pool.acquire(A)
        assert pool.failures == 1
        waiting = asyncio.ensure_future(pool.acquire(A))
        await asyncio.sleep(0)
        assert not pool.state().starting, "the engine is left alone for a while"
        clock.at += 60
        pool.schedule_update()
        container, _ = await waiting
        assert pool.failures == 0
        pool.release(container)


@pytest.mark.parametrize("call", ["verify", "start"])
async def test_a_container_that_fails_on_its_way_up_is_removed(call: str):
    engine = FakeEngine(polite_guest, images=[IMAGE])
    engine.fail_next(call, EngineError("engine.refused", "no"))
    async with running(engine) as pool:
        with pytest.raises(EngineError, match="no"):
            await pool.acquire(A)
        assert await owned(engine) == 0


async def test_a_runner_that_ends_before_it_is_ready_is_our_trouble():
    engine = FakeEngine(mute_guest, images=[IMAGE])
    async with running(engine) as pool:
        with pytest.raises(EngineError) as caught:
            await pool.acquire(A)
        assert caught.value.code == "runner.silent"
        assert await owned(engine) == 0


async def test_a_container_that_cannot_be_removed_keeps_its_place_until_it_is_gone():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        container, _ = await pool.acquire(A)
        engine.fail_next("remove", EngineError("engine.timeout", "slow", retryable=True))
        pool.release(container)
        await until(lambda: bool(pool.stuck))
        assert pool.state().containers == 1
        assert container.ref.ulid not in pool.list_live_containers(), "the reaper may take it"
        await engine.remove(container.ref)
        pool.forget(container.ref.ulid)
        assert pool.state().containers == 0


async def test_who_stops_waiting_leaves_the_container_to_others():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    release = engine.hang_next("create")
    async with running(engine) as pool:
        impatient = asyncio.ensure_future(pool.acquire(A))
        patient = asyncio.ensure_future(pool.acquire(B))
        await asyncio.sleep(0)
        impatient.cancel()
        release.set()
        container, _ = await patient
        assert container.key == B
        pool.release(container)
        with pytest.raises(asyncio.CancelledError):
            await impatient
    assert await owned(engine) == 0


async def test_lanes_get_fresh_containers_in_turn():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    served: list[str] = []
    async with running(engine) as pool, asyncio.TaskGroup() as group:

        async def ask(flow: str) -> None:
            container, _ = await pool.acquire(A, 1, flow)
            served.append(flow)
            pool.release(container)

        for flow in ("batch", "batch", "batch", "batch", "batch", "single"):
            group.create_task(ask(flow))
    assert served[:2] == ["batch", "single"]
    assert len(served) == 6


async def filled(pool: ContainerPool, count: int) -> None:
    pool.schedule_update()
    await until(lambda: len(pool.state().idle) == count)


async def test_a_newcomer_finds_a_warm_container_beside_who_sends_much():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=2, keep=[A]) as pool:
        await filled(pool, 2)
        release = engine.hang_next("create")
        first = await pool.acquire(A, 1, "batch")
        second = asyncio.ensure_future(pool.acquire(A, 1, "batch"))
        await asyncio.sleep(0)
        assert not second.done()
        single = await pool.acquire(A, 1, "single")
        assert single[1]
        release.set()
        for container, _ in (first, single, await second):
            pool.release(container)


class Queueing(FakeEngine):
    """Creates one container after the other."""

    one = asyncio.Lock()

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        async with self.one:
            for _ in range(20):
                await asyncio.sleep(0)
            return await super().create(spec)


async def test_who_sends_much_gets_its_turns_beside_who_asks_again_and_again():
    served: Counter[str] = Counter()
    async with running(Queueing(polite_guest, images=[IMAGE]), base=4, keep=[A]) as pool:
        await filled(pool, 4)

        async def ask(flow: str) -> None:
            while served.total() < 60:
                container, _ = await pool.acquire(A, 1, flow)
                served[flow] += 1
                pool.release(container)

        await asyncio.gather(*(ask("batch") for _ in range(4)), ask("single"))
    assert min(served["batch"], served["single"]) > 20


async def test_what_is_left_to_newcomers_serves_who_waits_when_the_engine_fails():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=2, keep=[A]) as pool:
        await filled(pool, 2)
        hanging = engine.hang_next("create")
        first, _ = await pool.acquire(A, 1, "batch")
        waiting = asyncio.ensure_future(pool.acquire(A, 1, "batch"))
        await asyncio.sleep(0)
        assert not waiting.done()
        engine.fail_next("start", EngineError("engine.failed", "no", retryable=True))
        hanging.set()
        second, _ = await waiting
        pool.release(first)
        pool.release(second)


async def test_who_is_alone_in_its_lane_again_gets_what_is_left_to_newcomers_at_once():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=2, keep=[A]) as pool:
        await filled(pool, 2)
        hanging = [engine.hang_next(call) for call in ("create", "create", "remove")]
        first, _ = await pool.acquire(A, 1, "batch")
        second, third = (asyncio.ensure_future(pool.acquire(A, 1, "batch")) for _ in range(2))
        await asyncio.sleep(0)
        pool.release(first)
        assert not second.done()
        third.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert second.done()
        pool.release(second.result()[0])
        for release in hanging:
            release.set()


async def test_a_closed_pool_tells_those_who_wait():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    release = engine.hang_next("create")
    async with running(engine) as pool:
        waiting = asyncio.ensure_future(pool.acquire(A))
        await asyncio.sleep(0)
        release.set()
    with pytest.raises(EngineError, match="stopping"):
        await waiting
    assert await owned(engine) == 0


class BrokenEngine(FakeEngine):
    """Fails in a way that engines shouldn't."""

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        raise KeyError("Id")


async def test_an_error_that_nobody_foresaw_costs_one_container_and_not_the_daemon():
    engine = BrokenEngine(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        with pytest.raises(EngineError) as caught:
            await pool.acquire(A)
        assert caught.value.code == "pool.broken"
        assert await owned(engine) == 0


async def test_more_preloads_than_a_frame_holds_are_refused():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    with pytest.raises(EngineError) as caught:
        await open_container(
            engine,
            replace(A, preload=("x" * MAX_HEADER_BYTES,)),
            ContainerOrigin(daemon_id="d", generation="g"),
            "one",
            ahead=True,
        )
    assert caught.value.code == "runner.request"
    assert await owned(engine) == 0


async def test_a_container_on_its_way_up_is_left_alone_by_the_reaper():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    release = engine.hang_next("start")
    async with running(engine) as pool:
        waiting = asyncio.ensure_future(pool.acquire(A))
        while not await owned(engine):
            await asyncio.sleep(0)
        [container] = await engine.list_owned("d")
        assert container.labels[LABEL_CONTAINER] in pool.list_live_containers()
        release.set()
        pool.release((await waiting)[0])


async def test_a_removal_that_failed_is_tried_again_and_frees_its_place():
    engine, clock = FakeEngine(polite_guest, images=[IMAGE]), FrozenClock()
    async with running(engine, clock=clock) as pool:
        container, _ = await pool.acquire(A)
        engine.fail_next("remove", EngineError("engine.timeout", "slow", retryable=True))
        pool.release(container)
        await until(lambda: bool(pool.stuck))
        await engine.remove(container.ref)  # it went all the same, so that no sweep finds it
        clock.at += STUCK_REMOVAL_RETRY_S
        async with asyncio.timeout(5):
            while pool.state().containers:
                await asyncio.sleep(0.01)
        assert not pool.stuck


async def test_a_spare_container_is_leased_without_waiting_and_removed_like_others():
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine, base=RESERVED_COUNT + 2, keep=[A], processors=2) as pool:
        pool.schedule_update()
        await until(lambda: len(pool.state().idle) == RESERVED_COUNT + 2)
        with pool.attempt():
            assert await pool.acquire_spare(B) is None
            first, _ = await pool.acquire(A)
            second = await pool.acquire_spare(A)
            assert second is not None
            assert second.ref != first.ref
            assert len(pool.state().leased) == 2
            assert await pool.acquire_spare(A) is None
            for container in (first, second):
                pool.release(container)
        await until(lambda: not pool.state().removing and not pool.state().leased)
