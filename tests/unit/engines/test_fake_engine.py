import asyncio

import pytest

from assayd.errors import EngineError
from assayd.ports.engine import LABEL_CONTAINER, ContainerSpec, ImageFacts
from support.fakes.engine import FakeEngine, Peer

IMAGE = ImageFacts(name="image", digest="sha256:1", size_bytes=1, labels={})
SPEC = ContainerSpec(
    image="image",
    image_digest="sha256:1",
    memory_bytes=1,
    pids=1,
    cpus=1.0,
    work_bytes=1,
    work_files=1,
    open_files=1,
    seccomp="",
    labels={LABEL_CONTAINER: "ulid"},
)


async def talk(peer: Peer) -> None:
    for _ in range(10):
        await peer.write(b"0123456789")
    while await peer.read():
        pass


async def test_call_fails_once_as_told() -> None:
    engine = FakeEngine(talk, images=[IMAGE])
    engine.fail_next("create", EngineError("engine.failed", "told to"))
    with pytest.raises(EngineError, match="told to"):
        await engine.create(SPEC)
    assert (await engine.create(SPEC)).ulid == "ulid"
    assert engine.calls == ["create", "create"]


async def test_call_hangs_until_it_is_released() -> None:
    engine = FakeEngine(talk, images=[IMAGE])
    release = engine.hang_next("create")
    async with asyncio.TaskGroup() as group:
        call = group.create_task(engine.create(SPEC))
        await asyncio.sleep(0)
        assert not call.done()
        release.set()
    assert call.result().ulid == "ulid"


async def test_call_that_hangs_too_long_is_a_timeout() -> None:
    engine = FakeEngine(talk, images=[IMAGE], timeout_s=0.01)
    engine.hang_next("create")
    with pytest.raises(EngineError) as caught:
        await engine.create(SPEC)
    assert (caught.value.code, caught.value.retryable) == ("engine.timeout", True)


async def test_guest_dies_after_so_many_bytes() -> None:
    engine = FakeEngine(talk, images=[IMAGE])
    engine.die_after(25)
    ref = await engine.create(SPEC)
    stream = await engine.start(ref)
    received = b""
    while piece := await stream.read():
        received += piece
    assert received == b"0123456789012345678901234"
    facts = await engine.facts(ref)
    assert (facts.running, facts.exit_code) == (False, 137)


async def test_mistake_of_a_runner_function_is_not_hidden() -> None:
    async def broken(peer: Peer) -> None:
        raise ZeroDivisionError

    engine = FakeEngine(broken, images=[IMAGE])
    ref = await engine.create(SPEC)
    stream = await engine.start(ref)
    assert await stream.read() == b""
    with pytest.raises(ZeroDivisionError):
        await engine.remove(ref)
