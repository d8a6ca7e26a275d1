"""The OCI engine's leftovers after failures, and its reading of container state."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from assayd.clock import UlidGenerator
from assayd.engines.oci import OciEngine
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import LABEL_CONTAINER, LABEL_DAEMON, ContainerRef, ContainerSpec
from support.engines.oci import IMAGES, PYTHON, derive, needs_oci, oci_engine, traces

pytestmark = needs_oci

PROGRAM = """
import os, sys
os.write(1, b"ready")
line = os.read(0, 100)
if line == b"grow":
    held = []
    while True:
        held.append(bytearray(2**20))
os.read(0, 100)
"""
ULIDS = UlidGenerator()


@pytest.fixture(scope="module")
def store() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=IMAGES))
    folder.chmod(0o755)
    derive("assayd-test/grows", [*PYTHON, PROGRAM], folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["plain", "templates"])
async def engine(store: Path, request: pytest.FixtureRequest) -> AsyncIterator[OciEngine]:
    made = oci_engine(store, templates=request.param == "templates")
    yield made
    await made.close()


async def spec(engine: OciEngine, daemon_id: str) -> ContainerSpec:
    image = await engine.image("assayd-test/grows")
    return ContainerSpec(
        image=image.name,
        image_digest=image.digest,
        memory_bytes=48 * 2**20,
        pids=16,
        cpus=1.0,
        work_bytes=4 * 2**20,
        work_files=64,
        open_files=128,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        labels={LABEL_DAEMON: daemon_id, LABEL_CONTAINER: ULIDS.new()},
    )


async def test_kill_for_memory_is_evidence_until_the_container_is_removed(engine: OciEngine) -> None:
    ref = await engine.create(await spec(engine, ULIDS.new()))
    stream = await engine.start(ref)
    assert await stream.read() == b"ready"
    await stream.write(b"grow")
    assert await stream.read() == b""
    async with asyncio.timeout(20):
        while (facts := await engine.facts(ref)).running:
            await asyncio.sleep(0)
    group = engine._containers[ref.engine_id].group
    assert (facts.exit_code, facts.oom_killed) == (137, True)
    assert group.peak_memory_bytes() > 40 * 2**20
    await engine.remove(ref)
    assert traces(ref.engine_id) == []


async def test_container_that_makes_way_weighs_a_tenth_of_another(engine: OciEngine) -> None:
    refs = [await engine.create(await spec(engine, ULIDS.new())) for _ in range(2)]
    await engine.make_way(refs[0])
    path, _ = engine._containers[refs[0].engine_id].group._build_weight_setting(0)
    held, other = (int(Path(path.replace(refs[0].ulid, ref.ulid)).read_text()) for ref in refs)
    for ref in refs:
        await engine.remove(ref)
    assert held == pytest.approx(other / 10, rel=0.25)


async def test_containers_at_the_same_time_are_users_of_their_own(engine: OciEngine) -> None:
    owner = ULIDS.new()
    refs = [await engine.create(await spec(engine, owner)) for _ in range(2)]
    uids = []
    for ref in refs:
        stream = await engine.start(ref)
        assert await stream.read() == b"ready"
        process = engine._containers[ref.engine_id].process
        assert process is not None
        uids.append(Path(f"/proc/{process.pid}").stat().st_uid)
    for ref in refs:
        await engine.remove(ref)
    assert len(set(uids)) == 2
    assert min(uids) >= 0x70000000


async def test_what_an_engine_has_left_is_found_and_removed_by_the_next(
    engine: OciEngine, store: Path
) -> None:
    owner = ULIDS.new()
    ref = await engine.create(await spec(engine, owner))
    assert await (await engine.start(ref)).read() == b"ready"
    launcher = engine._maker._launcher
    assert launcher is not None
    launcher._process.kill()  # what it had goes on without it

    other = oci_engine(store)
    found = {each.engine_id for each in await other.list_owned(owner)}
    for name in found:
        await other.remove(ContainerRef(engine_id=name, ulid=""))
    left = (await other.list_owned(owner), traces(ref.engine_id))
    await other.close()
    # A template was left as well, where there was one.
    assert (ref.engine_id in found, left) == (True, ([], []))


async def test_engine_whose_launcher_died_starts_another(engine: OciEngine) -> None:
    owner = ULIDS.new()
    first = await engine.create(await spec(engine, owner))
    await engine.start(first)
    launcher = engine._maker._launcher
    assert launcher is not None
    launcher._process.kill()
    async with asyncio.timeout(20):
        while not launcher.gone:
            await asyncio.sleep(0)
    second = await engine.create(await spec(engine, owner))
    assert await (await engine.start(second)).read() == b"ready"
    for ref in (first, second):
        await engine.remove(ref)
    assert await engine.list_owned(owner) == []


async def test_cancelled_start_leaves_nothing_once_the_container_is_removed(engine: OciEngine) -> None:
    ref = await engine.create(await spec(engine, ULIDS.new()))
    starting = asyncio.ensure_future(engine.start(ref))
    await asyncio.wait({starting}, timeout=0.02)
    starting.cancel()
    await asyncio.wait({starting})
    await engine.remove(ref)
    assert traces(ref.engine_id) == []


async def test_container_of_a_name_that_is_taken_is_refused_and_the_first_stays(engine: OciEngine) -> None:
    wanted = await spec(engine, ULIDS.new())
    ref = await engine.create(wanted)
    with pytest.raises(Exception, match="already") as caught:
        await engine.create(wanted)
    assert caught.value.code == "engine.name_taken"
    await engine.verify(ref, wanted)
    await engine.remove(ref)
