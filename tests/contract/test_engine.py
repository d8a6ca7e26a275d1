"""The behavior that all engines share."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.clock import UlidGenerator
from assayd.engines.docker import DockerEngine
from assayd.engines.oci import OciEngine
from assayd.errors import EngineError
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    LABEL_GENERATION,
    LABEL_POOL_KEY,
    ContainerExitFacts,
    ContainerRef,
    ContainerSpec,
    Engine,
    ImageFacts,
    RunnerStreams,
)
from support.engines import engine_image, podman_service
from support.engines.oci import IMAGES, PYTHON, derive, kept_store, needs_oci, oci_engine
from support.fakes.engine import FakeEngine
from support.guests.scripted_guest import PROGRAM, READY, play
from support.slowness import SLOWER_BY

IMAGE = f"assayd-test/scripted-{os.getpid()}"
FAKE_IMAGE = ImageFacts(name=IMAGE, digest="sha256:" + "0" * 64, size_bytes=1, labels={})
ULIDS = UlidGenerator()


@pytest.fixture(scope="session")
def scripted_image() -> Iterator[str]:
    engine_image.commit(IMAGE, PROGRAM)
    yield IMAGE
    engine_image.drop(IMAGE)


@pytest.fixture
def daemon_id() -> str:
    return ULIDS.new()


DOCKER = pytest.param("docker", marks=pytest.mark.engine)
OCI = [pytest.param(kind, marks=needs_oci) for kind in ("oci", "oci-templates")]
PODMAN = pytest.param("podman", marks=pytest.mark.system)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test with every engine, except for the known differences of Podman."""
    if "engine" in metafunc.fixturenames:
        podman = [] if metafunc.function.__name__ in podman_service.DIFFERENCES else [PODMAN]
        metafunc.parametrize("engine", ["fake", DOCKER, *OCI, *podman], indirect=True)


@pytest.fixture(scope="session")
def podman(scripted_image: str) -> Iterator[str]:
    """Return the address of the tests' own Podman service, which has the image."""
    with podman_service.serving() as address:
        podman_service.copy_image(scripted_image, address)
        yield address


