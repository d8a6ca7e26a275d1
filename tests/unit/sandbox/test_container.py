"""Opening a container: the original error is reported even if cleaning up fails as well."""

from __future__ import annotations

import asyncio

import pytest

from assayd.errors import EngineError
from assayd.sandbox.container import ContainerOrigin, open_container
from support.engines.warm_pool import IMAGE, A, owned, polite_guest, until
from support.fakes.engine import FakeEngine, Peer

ORIGIN = ContainerOrigin(daemon_id="d", generation="g")
MISMATCH = EngineError("engine.mismatch", "the container differs")
UNREACHABLE = EngineError("engine.unreachable", "the engine is gone", retryable=True)


async def silent_guest(peer: Peer) -> None:
    """Read to the end without answering."""
    while await peer.read():
        pass


async def test_container_that_differs_is_removed() -> None:
    engine = FakeEngine(polite_guest, images=[IMAGE])
    engine.fail_next("verify", MISMATCH)
    with pytest.raises(EngineError) as caught:
        await open_container(engine, A, ORIGIN, "u")
    assert (caught.value.code, await owned(engine)) == ("engine.mismatch", 0)


async def test_runner_that_ends_before_it_is_ready_is_quoted() -> None:
    async def dying_guest(peer: Peer) -> None:
        peer.complain(b"cannot start a thread\n")

    engine = FakeEngine(dying_guest, images=[IMAGE])
    with pytest.raises(EngineError, match="'cannot start a thread'") as caught:
        await open_container(engine, A, ORIGIN, "u")
    assert (caught.value.code, caught.value.retryable, await owned(engine)) == ("runner.silent", True, 0)


async def test_failed_removal_does_not_hide_why_the_container_was_refused() -> None:
    engine = FakeEngine(polite_guest, images=[IMAGE])
    engine.fail_next("verify", MISMATCH)
    engine.fail_next("remove", UNREACHABLE)
    with pytest.raises(EngineError) as caught:
        await open_container(engine, A, ORIGIN, "u")
    assert (caught.value.code, await owned(engine)) == ("engine.mismatch", 1)
    await engine.close()


async def test_failed_removal_does_not_swallow_a_cancellation() -> None:
    engine = FakeEngine(silent_guest, images=[IMAGE])
    engine.fail_next("remove", UNREACHABLE)
    opening = asyncio.ensure_future(open_container(engine, A, ORIGIN, "u"))
    await until(lambda: any("start" in call for call in engine.calls))
    opening.cancel()
    await asyncio.wait({opening})
    assert opening.cancelled()
    await engine.close()


@pytest.mark.parametrize("problem", [None, UNREACHABLE])
async def test_run_that_takes_long_makes_way_while_the_engine_can(
    monkeypatch: pytest.MonkeyPatch, problem: EngineError | None
) -> None:
    monkeypatch.setattr("assayd.sandbox.container.MIN_LONG_RUN_S", 0)
    engine = FakeEngine(polite_guest, images=[IMAGE])
    container = await open_container(engine, A, ORIGIN, "u")
    if problem is not None:
        engine.fail_next("make_way", problem)
    await container.lower_priority_later()
    assert engine.calls[-1] == "make_way"
    await engine.close()