@pytest.fixture(scope="session")
def scripted_store() -> Iterator[Path]:
    """Return a store that has the image and shares files with the project's own store."""
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=IMAGES))
    folder.chmod(0o755)
    derive(IMAGE, [*PYTHON, PROGRAM], folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def engine(request: pytest.FixtureRequest, daemon_id: str) -> AsyncIterator[Engine]:
    made: Engine
    if request.param == "docker":
        request.getfixturevalue("scripted_image")
        made = DockerEngine(base_url=None)
    elif request.param in {"oci", "oci-templates"}:
        folder = request.getfixturevalue("scripted_store")
        made = oci_engine(folder, templates=request.param == "oci-templates", store=kept_store(folder))
    elif request.param == "podman":
        made = podman_service.PodmanEngine(request.getfixturevalue("podman"))
    else:
        made = FakeEngine(play, images=[FAKE_IMAGE])
    yield made
    if isinstance(made, OciEngine):
        assert made.templates == ("on" if request.param == "oci-templates" else "off")
    for owned in await made.list_owned(daemon_id):
        await made.remove(ContainerRef(engine_id=owned.engine_id, ulid=""))
    await made.close()


@pytest.fixture
async def spec(engine: Engine, daemon_id: str) -> ContainerSpec:
    image = await engine.image(IMAGE)
    return ContainerSpec(
        image=image.name,
        image_digest=image.digest,
        memory_bytes=96 * 2**20,
        pids=16,
        cpus=1.0,
        work_bytes=4 * 2**20,
        work_files=256,
        open_files=128,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        labels={
            LABEL_DAEMON: daemon_id,
            LABEL_GENERATION: "1",
            LABEL_CONTAINER: ULIDS.new(),
            LABEL_POOL_KEY: "test",
        },
    )


async def started(engine: Engine, spec: ContainerSpec, command: bytes) -> tuple[ContainerRef, RunnerStreams]:
    ref = await engine.create(spec)
    stream = await engine.start(ref)
    assert await read(stream, len(READY)) == READY
    await stream.write(command + b"\n")
    return ref, stream


async def read(stream: RunnerStreams, size: int) -> bytes:
    data = b""
    async with asyncio.timeout(20 * SLOWER_BY):
        while len(data) < size and (piece := await stream.read()):
            data += piece
    return data


async def ended(engine: Engine, ref: ContainerRef) -> ContainerExitFacts:
    """Poll until the engine reports the container's end."""
    async with asyncio.timeout(20 * SLOWER_BY):
        while (facts := await engine.facts(ref)).running:
            await asyncio.sleep(0)
    return facts


async def test_image_is_found_by_name_and_by_digest(engine: Engine) -> None:
    by_name = await engine.image(IMAGE)
    assert (await engine.image(by_name.digest)).digest == by_name.digest


async def test_unknown_image_is_missing(engine: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        await engine.image("assayd-test/absent")
    assert caught.value.code == "image.missing"


async def test_container_of_an_unknown_image_is_refused(engine: Engine, spec: ContainerSpec) -> None:
    with pytest.raises(EngineError) as caught:
        await engine.create(replace(spec, image_digest="sha256:" + "f" * 64))
    assert caught.value.code == "image.missing"


async def test_created_container_is_what_was_asked_for(engine: Engine, spec: ContainerSpec) -> None:
    ref = await engine.create(spec)
    await engine.verify(ref, spec)
    assert ref.ulid == spec.labels[LABEL_CONTAINER]


async def test_container_with_another_limit_is_a_mismatch(engine: Engine, spec: ContainerSpec) -> None:
    ref = await engine.create(spec)
    with pytest.raises(EngineError) as caught:
        await engine.verify(ref, replace(spec, memory_bytes=spec.memory_bytes * 2))
    assert caught.value.code == "engine.mismatch"


async def test_container_that_never_ran_has_no_end(engine: Engine, spec: ContainerSpec) -> None:
    ref = await engine.create(spec)
    assert await engine.facts(ref) == ContainerExitFacts(running=False, exit_code=None, oom_killed=None)


async def test_running_container_has_no_end(engine: Engine, spec: ContainerSpec) -> None:
    ref, _ = await started(engine, spec, b"echo")
    assert await engine.facts(ref) == ContainerExitFacts(running=True, exit_code=None, oom_killed=None)


async def test_bytes_come_back_as_they_went(engine: Engine, spec: ContainerSpec) -> None:
    _, stream = await started(engine, spec, b"echo")
    sent = bytes(range(256)) * 8192
    async with asyncio.TaskGroup() as both:
        both.create_task(stream.write(sent))
        received = both.create_task(read(stream, len(sent)))
    assert received.result() == sent


async def test_output_is_whole_and_in_order_and_then_ends(engine: Engine, spec: ContainerSpec) -> None:
    _, stream = await started(engine, spec, b"count 50000")
    lines = (await read(stream, 2**30)).splitlines()
    assert lines == [b"%d" % n for n in range(50000)]


async def test_exit_code_is_known_after_the_end(engine: Engine, spec: ContainerSpec) -> None:
    ref, stream = await started(engine, spec, b"exit 7")
    assert await read(stream, 1) == b""
    assert await ended(engine, ref) == ContainerExitFacts(running=False, exit_code=7, oom_killed=False)


async def test_runner_sees_the_end_of_its_input_when_the_stream_is_closed(
    engine: Engine, spec: ContainerSpec
) -> None:
    ref, stream = await started(engine, spec, b"echo")
    await stream.close()
    assert (await ended(engine, ref)).exit_code == 0


async def test_closed_stream_gives_nothing_and_takes_nothing(engine: Engine, spec: ContainerSpec) -> None:
    _, stream = await started(engine, spec, b"echo")
    await stream.close()
    await stream.close()
    assert await stream.read() == b""
    with pytest.raises(EngineError) as caught:
        await stream.write(b"more")
    assert caught.value.code == "engine.stream_broken"


async def test_close_ends_a_read_that_waits(engine: Engine, spec: ContainerSpec) -> None:
    _, stream = await started(engine, spec, b"echo")
    async with asyncio.TaskGroup() as both:
        waiting = both.create_task(read(stream, 1))
        await asyncio.sleep(0)
        await stream.close()
    assert waiting.result() == b""


async def test_standard_error_is_kept_apart_and_bounded(engine: Engine, spec: ContainerSpec) -> None:
    _, stream = await started(engine, spec, b"complain 100000")
    assert await read(stream, 2**30) == b"done\n"
    assert len(stream.diagnostics) == 8192
    assert stream.diagnostics.endswith(b"yylast")


async def test_killed_container_has_ended(engine: Engine, spec: ContainerSpec) -> None:
    ref, stream = await started(engine, spec, b"flood")
    await stream.close()
    await engine.kill(ref)
    assert (await ended(engine, ref)).exit_code == 137


async def test_flood_that_nobody_reads_blocks_neither_kill_nor_remove(
    engine: Engine, spec: ContainerSpec
) -> None:
    ref, stream = await started(engine, spec, b"flood")
    assert await read(stream, 2**20)
    async with asyncio.timeout(10 * SLOWER_BY):
        await engine.kill(ref)
        await engine.remove(ref)
    assert await stream.read() == b""


async def test_flood_that_nobody_reads_can_be_removed_while_it_runs(
    engine: Engine, spec: ContainerSpec
) -> None:
    ref, stream = await started(engine, spec, b"flood")
    assert await read(stream, 2**20)
    async with asyncio.timeout(10 * SLOWER_BY):
        await engine.remove(ref)
    assert await engine.list_owned(spec.labels[LABEL_DAEMON]) == []


async def test_kill_of_what_has_ended_or_is_gone_is_fine(engine: Engine, spec: ContainerSpec) -> None:
    ref, _ = await started(engine, spec, b"exit 0")
    await ended(engine, ref)
    await engine.kill(ref)
    await engine.remove(ref)
    await engine.kill(ref)
    assert await engine.list_owned(spec.labels[LABEL_DAEMON]) == []


async def test_container_that_makes_way_goes_on_and_may_have_ended_or_be_gone(
    engine: Engine, spec: ContainerSpec
) -> None:
    ref, stream = await started(engine, spec, b"echo")
    await engine.make_way(ref)
    await stream.write(b"still here")
    assert await read(stream, 10) == b"still here"
    await stream.close()
    facts = await ended(engine, ref)
    await engine.make_way(ref)
    assert await engine.facts(ref) == facts
    await engine.remove(ref)
    await engine.make_way(ref)
    assert await engine.list_owned(spec.labels[LABEL_DAEMON]) == []


async def test_remove_is_idempotent(engine: Engine, spec: ContainerSpec) -> None:
    ref = await engine.create(spec)
    await engine.remove(ref)
    await engine.remove(ref)
    assert await engine.list_owned(spec.labels[LABEL_DAEMON]) == []


async def test_container_may_be_removed_twice_at_the_same_time(engine: Engine, spec: ContainerSpec) -> None:
    ref, _ = await started(engine, spec, b"flood")
    async with asyncio.TaskGroup() as both:
        both.create_task(engine.remove(ref))
        both.create_task(engine.remove(ref))
    assert await engine.list_owned(spec.labels[LABEL_DAEMON]) == []


async def test_removed_container_is_missing(engine: Engine, spec: ContainerSpec) -> None:
    ref = await engine.create(spec)
    await engine.remove(ref)
    for call in (engine.facts(ref), engine.start(ref), engine.verify(ref, spec)):
        with pytest.raises(EngineError) as caught:
            await call
        assert caught.value.code == "container.missing"


async def test_owned_containers_are_listed_with_labels_and_state(engine: Engine, spec: ContainerSpec) -> None:
    idle = await engine.create(replace(spec, labels={**spec.labels, LABEL_CONTAINER: ULIDS.new()}))
    busy, _ = await started(engine, spec, b"echo")
    owned = {each.engine_id: each for each in await engine.list_owned(spec.labels[LABEL_DAEMON])}
    assert {key: each.running for key, each in owned.items()} == {idle.engine_id: False, busy.engine_id: True}
    assert owned[busy.engine_id].labels.items() >= spec.labels.items()


async def test_containers_of_another_daemon_are_not_listed(engine: Engine, spec: ContainerSpec) -> None:
    await engine.create(spec)
    assert await engine.list_owned("another") == []


async def test_more_containers_than_threads_talk_at_the_same_time(
    engine: Engine, spec: ContainerSpec
) -> None:
    specs = [replace(spec, labels={**spec.labels, LABEL_CONTAINER: ULIDS.new()}) for _ in range(12)]
    async with asyncio.TaskGroup() as all_of_them:
        starts = [all_of_them.create_task(started(engine, each, b"echo")) for each in specs]
    streams = [start.result()[1] for start in starts]
    for number, stream in enumerate(streams):
        await stream.write(b"%02d" % number)
    assert [await read(stream, 2) for stream in streams] == [b"%02d" % number for number in range(12)]


async def test_engine_says_who_it_is(engine: Engine) -> None:
    info = await engine.info()
    assert info.name
    assert info.version
